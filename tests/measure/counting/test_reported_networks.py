"""Networks as people report them to counters: each kind once, with the right value by hand."""

import importlib
from collections import UserDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
from helpers.counting import Own, nn, rows, torch
from torch.nn import functional
from torch.nn.utils import prune

from measure.domain.roofs import Roof
from measure.timing.sampling import Sampling


def test_a_state_made_in_forward_on_the_default_device(counted):
    def gru(batch):
        net = Own(lambda self, x: self.gru(x, torch.zeros(1, len(x), 16))[0], gru=nn.GRU(8, 16, batch_first=True))
        return net, rows(batch, 5, 8)

    row = counted(gru)
    # A step has 3 gates of 16 on 8 inputs and 16 states; the first layer's input needs no gradient.
    assert row.forward_flop == 2 * 2 * 5 * 3 * 16 * (8 + 16) == 23_040
    assert row.reason is None

    def lstm(batch):
        def forward(self, x):
            state = torch.zeros(1, x.shape[0], 20), torch.zeros(1, x.shape[0], 20)
            return self.lstm(x, state)[0]

        return Own(forward, lstm=nn.LSTM(10, 20, batch_first=True)), rows(batch, 5, 10)

    assert counted(lstm, 1).forward_flop == 2 * 5 * 4 * 20 * (10 + 20) == 24_000


@pytest.mark.parametrize(
    "make",
    [
        lambda x: torch.arange(4) * 1.0,
        lambda x: torch.tensor([1.0, 2, 3, 4]),
        lambda x: torch.linspace(0, 1, 4, device="cpu"),
        lambda x: torch.ones(4, device=x.device),
        lambda x: torch.full((4,), float(torch.arange(3).sum())),
        lambda x: torch.eye(4)[torch.arange(4).flip(0)].sum(0),
        lambda x: torch.stack([torch.tensor(float(each)) for each in range(4)]).to(x),
        lambda x: torch.zeros(4).index_fill_(0, torch.tensor([1]), 2.0),
    ],
)
def test_tensors_made_in_forward_mix_with_others(counted, make):
    net = Own(lambda self, x: self.linear(x + make(x)), linear=nn.Linear(4, 3))
    row = counted(lambda batch: (net, rows(batch, 4)))
    assert (row.forward_flop, row.backward_flop, row.reason) == (2 * 2 * 4 * 3, 2 * 2 * 4 * 3, None)


def test_constants_keep_their_values_and_what_meets_an_input_has_none(counted):
    def known(self, x):
        return self.linear(x) if torch.arange(3).sum().item() == 3 and torch.rand(1).item() < 2 else x

    row = counted(lambda batch: (Own(known, linear=nn.Linear(4, 3)), rows(batch, 4)))
    assert row.forward_flop == 2 * 2 * 4 * 3

    def unknown(self, x):
        state = torch.zeros(4)
        state[:] = x[0]  # written into memory that had values
        return self.linear(x) if state.sum().item() > 0 else x

    with pytest.raises(NotImplementedError, match=r"^Own, operator _local_scalar_dense: it reads values.*by shapes"):
        counted(lambda batch: (Own(unknown, linear=nn.Linear(4, 3)), rows(batch, 4)))


def test_a_network_reads_its_buffers_and_lengths_among_its_inputs(counted):
    def repeat(self, x):
        for _ in range(int(self.steps)):
            x = self.linear(x)
        return x

    def steps(batch):
        net = Own(repeat, linear=nn.Linear(4, 4, bias=False))
        net.register_buffer("steps", torch.tensor(3))
        return net, rows(batch, 4)

    assert counted(steps).forward_flop == 3 * 2 * 2 * 4 * 4

    def packed(self, x, lengths):
        sequences = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.lstm(sequences)[0], batch_first=True)[0]

    lstm = nn.LSTM(4, 8, batch_first=True)
    row = counted(lambda batch: (Own(packed, lstm=lstm), (rows(batch, 5, 4), torch.tensor([5, 3]))))
    assert row.forward_flop == 2 * (5 + 3) * 4 * 8 * (4 + 8)


