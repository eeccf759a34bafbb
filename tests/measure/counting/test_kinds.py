"""Networks of kinds that few counters know: nested tensors, torch.func, regions, losses inside, distributions."""

import pytest
from helpers.counting import Own, nn, rows, torch
from torch.nn import functional

STARTS = [0, 2, 6]  # two sequences of 2 and 4 tokens


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


def nested(tokens, starts):
    return torch.nested.nested_tensor_from_jagged(tokens.flatten(0, 1), starts)


def heads(tokens):
    return tokens.unflatten(-1, (2, 2)).transpose(1, 2)


@pytest.mark.parametrize("given", [True, False])
def test_attention_of_nested_tensors_is_within_each_sequence(counted, given):
    def forward(self, tokens, starts=None):
        starts = torch.tensor(STARTS) if starts is None else starts
        split = heads(nested(self.linear(tokens), starts))
        return functional.scaled_dot_product_attention(split, split, split).transpose(1, 2).flatten(2).values()

    def network(batch):
        tokens = rows(batch, 3, 4)
        return Own(forward, linear=linear(4, 4)), (tokens, torch.tensor(STARTS)) if given else tokens

    row = counted(network)
    # 6 tokens by 4 x 4; 2 heads of 2 * 2 and 4 * 4 scores of width 2, twice. Backward the weights, and attention twice.
    attention = 2 * 2 * (2 * (4 + 16)) * 2
    assert row.forward_flop == 2 * 6 * 16 + attention
    assert row.backward_flop == 2 * 6 * 16 + 2 * attention
    assert (row.uncounted, row.reason) == (None, None)


@pytest.mark.parametrize(
    "forward",
    [
        lambda self, x: self.linear(torch.nested.as_nested_tensor([x[0], x[1, :2]], layout=torch.jagged)),
        lambda self, x: torch.nested.to_padded_tensor(
            self.linear(torch.nested.as_nested_tensor([x[0], x[1, :2]], layout=torch.jagged)), 0.0
        ),
        lambda self, x: nested(self.linear(torch.cat([x[0], x[1, :2]])[None]), torch.tensor([0, 3, 5])),
    ],
)
def test_a_layer_on_nested_tensors_takes_their_tokens(counted, forward):
    row = counted(lambda batch: (Own(forward, linear=linear(4, 6)), rows(batch, 3, 4)))
    assert row.forward_flop == row.backward_flop == 2 * 5 * 4 * 6


def test_old_nested_tensors_are_refused_with_the_remedy(counted):
    def forward(self, x):
        return torch.nested.to_padded_tensor(self.linear(torch.nested.as_nested_tensor([x[0], x[1, :2]])), 0.0)

    with pytest.raises(NotImplementedError, match=r"^Own, operator _nested.*layout=torch\.jagged"):
        counted(lambda batch: (Own(forward, linear=linear(4, 4)), rows(batch, 3, 4)))


def inner_step(self, x):
    """A step of gradient descent inside the network."""

    def loss(parameters):
        return torch.func.functional_call(self.linear, parameters, (x,)).pow(2).sum()

    weight = self.linear.weight
    return x @ (weight - 0.1 * torch.func.grad(loss)({"weight": weight})["weight"]).T


# Products of 2 rows by 4 x 4, 64 FLOP each.
@pytest.mark.parametrize(
    ("forward", "products", "backward"),
    [
        # The layer, its input's gradient, and the layer again; backward the weight's gradient of the last two.
        (lambda self, x: torch.func.grad(lambda y: self.linear(y).sum())(x) + self.linear(x), 3, 2),
        # By rows: the layer and its input's gradient; backward the weight's gradient by both, and between them.
        (lambda self, x: torch.func.vmap(torch.func.grad(lambda y: self.linear(y).tanh().sum()))(x), 2, 3),
        # Inside: the layer and its weight's gradient; the changed layer. Backward each of them once.
        (inner_step, 3, 3),
        (lambda self, x: torch.func.vjp(self.linear, x)[1](self.linear(x))[0], 3, 3),
    ],
)
def test_gradients_by_torch_func_are_counted_in_training_too(counted, forward, products, backward):
    row = counted(lambda batch: (Own(forward, linear=linear(4, 4)), rows(batch, 4)))
    assert (row.reason, row.uncounted) == (None, None)
    assert (row.forward_flop, row.backward_flop) == (64 * products, 64 * backward)


def test_kept_tensors_are_noted_again_after_torch_func(counted):
    def forward(self, x):
        return torch.relu(self.linear(x)) * torch.func.vmap(torch.func.grad(lambda y: y.sum()))(x)

    row = counted(lambda batch: (Own(forward, linear=linear(4, 4)), rows(batch, 4)))
    # ReLU's output, and the other factor: a number for each of 2 rows.
    assert row.saved_byte == 2 * 4 * 4 + 2 * 4


@pytest.mark.parametrize("lengths", [[7, 7], torch.tensor([7, 6])])
def test_a_loss_over_sequences_inside_a_network(counted, lengths):
    targets = torch.ones(2, 3, dtype=torch.int64)

    def forward(self, x):
        likely = self.linear(x).log_softmax(-1).transpose(0, 1)
        counts = torch.tensor([3, 3]) if isinstance(lengths, torch.Tensor) else [3, 3]
        return functional.ctc_loss(likely, targets, lengths, counts, reduction="sum")

    row = counted(lambda batch: (Own(forward, linear=linear(4, 5)), rows(batch, 7, 4)))
    # 14 rows of 5: maxima and sums 4 each, differences and exponentials 5, a logarithm; 14 * 7 states of 13; a sum.
    assert row.forward_other_flop == 14 * (4 + 5 + 5 + 4 + 1 + 5) + 98 * 13 + 1
    assert row.forward_flop == row.backward_flop == 2 * 14 * 4 * 5
    assert (row.reason, row.uncounted) == (None, None)


