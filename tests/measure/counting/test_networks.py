"""Networks as people report them to counters: each kind once, with the right value by hand."""

import random
import secrets
from collections import UserDict
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from helpers.counting import Own, counted, linear, nn, on, reported, rows, torch
from torch.nn import functional

COUNTED = {"reason": None, "uncounted": None}


def made_in_forward():
    def constant(_x):
        return 1.0 if torch.arange(3).sum().item() == 3 and torch.rand(1).item() < 2 else torch.zeros(9)

    layer = {"forward_flop": 2 * 2 * 4 * 3, "backward_flop": 2 * 2 * 4 * 3, "reason": None}
    for name, make in {
        "constants keep their values": constant,
        "full": lambda x: torch.full((4,), float(torch.arange(3).sum())),
        "eye": lambda x: torch.eye(4)[torch.arange(4).flip(0)].sum(0),
        "index_fill_": lambda x: torch.zeros(4).index_fill_(0, torch.tensor([1]), 2.0),
    }.items():
        forward = on(lambda self, x, make=make: self.linear(x + make(x)), 4, linear=nn.Linear(4, 3))
        yield reported(name, forward, **layer)


def numbers_that_are_read():
    def packed(self, x, lengths):
        sequences = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return nn.utils.rnn.pad_packed_sequence(self.lstm(sequences)[0], batch_first=True)[0]

    lstm = Own(packed, lstm=nn.LSTM(4, 8, batch_first=True))
    lengths = torch.tensor([5, 3])
    yield reported("lengths", lambda batch: (lstm, (rows(batch, 5, 4), lengths)), forward_flop=2 * 8 * 4 * 8 * (4 + 8))


def modes():
    class Decorated(nn.Sequential):
        forward = torch.inference_mode()(nn.Sequential.forward)

    layers = Decorated(nn.Conv2d(3, 4, 3, bias=False), nn.Flatten(), linear(16, 5))
    # Nothing can be trained: no backward pass, and not 0.
    flop = {"forward_flop": 2 * 2 * (4 * 4 * 27 + 16 * 5), "backward_flop": None}
    yield reported("inference_mode", lambda batch: (layers, rows(batch, 3, 4, 4)), **flop)

    def half(self, x):
        with torch.autocast(device_type=x.device.type, dtype=torch.bfloat16):
            return self.linear(x)

    layer = on(half, 8, linear=linear(8, 8))
    yield reported("autocast by the input's device", layer, 1, forward_flop=128, output_byte=16)

    def forces(self, x):
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            energy = self.last(torch.tanh(self.first(x))).sum()
            return torch.autograd.grad(energy, x, create_graph=self.training)[0]

    # Forward, and the gradients of the hidden layer and of the input.
    gradients = on(forces, 3, first=linear(3, 16), last=linear(16, 1))
    yield reported("gradients taken in forward", gradients, forward_flop=2 * 2 * 2 * (3 * 16 + 16))


@dataclass
class Output:
    scores: Any
    loss: Any = None


class Slotted:
    __slots__ = ("scores",)

    def __init__(self, scores):
        self.scores = scores


def containers():
    layers = nn.Sequential(linear(8, 16), linear(16, 4))
    for wrap in (Slotted, lambda t: UserDict(scores=t), lambda t: Output({"x": [SimpleNamespace(y=(t,))]}), iter):
        # Both products; backward the weights of both and the input of the second.
        flop = {"forward_flop": 2 * (8 * 16 + 16 * 4), "backward_flop": 2 * (8 * 16 + 2 * 16 * 4)}
        make = on(lambda self, x, wrap=wrap: wrap(self.layers(x)), 8, layers=layers)
        yield reported("an output", make, 1, output_byte=16, activation_byte=4 * (16 + 4), **flop)


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


def types_and_weights():
    def fourier(batch):
        layer = linear(8, 6, dtype=torch.cfloat)
        return Own(lambda self, x: self.linear(x.to(torch.cfloat)).abs(), linear=layer), rows(batch, 8)

    yield reported("complex", fourier, 2, "bf16", parameter_byte=8 * 6 * 8, forward_flop=4 * 2 * 2 * 8 * 6)

    for norm in (nn.utils.weight_norm, nn.utils.parametrizations.weight_norm):

        def normed(batch, norm=norm):
            return nn.Sequential(*(norm(nn.Conv1d(16, 16, 1)) for _ in range(3))), rows(batch, 16, 250)

        yield reported("parametrized", normed, activation_byte=3 * 2 * 16 * 250 * 4)
    weight = nn.Parameter(torch.ones(8, 5))
    product = on(lambda self, x: self.norm(x) @ self.weight, 8, norm=nn.LayerNorm(8), weight=weight)
    yield reported("a product of its own behind a submodule", product, activation_byte=2 * 4 * (8 + 5))


