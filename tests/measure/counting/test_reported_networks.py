"""Networks as people report them to counters: each kind once, with the right value by hand."""

import importlib
from collections import UserDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.counting import Own, counted, linear, nn, on, reported, rows, torch
from torch.ao.quantization import quantize_dynamic
from torch.nn import functional
from torch.nn.utils import prune

from measure.domain.roofs import Roof
from measure.models.call import held_tensors
from measure.timing.sampling import Sampling


def made_in_forward():
    state = 2 * 2 * 5 * 3 * 16 * (8 + 16)  # a step has 3 gates of 16 on 8 inputs and 16 states
    gru = nn.GRU(8, 16, batch_first=True)
    forward = on(lambda self, x: self.gru(x, torch.zeros(1, len(x), 16))[0], 5, 8, gru=gru)
    yield reported("state of a GRU", forward, forward_flop=state, reason=None)

    def lstm(self, x):
        return self.lstm(x, (torch.zeros(1, x.shape[0], 20), torch.zeros(1, x.shape[0], 20)))[0]

    of_lstm = on(lstm, 5, 10, lstm=nn.LSTM(10, 20, batch_first=True))
    yield reported("state of an LSTM", of_lstm, 1, forward_flop=2 * 5 * 4 * 20 * (10 + 20), reason=None)

    tensors = {
        "arange": lambda x: torch.arange(4) * 1.0,
        "tensor": lambda x: torch.tensor([1.0, 2, 3, 4]),
        "linspace": lambda x: torch.linspace(0, 1, 4, device="cpu"),
        "ones": lambda x: torch.ones(4, device=x.device),
        "full": lambda x: torch.full((4,), float(torch.arange(3).sum())),
        "eye": lambda x: torch.eye(4)[torch.arange(4).flip(0)].sum(0),
        "stack": lambda x: torch.stack([torch.tensor(float(each)) for each in range(4)]).to(x),
        "index_fill_": lambda x: torch.zeros(4).index_fill_(0, torch.tensor([1]), 2.0),
    }
    layer = {"forward_flop": 2 * 2 * 4 * 3, "backward_flop": 2 * 2 * 4 * 3, "reason": None}
    for name, make in tensors.items():
        forward = on(lambda self, x, make=make: self.linear(x + make(x)), 4, linear=nn.Linear(4, 3))
        yield reported(name, forward, **layer)

    def known(self, x):
        return self.linear(x) if torch.arange(3).sum().item() == 3 and torch.rand(1).item() < 2 else x

    yield reported("constants keep their values", on(known, 4, linear=nn.Linear(4, 3)), **layer)


def numbers_that_are_read():
    def repeat(self, x):
        for _ in range(int(self.steps)):
            x = self.linear(x)
        return x

    def steps(batch):
        network = Own(repeat, linear=linear(4, 4))
        network.register_buffer("steps", torch.tensor(3))
        return network, rows(batch, 4)

    yield reported("a buffer", steps, forward_flop=3 * 2 * 2 * 4 * 4)

    def packed(self, x, lengths):
        sequences = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.lstm(sequences)[0], batch_first=True)[0]

    lstm = Own(packed, lstm=nn.LSTM(4, 8, batch_first=True))
    lengths = torch.tensor([5, 3])
    yield reported("lengths", lambda batch: (lstm, (rows(batch, 5, 4), lengths)), forward_flop=2 * 8 * 4 * 8 * (4 + 8))

    def queue(self, x):
        """Scores against the last keys, whose place a buffer holds, as in contrastive learning."""
        query = self.linear(x)
        scores, place = query @ self.queue.clone(), int(self.place)
        self.queue[:, place : place + len(x)] = query.detach().T
        self.place[0] = (place + len(x)) % 64
        return scores

    def contrastive(batch):
        network = Own(queue, linear=linear(4, 4))
        network.register_buffer("queue", torch.randn(4, 64))
        network.register_buffer("place", torch.zeros(1, dtype=torch.long))
        return network, rows(batch, 4)

    # A layer of 4 x 4 for 2 rows, and their scores with 64 keys. Backward: the weights; and the gradient of rows.
    scores = 2 * 2 * (16 + 4 * 64)
    yield reported("the place in a queue", contrastive, forward_flop=scores, backward_flop=scores)

    def deeper(self, x):
        """Runs its layer once in the first call, twice in the second."""
        self.calls += 1
        return repeat(SimpleNamespace(steps=self.calls, linear=self.linear), x)

    def twice(batch):
        network = Own(deeper, linear=linear(4, 4))
        network.register_buffer("calls", torch.zeros((), dtype=torch.long))
        return network, rows(batch, 4)

    yield reported("is as before in the next pass", twice, forward_flop=64, backward_flop=64)