class Queue(nn.Module):
    """Scores against the last keys, whose place a buffer holds, as in contrastive learning."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4, bias=False)
        self.register_buffer("queue", torch.randn(4, 64))
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        query = self.linear(x)
        scores, place = query @ self.queue.clone(), int(self.place)
        self.queue[:, place : place + len(x)] = query.detach().T
        self.place[0] = (place + len(x)) % 64
        return scores


class Deeper(nn.Module):
    """Runs its layer once in the first call, twice in the second."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4, bias=False)
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))

    def forward(self, x):
        self.calls += 1
        for _ in range(int(self.calls)):
            x = self.linear(x)
        return x


@pytest.mark.parametrize(
    ("network", "forward", "backward"),
    [
        # A layer of 4 x 4 for 2 rows, and their scores with 64 keys. Backward: the weights; and the gradient of rows.
        (Queue, 2 * 2 * (16 + 4 * 64), 2 * 2 * (16 + 4 * 64)),
        (Deeper, 2 * 2 * 16, 2 * 2 * 16),
    ],
)
def test_a_number_in_a_buffer_is_read_and_is_as_before_in_the_next_pass(counted, network, forward, backward):
    row = counted(lambda batch: (network(), rows(batch, 4)))
    assert (row.forward_flop, row.backward_flop) == (forward, backward)


def test_inference_mode_within_the_network(counted):
    def forward(self, x):
        with torch.inference_mode():
            return self.linear(x)

    row = counted(lambda batch: (Own(forward, linear=nn.Linear(8, 8)), rows(batch, 8)))
    assert (row.forward_flop, row.forward_other_flop) == (256, 16)
    # Nothing can be trained: that is a reason and not 0.
    assert row.backward_flop is None
    assert "no output has a gradient" in row.reason

    class Decorated(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Conv2d(3, 4, 3, bias=False), nn.Flatten(), nn.Linear(16, 5, bias=False))

        @torch.inference_mode()
        def forward(self, x):
            return self.layers(x)

    assert counted(lambda batch: (Decorated(), rows(batch, 3, 4, 4))).forward_flop == 2 * 2 * (4 * 4 * 27 + 16 * 5)


def test_autocast_by_the_inputs_device(counted):
    def forward(self, x):
        with torch.autocast(device_type=x.device.type, dtype=torch.bfloat16):
            return self.linear(x)

    row = counted(lambda batch: (Own(forward, linear=nn.Linear(8, 8, bias=False)), rows(batch, 8)), 1)
    assert (row.forward_flop, row.output_byte) == (128, 16)

    def switched_off(self, x):
        with torch.autocast(device_type=x.device.type, enabled=False):
            return self.linear(x)

    assert counted(lambda batch: (Own(switched_off, linear=nn.Linear(8, 8)), rows(batch, 8)), 1).output_byte == 32