def nested_tensors():
    def nested(tokens, starts):
        return torch.nested.nested_tensor_from_jagged(tokens.flatten(0, 1), starts)

    def attend(self, tokens):
        starts = torch.tensor([0, 2, 6])  # two sequences of 2 and 4 tokens
        heads = nested(self.linear(tokens), starts).unflatten(-1, (2, 2)).transpose(1, 2)
        return functional.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2).flatten(2).values()

    # 6 tokens by 4 x 4; 2 heads of 2 * 2 and 4 * 4 scores of width 2, twice. Backward the weights, and attention twice.
    layer, attention = 2 * 6 * 16, 2 * 2 * (2 * (4 + 16)) * 2
    flop = {"forward_flop": layer + attention, "backward_flop": layer + 2 * attention}
    yield reported("attention, starts within", on(attend, 3, 4, linear=linear(4, 4)), **flop, **COUNTED)


def gradients_by_torch_func():
    # Products of 2 rows by 4 x 4, 64 FLOP each.
    for name, forward, products, backward in (
        # The layer, its input's gradient, and the layer again; backward the weight's gradient of the last two.
        ("grad", lambda self, x: torch.func.grad(lambda y: self.linear(y).sum())(x) + self.linear(x), 3, 2),
        # By rows: the layer and its input's gradient; backward the weight's gradient by both, and between them.
        ("vmap", lambda self, x: torch.func.vmap(torch.func.grad(lambda y: self.linear(y).tanh().sum()))(x), 2, 3),
    ):
        flop = {"forward_flop": 64 * products, "backward_flop": 64 * backward}
        yield reported(name, on(forward, 4, linear=linear(4, 4)), **flop, **COUNTED)


def losses():
    def transcribed(self, x):
        likely, counts = self.linear(x).log_softmax(-1).transpose(0, 1), torch.tensor([3, 3])
        lengths = torch.tensor([7, 6])
        return functional.ctc_loss(likely, torch.ones(2, 3, dtype=torch.int64), lengths, counts, reduction="sum")

    # 14 rows of 5: maxima and sums 4 each, differences and exponentials 5, a logarithm; 14 * 7 states of 13; a sum.
    other, product = 14 * (4 + 5 + 5 + 4 + 1 + 5) + 98 * 13 + 1, 2 * 14 * 4 * 5
    work = {"forward_flop": product, "backward_flop": product, "forward_other_flop": other}
    yield reported("loss over sequences", on(transcribed, 7, 4, linear=linear(4, 5)), **work, **COUNTED)
    chances = on(lambda self, x: torch.distributions.Categorical(logits=self.linear(x)), 4, linear=linear(4, 4))
    yield reported("distribution", chances, forward_flop=64, backward_flop=64)


# Not "sparse": a network that names torch.sparse would hold this function, and in it all that pytest holds.
def sparse_matrices():
    # A layer of 4 nodes by 4 x 4, 128 FLOP; 4 edges, each with a row of 4, 32 FLOP. Backward the layer's weight, and
    # the edges the other way round.
    def edges(pairs):
        return torch.sparse_coo_tensor(pairs.t(), torch.ones(4), (4, 4))

    for name, forward, products, other, more in (
        ("mm", lambda self, x, pairs: torch.sparse.mm(edges(pairs), self.linear(x)), 32, 0, 0),
        # Equal edges are added first: at most as many as there are.
        ("sum", lambda self, x, pairs: edges(pairs).coalesce() @ self.linear(x), 32, 4, 0),
        ("by rows", lambda self, x, pairs: torch.eye(4).to_sparse_csr() @ self.linear(x), 32, 0, 0),
        ("scaled", lambda self, x, pairs: (edges(pairs) * 0.5) @ self.linear(x), 32, 4, 0),
        ("two", lambda self, x, pairs: (edges(pairs) + edges(pairs)) @ self.linear(x), 2 * 32, 0, 0),
        # 4 edges, or 16 other numbers, are added to dense ones.
        ("with dense", lambda self, x, pairs: self.linear(x) + edges(pairs), 0, 4, 0),
        ("addmm", lambda self, x, pairs: torch.sparse.addmm(x, edges(pairs), self.linear(x)), 32, 16, 0),
        # Weights of the edges that are learnt: torch takes their gradient as a dense product of 4 x 4 by 4.
        ("learnt", lambda self, x, pairs: torch.sparse_coo_tensor(pairs.t(), self.weights, (4, 4)) @ self.linear(x),
         32, 0, 128),
    ):  # fmt: skip

        def make(batch, forward=forward):
            network = Own(forward, linear=linear(4, 4), weights=nn.Parameter(torch.ones(4)))
            return network, (rows(batch, 4), torch.zeros(batch, 2, dtype=torch.int64))

        work = {"forward_flop": 128 + products, "forward_other_flop": other, "backward_flop": 128 + products + more}
        yield reported(name, make, 4, **work, **COUNTED)

    def bags(batch):
        network = nn.Sequential(nn.EmbeddingBag(1000, 4, sparse=True), linear(4, 2))
        return network, torch.zeros(batch, 3, dtype=torch.int64)

    # 6 rows of 4 numbers, and an index of 8 bytes each: as large as the rows read, not as the table. They are copied.
    read, averages = 6 * (16 + 8), 2 * 4 * (4000 + 8) + 4 * 2  # averages of the whole table
    # Two products of 2 x 2, 2 x 4 and 4 x 2 numbers (80 B); 2 gradients of 4 (32), 6 indices (48), the bag of each
    # (48), offsets and sizes of 2 bags (32); rows are written, and copied.
    gradients = {"gradient_byte": read + 4 * 8, "backward_traffic_byte": 2 * 80 + 160 + read + 2 * read}
    yield reported("sparse bags", bags, adam_byte=averages, **gradients, **COUNTED)


