"""Networks of kinds that few counters know: nested tensors, torch.func, regions, losses inside, distributions."""

import pytest
from helpers.counting import Own, counted, linear, nn, on, reported, rows, torch
from torch.nn import functional

STARTS = [0, 2, 6]  # two sequences of 2 and 4 tokens
COUNTED = {"reason": None, "uncounted": None}


def nested(tokens, starts):
    return torch.nested.nested_tensor_from_jagged(tokens.flatten(0, 1), starts)


def jagged(x):
    return torch.nested.as_nested_tensor([x[0], x[1, :2]], layout=torch.jagged)


def heads(tokens):
    return tokens.unflatten(-1, (2, 2)).transpose(1, 2)


def nested_tensors():
    def attend(self, tokens, starts=None):
        starts = torch.tensor(STARTS) if starts is None else starts
        split = heads(nested(self.linear(tokens), starts))
        return functional.scaled_dot_product_attention(split, split, split).transpose(1, 2).flatten(2).values()

    # 6 tokens by 4 x 4; 2 heads of 2 * 2 and 4 * 4 scores of width 2, twice. Backward the weights, and attention twice.
    layer, attention = 2 * 6 * 16, 2 * 2 * (2 * (4 + 16)) * 2
    flop = {"forward_flop": layer + attention, "backward_flop": layer + 2 * attention}
    yield reported("attention, starts within", on(attend, 3, 4, linear=linear(4, 4)), **flop, **COUNTED)

    def given(batch):
        return Own(attend, linear=linear(4, 4)), (rows(batch, 3, 4), torch.tensor(STARTS))

    yield reported("attention, starts given", given, **flop, **COUNTED)
    tokens = 2 * 5 * 4 * 6
    for name, forward in {
        "layer": lambda self, x: self.linear(jagged(x)),
        "padded": lambda self, x: torch.nested.to_padded_tensor(self.linear(jagged(x)), 0.0),
        "joined": lambda self, x: nested(self.linear(torch.cat([x[0], x[1, :2]])[None]), torch.tensor([0, 3, 5])),
    }.items():
        yield reported(name, on(forward, 3, 4, linear=linear(4, 6)), forward_flop=tokens, backward_flop=tokens)


def gradients_by_torch_func():
    def step(self, x):
        """A step of gradient descent inside the network."""

        def loss(parameters):
            return torch.func.functional_call(self.linear, parameters, (x,)).pow(2).sum()

        weight = self.linear.weight
        return x @ (weight - 0.1 * torch.func.grad(loss)({"weight": weight})["weight"]).T

    # Products of 2 rows by 4 x 4, 64 FLOP each.
    for name, forward, products, backward in (
        # The layer, its input's gradient, and the layer again; backward the weight's gradient of the last two.
        ("grad", lambda self, x: torch.func.grad(lambda y: self.linear(y).sum())(x) + self.linear(x), 3, 2),
        # By rows: the layer and its input's gradient; backward the weight's gradient by both, and between them.
        ("vmap", lambda self, x: torch.func.vmap(torch.func.grad(lambda y: self.linear(y).tanh().sum()))(x), 2, 3),
        # Inside: the layer and its weight's gradient; the changed layer. Backward each of them once.
        ("step", step, 3, 3),
        ("vjp", lambda self, x: torch.func.vjp(self.linear, x)[1](self.linear(x))[0], 3, 3),
    ):
        flop = {"forward_flop": 64 * products, "backward_flop": 64 * backward}
        yield reported(name, on(forward, 4, linear=linear(4, 4)), **flop, **COUNTED)

    def noted(self, x):
        return torch.relu(self.linear(x)) * torch.func.vmap(torch.func.grad(lambda y: y.sum()))(x)

    # ReLU's output, and the other factor: a number for each of 2 rows.
    yield reported("kept tensors", on(noted, 4, linear=linear(4, 4)), saved_byte=2 * 4 * 4 + 2 * 4)


def losses_and_distributions():
    for lengths in ([7, 7], torch.tensor([7, 6])):

        def forward(self, x, lengths=lengths):
            likely = self.linear(x).log_softmax(-1).transpose(0, 1)
            counts = torch.tensor([3, 3]) if isinstance(lengths, torch.Tensor) else [3, 3]
            return functional.ctc_loss(likely, torch.ones(2, 3, dtype=torch.int64), lengths, counts, reduction="sum")

        # 14 rows of 5: maxima and sums 4 each, differences and exponentials 5, a logarithm; 14 * 7 states of 13; a sum.
        other, product = 14 * (4 + 5 + 5 + 4 + 1 + 5) + 98 * 13 + 1, 2 * 14 * 4 * 5
        work = {"forward_flop": product, "backward_flop": product, "forward_other_flop": other}
        yield reported("loss over sequences", on(forward, 7, 4, linear=linear(4, 5)), **work, **COUNTED)
    for make in (
        lambda logits: torch.distributions.Categorical(logits=logits),
        lambda logits: torch.distributions.Normal(logits, 1.0),
    ):
        parts = {"first": linear(4, 4), "second": linear(4, 3)}
        forward = on(lambda self, x, make=make: make(self.second(self.first(x))), 4, **parts)
        flop = {"forward_flop": 2 * 2 * (16 + 12), "backward_flop": 2 * 2 * (16 + 2 * 12)}
        yield reported("distribution", forward, **flop)


def regions():
    ops = pytest.importorskip("torchvision").ops
    boxes = torch.tensor([[0.0, 0, 0, 4, 4]] * 3)

    def forward(self, images):
        return ops.roi_align(self.convolution(images), boxes, (2, 2), sampling_ratio=2)

    # 3 regions of 4 bins of 4 places, 8 channels: 48 places, 96 means of 384 values. Backward see test_samplings.
    other = {"forward_other_flop": 8 * 48 + 9 * 384 + 4 * 96, "backward_other_flop": 14 * 48 + 96 + 8 * 384}
    yield reported("regions", on(forward, 3, 8, 8, convolution=nn.Conv2d(3, 8, 1, bias=False)), **other, uncounted=None)