def modes():
    def inference(self, x):
        with torch.inference_mode():
            return self.linear(x)

    forward = on(inference, 8, linear=nn.Linear(8, 8))
    # Nothing can be trained: no backward pass, and not 0.
    yield reported("inference_mode", forward, forward_flop=256, forward_other_flop=16, backward_flop=None)

    class Decorated(nn.Sequential):
        forward = torch.inference_mode()(nn.Sequential.forward)

    layers = Decorated(nn.Conv2d(3, 4, 3, bias=False), nn.Flatten(), linear(16, 5))
    yield reported(
        "inference_mode as a decorator",
        lambda batch: (layers, rows(batch, 3, 4, 4)),
        forward_flop=2 * 2 * (4 * 4 * 27 + 16 * 5),
    )

    def autocast(self, x, **settings):
        with torch.autocast(device_type=x.device.type, **settings):
            return self.linear(x)

    half = on(lambda self, x: autocast(self, x, dtype=torch.bfloat16), 8, linear=linear(8, 8))
    yield reported("autocast by the input's device", half, 1, forward_flop=128, output_byte=16)
    off = on(lambda self, x: autocast(self, x, enabled=False), 8, linear=nn.Linear(8, 8))
    yield reported("autocast switched off", off, 1, output_byte=32)

    def forces(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.last(torch.tanh(self.first(x))).sum()
            return torch.autograd.grad(energy, x, create_graph=self.training)[0]

    # Forward, and the gradients of the hidden layer and of the input.
    gradients = on(forces, 3, first=linear(3, 16), last=linear(16, 1))
    yield reported("gradients taken in forward", gradients, forward_flop=2 * 2 * 2 * (3 * 16 + 16))

    once = 2 * 2 * 5 * 4 * 3
    mapped = on(lambda self, x: torch.func.vmap(self.linear)(x), 5, 4, linear=linear(4, 3))
    yield reported("vmap", mapped, forward_flop=once, backward_flop=once)
    # The layer, and for each of its 6 outputs a gradient of 2 x 3 by the weights of 3 x 4.
    jacobian = on(lambda self, x: torch.func.jacrev(self.linear)(x), 4, linear=linear(4, 3))
    yield reported("a Jacobian", jacobian, forward_flop=48 + 6 * 48)


@dataclass
class Output:
    scores: Any
    loss: Any = None


class Slotted:
    __slots__ = ("scores",)

    def __init__(self, scores):
        self.scores = scores


def generated(scores):
    yield scores


def containers():
    layers = nn.Sequential(linear(8, 16), linear(16, 4))
    for wrap in (
        Output, Slotted, generated,
        lambda t: SimpleNamespace(scores=t), lambda t: UserDict(scores=t), lambda t: {"scores": [{"deep": (t,)}]},
        lambda t: Output({"x": [SimpleNamespace(y=t)]}), lambda t: iter([t]), lambda t: {t},
    ):  # fmt: skip
        # Both products; backward the weights of both and the input of the second.
        yield reported(
            "an output", on(lambda self, x, wrap=wrap: wrap(self.layers(x)), 8, layers=layers), 1,
            forward_flop=2 * (8 * 16 + 16 * 4), backward_flop=2 * (8 * 16 + 2 * 16 * 4),
            output_byte=16, activation_byte=4 * (16 + 4),
        )  # fmt: skip

    for hold in (lambda t: [t], lambda t: {"a": {"b": t}}, lambda t: (t, None), Output):
        for tensor in (lambda: torch.ones(4), lambda: torch.tensor([1.0, 2, 3, 4])):

            def make(batch, hold=hold, tensor=tensor):
                scaled = Own(lambda self, x: self.linear(x * held_tensors(self.held)[0]), linear=nn.Linear(4, 3))
                scaled.held = hold(tensor())
                return scaled, rows(batch, 4)

            yield reported("an attribute", make, forward_flop=2 * 2 * 4 * 3)


class KeyCache:
    def __init__(self):
        self.keys = []

    def append(self, key):
        self.keys.append(key)
        return torch.cat(self.keys, 1)


class Joined(list):
    def append(self, key):
        super().append(key)
        return torch.cat(list(self), 1)


def _assign(keys, place, key):
    keys[:, :, place] = key


def caches():
    def attend(self, x):
        key = self.key(x)
        self.keys = key if self.keys is None else torch.cat([self.keys, key], 1)
        self.seen.append(key)
        return x @ self.keys.transpose(1, 2), len(self.seen)

    # 2 sequences of 4 tokens: 8 x 8 each, and scores of 4 x 4 by 8. Backward: the weights, and the gradient of keys.
    flop = 2 * 2 * (4 * 8 * 8 + 4 * 4 * 8)
    in_module = on(attend, 4, 8, key=linear(8, 8), keys=None, seen=[])
    yield reported("in the module", in_module, forward_flop=flop, backward_flop=flop)

    for kind in (KeyCache, Joined):
        for is_input in (True, False):

            def make(batch, kind=kind, is_input=is_input):
                def forward(self, x, cache=None):
                    return self.mix((cache if is_input else self.cache).append(self.key(x)))

                network = Own(forward, key=linear(4, 4), mix=linear(4, 4), cache=kind())
                return network, {"x": rows(batch, 3, 4), **({"cache": kind()} if is_input else {})}

            # 2 sequences of 3 tokens in each layer; backward both weights, and the input of the second layer.
            layer = 2 * 2 * 3 * 4 * 4
            yield reported("filled by each call", make, forward_flop=2 * layer, backward_flop=3 * layer)

    for name, index_byte, write in (
        ("index_copy_", 8, lambda keys, place, key: keys.index_copy_(2, place, key)),
        ("scatter_", 8, lambda keys, place, key: keys.scatter_(2, place.view(1, 1, 1, 1).expand_as(key), key)),
        ("copy_", 0, lambda keys, _place, key: keys[:, :, 7:8].copy_(key)),
        ("assignment", 8, _assign),
    ):

        def step(batch, write=write):
            def forward(self, x, keys, values, place):
                query, key, value = (each(x).view(batch, 1, 8, 64).transpose(1, 2) for each in self.maps)
                write(keys, place, key)
                write(values, place, value)
                return functional.scaled_dot_product_attention(query, keys, values)

            maps = nn.ModuleList(linear(512, 512) for _ in range(3))
            keys, values = (torch.ones(batch, 8, 8192, 64) for _ in range(2))
            return Own(forward, maps=maps), (rows(batch, 1, 512), keys, values, torch.tensor([7]))

        # Both caches once, and three matrices. Vectors of 2,048 B: each product reads and writes one (6), each write
        # reads one and writes it (4), attention reads one and writes one and a logarithm a head; and the indices.
        byte = 2 * 8 * 8192 * 64 * 4 + 3 * 512 * 512 * 4 + 12 * 2048 + 8 * 4 + 2 * index_byte
        yield reported(f"a place of a long one by {name}", step, 1, traffic_byte=byte)


def types_and_weights():
    def fourier(batch):
        layer = linear(8, 6, dtype=torch.cfloat)
        return Own(lambda self, x: self.linear(x.to(torch.cfloat)).abs(), linear=layer), rows(batch, 8)

    for precision in ("fp32", "bf16"):
        yield reported("complex", fourier, 2, precision, parameter_byte=8 * 6 * 8, forward_flop=4 * 2 * 2 * 8 * 6)

    def double(batch):
        parts = {"a": linear(4, 4), "b": linear(4, 4, dtype=torch.float64)}
        return Own(lambda self, x: self.a(x) + self.b(x.double()).to(x), **parts), rows(batch, 4)

    yield reported("double", double, 2, "bf16", parameter_byte=16 * 2 + 16 * 8)

    def tied(batch):
        embedding, head = nn.Embedding(1000, 64), linear(64, 1000)
        embedding.weight = head.weight = nn.Parameter(torch.Tensor(1000, 64))
        return nn.Sequential(embedding, head), torch.zeros(batch, 3, dtype=torch.int64)

    yield reported("tied", tied, parameter_count=64_000, gradient_byte=256_000, adam_byte=2 * 256_000 + 4)

    for norm in (nn.utils.weight_norm, nn.utils.parametrizations.weight_norm):

        def normed(batch, norm=norm):
            return nn.Sequential(*(norm(nn.Conv1d(16, 16, 1)) for _ in range(3))), rows(batch, 16, 250)

        yield reported("parametrized", normed, activation_byte=3 * 2 * 16 * 250 * 4)
    weight = nn.Parameter(torch.ones(8, 5))
    product = on(lambda self, x: self.norm(x) @ self.weight, 8, norm=nn.LayerNorm(8), weight=weight)
    yield reported("a product of its own behind a submodule", product, activation_byte=2 * 4 * (8 + 5))

    def attend(self, x):
        keys = self.key(x).unflatten(-1, (2, 4)).transpose(1, 2)
        return functional.scaled_dot_product_attention(self.queries, keys, keys).flatten(1)

    queries = on(attend, 5, 8, key=linear(8, 8), queries=nn.Parameter(torch.ones(1, 2, 3, 4)))
    for batch in (2, 64):
        # Projections 5 x 8 x 8; 2 heads of 3 queries by 5 keys, 4 wide, twice.
        flop = batch * 2 * (5 * 8 * 8 + 2 * 2 * 3 * 5 * 4)
        yield reported("queries shared by a batch", queries, batch, forward_flop=flop, output_byte=batch * 96)


@pytest.mark.parametrize(
    "case", [*made_in_forward(), *numbers_that_are_read(), *modes(), *containers(), *caches(), *types_and_weights()]
)
def test_by_hand(case):
    row = counted(case.make, case.batch, case.precision)
    assert {name: getattr(row, name) for name in case.expected} == case.expected


def test_batch_normalisation_of_one_value():
    network = on(lambda self, x: self.layers(x), 3, layers=nn.Sequential(linear(3, 4), nn.BatchNorm1d(4), linear(4, 2)))
    one, two = counted(network, 1), counted(network, 2)
    assert (two.reason, "batch normalisation" in one.reason) == (None, True)
    assert one.backward_flop == 2 * (3 * 4 + 2 * 4 * 2) == two.backward_flop // 2
    assert one.gradient_byte == two.gradient_byte


def unknown(self, x):
    state = torch.zeros(4)
    state[:] = x[0]  # written into memory that had values
    return self.linear(x) if state.sum().item() > 0 else x


def jagged(batch):
    parts = [torch.ones(2 + each, 8) for each in range(batch)]
    return nn.Linear(8, 4), torch.nested.nested_tensor(parts, layout=torch.jagged)


def whole(make):
    return lambda batch: (make(nn.Linear(3, 2)), rows(batch, 3))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        # What depends on values: the module, the operator and the remedy
        (on(unknown, 4, linear=nn.Linear(4, 3)), r"^Own, operator _local_scalar_dense: .*by shapes"),
        (on(lambda self, x: self.a(x) if x.sum() > 0 else x, 4, a=nn.Linear(4, 3)), "^Own, operator _local_scalar_"),
        (on(lambda self, x: self.a(x)[x[:, 0] > 0], 4, a=nn.Linear(4, 3)), r"^Own, operator (nonzero|index): "),
        (on(lambda self, x: self.a(x).detach().numpy(), 4, a=nn.Linear(4, 3)), "^Own: .*values"),
        (on(lambda self, x: torch.sparse.mm(self.a(x).to_sparse(), x), 2, a=nn.Linear(2, 2)), "_to_sparse: .*to_dense"),
        (on(lambda self, x: torch.cond(x.sum() > 0, self.a, lambda x: x, (x,)), 4, a=nn.Linear(4, 4)), "cond"),
        (on(lambda self, x: self.a(x[:, :3]), 4, a=nn.Linear(4, 3)), r"^a \(Linear\), operator addmm: RuntimeError: "),
        # Modules that do not show
        (whole(lambda net: torch.export.export(net, (torch.ones(2, 3),)).module()), "exported program"),
        (whole(lambda _net: nn.Sequential(nn.LazyLinear(3))), r"^0\.weight .*call .* once"),
        (whole(lambda net: quantize_dynamic(nn.Sequential(net), {nn.Linear})), "^0 hides"),
        (whole(torch.jit.script), r"TorchScript.*torch\.nn\.Module"),
        (whole(lambda net: torch.jit.trace(net, torch.ones(2, 3))), r"TorchScript.*torch\.nn\.Module"),
        # Inputs without a single block of memory
        (lambda batch: (nn.Linear(4, 3), rows(batch, 4).to_sparse()), "an input is a sparse .*convert"),
        (jagged, "an input is a nested .*pad"),
    ],
)
def test_a_refusal_names_module_and_operator(make, named):
    with pytest.raises((NotImplementedError, RuntimeError), match=named) as caught:
        counted(make)
    assert "\n" not in str(caught.value)
    assert "0x" not in str(caught.value)


def forces(self, x):
    with torch.enable_grad():
        x = x.detach().requires_grad_()
        return torch.autograd.grad(self.layers(x).sum(), x)[0]


@pytest.mark.parametrize(
    ("network", "shape"),
    [
        (nn.utils.weight_norm(nn.Linear(4, 3)), (4,)),
        (nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)), (4,)),
        (prune.l1_unstructured(nn.Linear(4, 3), "weight", 0.5), (4,)),
        (Own(forces, layers=nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))), (3,)),
    ],
)
def test_a_users_network_is_counted_and_timed_as_it_is(network, shape, monkeypatch):
    one = importlib.import_module("measure.verbs.model")
    monkeypatch.setattr(one, "ROUND_SAMPLING", Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0))
    monkeypatch.setattr(one, "_roof", lambda *_: Roof({}, None))
    before = {name: value.clone() for name, value in network.state_dict().items()}
    answer = one.model(network, rows(2, *shape))
    assert answer.demands[0].flop > 0
    assert answer.cells[0].timed.latency_s > 0
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