def test_gradients_taken_in_forward(counted):
    def forces(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.last(torch.tanh(self.first(x))).sum()
            return torch.autograd.grad(energy, x, create_graph=self.training)[0]

    net = Own(forces, first=nn.Linear(3, 16, bias=False), last=nn.Linear(16, 1, bias=False))
    # Forward, and the gradients of the hidden layer and of the input.
    assert counted(lambda batch: (net, rows(batch, 3))).forward_flop == 2 * 2 * 2 * (3 * 16 + 16)


def test_vmap_and_jacobians(counted):
    net = Own(lambda self, x: torch.func.vmap(self.linear)(x), linear=nn.Linear(4, 3, bias=False))
    row = counted(lambda batch: (net, rows(batch, 5, 4)))
    assert (row.forward_flop, row.backward_flop) == (2 * 2 * 5 * 4 * 3, 2 * 2 * 5 * 4 * 3)

    jacobian = Own(lambda self, x: torch.func.jacrev(self.linear)(x), linear=nn.Linear(4, 3, bias=False))
    assert counted(lambda batch: (jacobian, rows(batch, 4))).forward_flop > 2 * 2 * 4 * 3


def cond(x, linear):
    return torch.cond(x.sum() > 0, lambda x: linear(x), lambda x: x, (x,))


def test_a_branch_of_torch_is_refused_by_name(counted):
    with pytest.raises(Exception, match="cond") as caught:
        counted(lambda batch: (Own(lambda self, x: cond(x, self.linear), linear=nn.Linear(4, 4)), rows(batch, 4)))
    assert "0x" not in str(caught.value)


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


@pytest.mark.parametrize(
    "wrap",
    [
        Output, Slotted, generated,
        lambda t: SimpleNamespace(scores=t), lambda t: UserDict(scores=t), lambda t: {"scores": [{"deep": (t,)}]},
        lambda t: Output({"x": [SimpleNamespace(y=t)]}), lambda t: iter([t]), lambda t: {t},
    ],
)  # fmt: skip
def test_outputs_in_any_container(counted, wrap):
    def network(batch):
        layers = nn.Sequential(nn.Linear(8, 16, bias=False), nn.Linear(16, 4, bias=False))
        return Own(lambda self, x: wrap(self.layers(x)), layers=layers), rows(batch, 8)

    row = counted(network, 1)
    # Both products; backward the weights of both and the input of the second.
    assert (row.forward_flop, row.output_byte) == (2 * (8 * 16 + 16 * 4), 16)
    assert row.backward_flop == 2 * (8 * 16 + 2 * 16 * 4) == 512
    assert row.activation_byte == 4 * (16 + 4)


def test_a_cache_in_the_module_is_as_empty_in_training_as_in_inference(counted):
    def forward(self, x):
        key = self.key(x)
        self.keys = key if self.keys is None else torch.cat([self.keys, key], 1)
        self.seen.append(key)
        return x @ self.keys.transpose(1, 2), len(self.seen)

    net = Own(forward, key=nn.Linear(8, 8, bias=False), keys=None, seen=[])
    row = counted(lambda batch: (net, rows(batch, 4, 8)))
    # 2 sequences of 4 tokens: 8 x 8 each, and scores of 4 x 4 by 8. Backward: the weights, and the gradient of keys.
    assert row.forward_flop == 2 * 2 * (4 * 8 * 8 + 4 * 4 * 8)
    assert row.backward_flop == row.forward_flop


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


@pytest.mark.parametrize("cache", [KeyCache, Joined], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("is_input", [True, False], ids=["an input", "an attribute"])
def test_a_cache_that_each_call_fills_is_as_before_in_the_next(counted, cache, is_input):
    def network(batch):
        def forward(self, x, cache=None):
            return self.mix((cache if is_input else self.cache).append(self.key(x)))

        parts = {"key": nn.Linear(4, 4, bias=False), "mix": nn.Linear(4, 4, bias=False), "cache": cache()}
        return Own(forward, **parts), {"x": rows(batch, 3, 4), **({"cache": cache()} if is_input else {})}

    row = counted(network)
    # 2 sequences of 3 tokens in each layer; backward both weights, and the input of the second layer.
    assert row.forward_flop == 2 * (2 * 2 * 3 * 4 * 4)
    assert row.backward_flop == 3 * (2 * 2 * 3 * 4 * 4)


def _setting(keys, place, key):
    keys[:, :, place] = key


@pytest.mark.parametrize(
    "write",
    [
        lambda keys, place, key: keys.index_copy_(2, place, key),
        lambda keys, place, key: keys.scatter_(2, place.view(1, 1, 1, 1).expand_as(key), key),
        lambda keys, _place, key: keys[:, :, 7:8].copy_(key),
        _setting,
    ],
    ids=["index_copy_", "scatter_", "copy_", "assignment"],
)
def test_one_step_into_a_long_cache_writes_one_place(counted, write):
    def network(batch):
        def forward(self, x, keys, values, place):
            query, key, value = (each(x).view(batch, 1, 8, 64).transpose(1, 2) for each in self.maps)
            write(keys, place, key)
            write(values, place, value)
            return functional.scaled_dot_product_attention(query, keys, values)

        maps = nn.ModuleList(nn.Linear(512, 512, bias=False) for _ in range(3))
        caches = [torch.ones(batch, 8, 8192, 64) for _ in range(2)]
        return Own(forward, maps=maps), (rows(batch, 1, 512), *caches, torch.tensor([7]))

    row = counted(network, 1)
    # Both caches once, and three matrices. Vectors of 2,048 B: each product reads and writes one (6), each write reads
    # one and writes it (4), attention reads one and writes one and a logarithm a head. Most writes read an index.
    least = 2 * 8 * 8192 * 64 * 4 + 3 * 512 * 512 * 4 + 12 * 2048 + 8 * 4
    assert row.traffic_byte - least in (0, 2 * 8)


def test_complex_and_double_parts_keep_their_type(counted):
    def fourier(batch):
        return Own(lambda self, x: self.linear(x.to(torch.cfloat)).abs(), linear=nn.Linear(8, 6, dtype=torch.cfloat,
                   bias=False)), rows(batch, 8)  # fmt: skip

    for precision in ("fp32", "bf16"):
        row = counted(fourier, 2, precision)
        assert row.parameter_byte == 8 * 6 * 8 == 384
        assert row.forward_flop == 4 * 2 * 2 * 8 * 6

    def double(batch):
        net = Own(lambda self, x: self.a(x) + self.b(x.double()).to(x), a=nn.Linear(4, 4, bias=False),
                  b=nn.Linear(4, 4, bias=False, dtype=torch.float64))  # fmt: skip
        return net, rows(batch, 4)

    assert counted(double, 2, "bf16").parameter_byte == 16 * 2 + 16 * 8


def test_shared_weights_made_on_the_cpu_stay_shared(counted):
    def tied(batch):
        table = nn.Parameter(torch.Tensor(1000, 64))
        head = nn.Linear(64, 1000, bias=False)
        embedding = nn.Embedding(1000, 64)
        embedding.weight = head.weight = table
        return nn.Sequential(embedding, head), torch.zeros(batch, 3, dtype=torch.int64)

    row = counted(tied)
    assert (row.parameter_count, row.gradient_byte, row.adam_byte) == (64_000, 256_000, 512_004)


@pytest.mark.parametrize("hold", [lambda t: [t], lambda t: {"a": {"b": t}}, lambda t: (t, None), lambda t: Output(t)])
@pytest.mark.parametrize("tensor", [lambda: torch.ones(4), lambda: torch.tensor([1.0, 2, 3, 4])])
def test_tensors_kept_in_containers(counted, hold, tensor):
    def first(value):
        (found,) = own_tensors(value)
        return found

    def network(batch):
        net = Own(lambda self, x: self.linear(x * first(self.held)), linear=nn.Linear(4, 3), held=hold(tensor()))
        return net, rows(batch, 4)

    assert counted(network).forward_flop == 2 * 2 * 4 * 3


def own_tensors(value):
    from measure.models.call import held_tensors

    return held_tensors(value)


def test_attention_over_a_broadcast_batch(counted):
    def network(batch):
        def forward(self, x):
            keys = self.key(x).unflatten(-1, (2, 4)).transpose(1, 2)
            return functional.scaled_dot_product_attention(self.queries, keys, keys).flatten(1)

        net = Own(forward, key=nn.Linear(8, 8, bias=False), queries=nn.Parameter(torch.ones(1, 2, 3, 4)))
        return net, rows(batch, 5, 8)

    for batch in (2, 64):
        row = counted(network, batch)
        # Projections 5 x 8 x 8; 2 heads of 3 queries by 5 keys, 4 wide, twice.
        assert row.forward_flop == batch * 2 * (5 * 8 * 8 + 2 * 2 * 3 * 5 * 4)
        assert row.output_byte == batch * 2 * 3 * 4 * 4


@pytest.mark.parametrize("norm", [nn.utils.weight_norm, nn.utils.parametrizations.weight_norm])
def test_the_footprint_of_a_parametrized_layer_is_that_of_its_output(counted, norm):
    def network(batch):
        layers = [norm(nn.Conv1d(16, 16, 1)) for _ in range(3)]
        return nn.Sequential(*layers), rows(batch, 16, 250)

    assert counted(network).activation_byte == 3 * 2 * 16 * 250 * 4 == 96_000


def test_the_output_of_a_layer_with_a_product_of_its_own_and_a_submodule(counted):
    def network(batch):
        net = Own(
            lambda self, x: self.norm(x) @ self.weight, norm=nn.LayerNorm(8), weight=nn.Parameter(torch.ones(8, 5))
        )
        return net, rows(batch, 8)

    assert counted(network).activation_byte == 2 * 4 * (8 + 5)


def test_batch_normalisation_of_one_value(counted):
    def network(batch):
        return nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.Linear(4, 2)), rows(batch, 3)

    one, two = counted(network, 1), counted(network, 2)
    assert two.reason is None
    assert one.backward_flop == 2 * (3 * 4 + 2 * 4 * 2) == two.backward_flop // 2
    assert one.gradient_byte == two.gradient_byte
    assert "batch normalisation" in one.reason


def test_a_network_whose_modules_are_hidden_is_refused_in_one_sentence(counted):
    exported = torch.export.export(nn.Linear(3, 2), (torch.ones(2, 3),)).module()
    with pytest.raises(NotImplementedError, match="exported program"):
        counted(lambda batch: (exported, rows(batch, 3)))
    with pytest.raises(NotImplementedError, match=r"0\.weight has no shape before the first call; call .* once"):
        counted(lambda batch: (nn.Sequential(nn.LazyLinear(3)), rows(batch, 3)))
    quantised = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 2)), {nn.Linear})
    with pytest.raises(NotImplementedError, match=r"0 hides its weights; .* before quantisation"):
        counted(lambda batch: (quantised, rows(batch, 3)))
    for make in (torch.jit.script, lambda net: torch.jit.trace(net, torch.ones(2, 3))):
        with pytest.raises(NotImplementedError, match=r"TorchScript.*plain torch\.nn\.Module"):
            counted(lambda batch, make=make: (make(nn.Linear(3, 2)), rows(batch, 3)))