def sparse():
    # A layer of 4 nodes by 4 x 4, 128 FLOP; 4 edges, each with a row of 4, 32 FLOP. Backward the layer's weight, and
    # the edges the other way round.
    def edges(pairs):
        return torch.sparse_coo_tensor(pairs.t(), torch.ones(4), (4, 4))

    for name, forward, products, other, more in (
        ("mm", lambda self, x, pairs: torch.sparse.mm(edges(pairs), self.linear(x)), 32, 0, 0),
        ("matmul", lambda self, x, pairs: edges(pairs) @ self.linear(x), 32, 0, 0),
        # Equal edges are added first: at most as many as there are.
        ("sum", lambda self, x, pairs: edges(pairs).coalesce() @ self.linear(x), 32, 4, 0),
        ("coordinates", lambda self, x, pairs: torch.eye(4).to_sparse() @ self.linear(x), 32, 0, 0),
        ("by rows", lambda self, x, pairs: torch.eye(4).to_sparse_csr() @ self.linear(x), 32, 0, 0),
        ("scaled", lambda self, x, pairs: (edges(pairs) * 0.5) @ self.linear(x), 32, 4, 0),
        ("two", lambda self, x, pairs: (edges(pairs) + edges(pairs)) @ self.linear(x), 2 * 32, 0, 0),
        # 4 edges, or 16 other numbers, are added to dense ones.
        ("with dense", lambda self, x, pairs: self.linear(x) + edges(pairs), 0, 4, 0),
        ("addmm", lambda self, x, pairs: torch.sparse.addmm(x, edges(pairs), self.linear(x)), 32, 16, 0),
        ("beta 0", lambda self, x, pairs: torch.sparse.addmm(x, edges(pairs), self.linear(x), beta=0), 32, 0, 0),
        # Weights of the edges that are learnt: torch takes their gradient as a dense product of 4 x 4 by 4.
        ("learnt", lambda self, x, pairs: torch.sparse_coo_tensor(pairs.t(), self.weights, (4, 4)) @ self.linear(x),
         32, 0, 128),
    ):  # fmt: skip

        def make(batch, forward=forward):
            network = Own(forward, linear=linear(4, 4), weights=nn.Parameter(torch.ones(4)))
            return network, (rows(batch, 4), torch.zeros(batch, 2, dtype=torch.int64))

        work = {"forward_flop": 128 + products, "forward_other_flop": other, "backward_flop": 128 + products + more}
        yield reported(name, make, 4, **work, **COUNTED)

    def table(batch):
        return nn.Embedding(1000, 4, sparse=True), torch.zeros(batch, 3, dtype=torch.int64)

    # 6 rows of 4 numbers, and an index of 8 bytes each: as large as what was read, not as the table. They are copied.
    read = 6 * (16 + 8)
    gradients = {"gradient_byte": read, "backward_traffic_byte": 2 * read}
    yield reported("sparse gradients", table, reason=None, backward_flop=0, **gradients)

    def bags(batch):
        network = nn.Sequential(nn.EmbeddingBag(1000, 4, sparse=True), linear(4, 2))
        return network, torch.zeros(batch, 3, dtype=torch.int64)

    averages = 2 * 4 * (4000 + 8) + 4 * 2  # of the whole table
    # Two products of 2 x 2, 2 x 4 and 4 x 2 numbers (80 B); 2 gradients of 4 (32), 6 indices (48), the bag of each
    # (48), offsets and sizes of 2 bags (32); rows are written, and copied.
    gradients = {"gradient_byte": read + 4 * 8, "backward_traffic_byte": 2 * 80 + 160 + read + 2 * read}
    yield reported("sparse bags", bags, adam_byte=averages, **gradients, **COUNTED)


@pytest.mark.parametrize(
    "case", [*nested_tensors(), *gradients_by_torch_func(), *losses_and_distributions(), *regions(), *sparse()]
)
def test_by_hand(case):
    row = counted(case.make, case.batch, case.precision)
    assert {name: getattr(row, name) for name in case.expected} == case.expected


def stored(batch):
    def forward(self, x):
        return torch._weight_int8pack_mm(self.linear(x), self.stored, self.scales)

    network = Own(forward, linear=linear(8, 16))
    network.register_buffer("stored", torch.ones(5, 16, dtype=torch.int8))
    network.register_buffer("scales", torch.ones(5))
    return network, rows(batch, 8)


def test_an_operator_without_a_derivative_is_a_reason_that_names_it():
    row = counted(stored, 2, "bf16")
    assert (row.forward_flop, row.backward_flop) == (2 * 2 * (8 * 16 + 16 * 5), None)
    assert "operator _weight_int8pack_mm: " in row.reason


def test_an_operator_without_a_shape_is_refused_with_the_remedy():
    @torch.library.custom_op("roofwright_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    own = on(lambda self, x: twice(self.linear(x)), 4, linear=linear(4, 4))
    with pytest.raises(NotImplementedError, match=r"^Own, operator roofwright_tests\.twice: .*register_fake"):
        counted(own)
    twice.register_fake(torch.empty_like)
    assert counted(own).uncounted.startswith("roofwright_tests.twice:1:")
    old = on(lambda self, x: torch.nested.as_nested_tensor([x[0], x[1, :2]]).relu(), 3, 4)
    with pytest.raises(NotImplementedError, match=r"^Own, operator _nested.*layout=torch\.jagged"):
        counted(old)