def draws():
    """Networks that leave out layers at random in training: the whole network counts."""

    def drop(self, x, draw):
        for layer in self.layers:
            x = x if self.training and draw() < 0.5 else layer(x)
        return x

    def keep(self, x, draw):
        for layer in self.layers:
            x = layer(x) if not self.training or draw() < 0.5 else x
        return x

    # 2 rows by 8 x 8, six times; backward also the inputs of all but the first.
    flop = {"forward_flop": 6 * 256, "backward_flop": 11 * 256, "gradient_byte": 6 * 8 * 8 * 4}
    reason = "random draws decide what runs; counted is the most of three runs: ordinary, lowest and highest draws"
    generator = torch.Generator()
    generator.seed()
    for name, draw in {
        "random": random.random,
        "numpy": partial(np.random.uniform, 0, 1),
        "torch": lambda: torch.rand(1).item(),
        "coin": lambda: torch.bernoulli(torch.tensor(0.5)),
        "a generator": partial(random.Random().uniform, 0, 1),
        "NumPy's generator": np.random.default_rng().random,
        "NumPy's older generator": np.random.RandomState().rand,
        "torch's generator": partial(torch.rand, 1, generator=generator),
        "a new generator": lambda: random.Random().random(),
        "the system": lambda: secrets.randbits(8) / 256,
    }.items():
        for way in (drop, keep):
            layers = nn.ModuleList(linear(8, 8) for _ in range(6))
            forward = on(lambda self, x, way=way, draw=draw: way(self, x, draw), 8, layers=layers)
            yield reported(f"{way.__name__} by {name}", forward, **flop, reason=reason, path=None)

    def convolve(self, x, edges, _graphs):
        """Two graph convolutions: each node is the sum of the nodes with an edge to it."""
        for layer in (self.first, self.last):
            x = layer(x)
            x = torch.zeros_like(x).index_add(0, edges[1], x[edges[0]])
        return x if edges.max() < len(x) else None

    def graph(batch):
        nodes, edges = torch.rand(batch * 20, 16), torch.randint(batch * 20, (2, 60))
        return Own(convolve, first=linear(16, 64), last=linear(64, 4)), (nodes, edges, torch.ones(batch))

    # 40 nodes of 16 to 64 to 4; backward the weights, and the input of the last layer.
    first, last = 2 * 40 * 16 * 64, 2 * 40 * 64 * 4
    flop = {"forward_flop": first + last, "backward_flop": first + 2 * last}
    yield reported("a random graph with edges that are read", graph, **flop, **COUNTED, path=None)


@pytest.mark.parametrize("case", [
    *made_in_forward(), *numbers_that_are_read(), *modes(), *containers(), *caches(), *types_and_weights(),
    *nested_tensors(), *gradients_by_torch_func(), *losses(), *sparse_matrices(), *draws(),
])  # fmt: skip
def test_by_hand(case):
    row = counted(case.make, case.batch, case.precision)
    assert {name: getattr(row, name) for name in case.expected} == case.expected