@pytest.mark.parametrize(
    ("forward", "sentence"),
    [
        (lambda self, x: self.linear(x)[x[:, 0] > 0], r"^Own, operator (nonzero|index): it reads values of tensors"),
        (lambda self, x: self.linear(x).detach().numpy(), "^Own: it reads values of tensors"),
        (lambda self, x: self.linear(x[:, :3]), r"^linear \(Linear\), operator addmm: RuntimeError: a and b must"),
        (lambda self, x: self.linear(x) if x.sum() > 0 else x, "^Own, operator _local_scalar_dense: it reads values"),
    ],
)
def test_a_refusal_names_module_and_operator(counted, forward, sentence):
    with pytest.raises(Exception, match=sentence):
        counted(lambda batch: (Own(forward, linear=nn.Linear(4, 3)), rows(batch, 4)))


def test_inputs_that_have_no_single_block_of_memory_are_refused(counted):
    net = Own(lambda self, x: torch.sparse.mm(x, self.linear.weight.t()), linear=nn.Linear(4, 3))
    with pytest.raises(NotImplementedError, match=r"an input is a sparse tensor; .*convert it"):
        counted(lambda batch: (net, rows(batch, 4).to_sparse()))

    def jagged(batch):
        parts = [torch.ones(2 + each, 8) for each in range(batch)]
        return nn.Linear(8, 4), torch.nested.nested_tensor(parts, layout=torch.jagged)

    with pytest.raises(NotImplementedError, match=r"an input is a nested tensor; .*pad"):
        counted(jagged)

    made = Own(lambda self, x: torch.sparse.mm(self.linear(x).to_sparse(), x), linear=nn.Linear(4, 4))
    with pytest.raises(NotImplementedError, match=r"^Own, operator _to_sparse: .*values; use to_dense"):
        counted(lambda batch: (made, rows(4, 4)), 4)