@pytest.mark.parametrize("make", [lambda logits: torch.distributions.Categorical(logits=logits),
                                  lambda logits: torch.distributions.Normal(logits, 1.0)])  # fmt: skip
def test_distributions_are_outputs(counted, make):
    net = Own(lambda self, x: make(self.second(self.first(x))), first=linear(4, 4), second=linear(4, 3))
    row = counted(lambda batch: (net, rows(batch, 4)))
    assert (row.forward_flop, row.backward_flop) == (2 * 2 * (16 + 12), 2 * 2 * (16 + 2 * 12))


def test_regions_of_images(counted):
    ops = pytest.importorskip("torchvision").ops
    boxes = torch.tensor([[0.0, 0, 0, 4, 4]] * 3)

    def forward(self, images):
        return ops.roi_align(self.convolution(images), boxes, (2, 2), sampling_ratio=2)

    row = counted(lambda batch: (Own(forward, convolution=nn.Conv2d(3, 8, 1, bias=False)), rows(batch, 3, 8, 8)))
    # 3 regions of 4 bins of 4 places, 8 channels: 48 places, 96 means of 384 values. Backward see test_samplings.
    assert row.forward_other_flop == 8 * 48 + 9 * 384 + 4 * 96
    assert row.backward_other_flop == 14 * 48 + 96 + 8 * 384
    assert row.uncounted is None


def test_an_operator_of_ones_own_without_a_shape_is_refused_with_the_remedy(counted):
    @torch.library.custom_op("roofwright_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    net = Own(lambda self, x: twice(self.linear(x)), linear=linear(4, 4))
    with pytest.raises(NotImplementedError, match=r"^Own, operator roofwright_tests\.twice: .*register_fake"):
        counted(lambda batch: (net, rows(batch, 4)))
    twice.register_fake(torch.empty_like)
    assert counted(lambda batch: (net, rows(batch, 4))).uncounted.startswith("roofwright_tests.twice:1:")


def edges(batch):
    return torch.zeros(batch, 2, dtype=torch.int64)


def graph(pairs, weights):
    return torch.sparse_coo_tensor(pairs.t(), weights, (4, 4))


# A layer of 4 nodes by 4 x 4, 128 FLOP; 4 edges, each with a row of 4, 32 FLOP. Backward the layer's weight, and the
# edges the other way round.
@pytest.mark.parametrize(
    ("forward", "other", "backward"),
    [
        (lambda self, x, pairs: torch.sparse.mm(graph(pairs, torch.ones(4)), self.linear(x)), 0, 128 + 32),
        (lambda self, x, pairs: graph(pairs, torch.ones(4)) @ self.linear(x), 0, 128 + 32),
        # Equal edges are added first: at most as many as there are.
        (lambda self, x, pairs: graph(pairs, torch.ones(4)).coalesce() @ self.linear(x), 4, 128 + 32),
        (lambda self, x, pairs: torch.eye(4).to_sparse() @ self.linear(x), 0, 128 + 32),
        (lambda self, x, pairs: torch.eye(4).to_sparse_csr() @ self.linear(x), 0, 128 + 32),
        # Weights of the edges that are learnt: torch takes their gradient as a dense product of 4 x 4 by 4.
        (lambda self, x, pairs: graph(pairs, self.weights) @ self.linear(x), 0, 128 + 32 + 128),
    ],
)
def test_products_of_sparse_matrices_take_what_they_store(counted, forward, other, backward):
    def network(batch):
        parts = {"linear": linear(4, 4), "weights": nn.Parameter(torch.ones(4))}
        return Own(forward, **parts), (rows(batch, 4), edges(batch))

    row = counted(network, 4)
    assert (row.reason, row.uncounted) == (None, None)
    assert (row.forward_flop, row.forward_other_flop) == (128 + 32, other)
    assert row.backward_flop == backward


def test_tables_with_sparse_gradients(counted):
    # 6 rows of 4 numbers, and an index of 8 bytes each: as large as what was read, not as the table.
    row = counted(lambda batch: (nn.Embedding(1000, 4, sparse=True), torch.zeros(batch, 3, dtype=torch.int64)))
    assert (row.reason, row.gradient_byte, row.backward_flop) == (None, 6 * (16 + 8), 0)
    assert row.backward_traffic_byte < 1000

    def bags(batch):
        net = nn.Sequential(nn.EmbeddingBag(1000, 4, sparse=True), nn.Linear(4, 2, bias=False))
        return net, torch.zeros(batch, 3, dtype=torch.int64)

    row = counted(bags)
    assert (row.reason, row.uncounted) == (None, None)
    assert row.gradient_byte == 6 * (16 + 8) + 4 * 8
    assert row.backward_traffic_byte < 1000
    assert row.adam_byte == 2 * 4 * (4000 + 8) + 4 * 2  # averages of the whole table


def test_an_operator_without_a_derivative_is_a_reason_that_names_it(counted):
    def forward(self, x):
        return torch._weight_int8pack_mm(self.linear(x), self.stored, self.scales)

    def network(batch):
        net = Own(forward, linear=linear(8, 16))
        net.register_buffer("stored", torch.ones(5, 16, dtype=torch.int8))
        net.register_buffer("scales", torch.ones(5))
        return net, rows(batch, 8)

    row = counted(network, 2, "bf16")
    assert row.forward_flop == 2 * 2 * (8 * 16 + 16 * 5)
    assert row.backward_flop is None
    assert "operator _weight_int8pack_mm: torch has no derivative of it; train with" in row.reason