class Forces(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))

    def forward(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            return torch.autograd.grad(self.layers(x).sum(), x)[0]


def test_a_users_network_is_counted_and_timed_as_it_is(monkeypatch):
    one = importlib.import_module("measure.verbs.model")
    monkeypatch.setattr(one, "QUICK_ROUND", Sampling(warm_up_s=0.0, least_s=0.0, limit_s=0.0))
    monkeypatch.setattr(one, "_roof", lambda *_: Roof({}, None))
    for network, inputs in (
        (nn.utils.weight_norm(nn.Linear(4, 3)), rows(2, 4)),
        (nn.utils.parametrizations.orthogonal(nn.Linear(4, 4)), rows(2, 4)),
        (prune.l1_unstructured(nn.Linear(4, 3), "weight", 0.5), rows(2, 4)),
        (Own(lambda self, x: self.gru(x, torch.zeros(1, 2, 4)), gru=nn.GRU(4, 4, batch_first=True)), rows(2, 5, 4)),
        (Forces(), rows(2, 3)),
        (Own(lambda self, x: Output(self.linear(x)), linear=nn.Linear(4, 3)), rows(2, 4)),
    ):
        before = {name: value.clone() for name, value in network.state_dict().items()}
        answer = one.model(network, inputs)
        assert answer.demands[0].flop > 0
        assert answer.cells[0].timed.latency_s > 0
        assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    with pytest.raises(NotImplementedError, match="TorchScript"):
        one.model(torch.jit.script(nn.Linear(4, 3)), rows(2, 4))
