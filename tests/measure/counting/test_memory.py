import pytest
from helpers.counting import Own, meta, nn, recording, torch
from torch.nn import functional
from torch.testing._internal.two_tensor import TwoTensor

from measure.counting.count import count_network
from measure.counting.formulas import NOTHING
from measure.counting.memory import LiveMemory, overload_of
from measure.models.call import Call, casting, copy_to_meta

aten = torch.ops.aten
INDEX = {"dtype": torch.int64}
PLACES, ROWS = meta(3, **INDEX), meta(3, 8)
GRID = PLACES[:, None].expand(3, 8)
CACHE = meta(8192, 8)


@pytest.mark.parametrize(
    ("compute", "tensors", "byte"),
    [
        # a and b read, the sum written; in place, the other read; one tensor that is both operands is read once
        (lambda a, b: a + b, [meta(3, 5), meta(5)], 4 * (15 + 5 + 15)),
        (lambda a, b: a.add_(b), [meta(3, 5), meta(5)], 4 * (15 + 15 + 5)),
        (lambda a: a * a, [meta(3, 5)], 4 * (15 + 15)),
        # what a call writes into is not read, whether its formula takes any arguments (mul) or named ones (mm)
        (lambda a, y: torch.mul(a, a, out=y), [meta(3, 5), meta(3, 5)], 4 * (15 + 15)),
        (lambda a, b, y: torch.mm(a, b, out=y), [meta(3, 5), meta(5, 2), meta(3, 2)], 4 * (15 + 10 + 6)),
        # an expanded tensor is one row of 5, also where it is part of a larger one
        (lambda a, b: b[1].expand(3, 5) + a, [meta(3, 5), meta(2, 5)], 4 * (15 + 5 + 15)),
        # windows of 3 that overlap: 3 of them hold 5 distinct elements
        (lambda a: a.unfold(0, 3, 1) * 2, [meta(5)], 4 * (5 + 9)),
        # half of a tensor is read and written
        (lambda a: a[:, :2] + 1, [meta(3, 4)], 4 * (6 + 6)),
        # half precision reads and writes 2 bytes; the cast reads 4
        (lambda a: a.to(torch.bfloat16), [meta(3, 5)], 4 * 15 + 2 * 15),
        # views move nothing
        (lambda a: a.view(15).reshape(5, 3).t().unsqueeze(0).transpose(1, 2).split(2, 1)[0].detach(), [meta(3, 5)], 0),
        (lambda a: (a.t_(), a.unsqueeze_(0), a.transpose_(1, 2), a.as_strided_((2, 2), (1, 1))), [meta(3, 5)], 0),
        # a transposed matrix is read as much as a plain one
        (lambda a, b: a @ b.t(), [meta(2, 3), meta(5, 3)], 4 * (6 + 15 + 10)),
        # rows that are looked up: 4 of 7, read and written, and their places
        (lambda w, i: functional.embedding(i, w), [meta(7, 3), meta(4, **INDEX)], 4 * (12 + 12) + 8 * 4),
        (lambda a, i: a[i], [meta(7, 3), meta(4, **INDEX)], 4 * (12 + 12) + 8 * 4),
        (lambda a, i: a.gather(1, i), [meta(2, 7), meta(2, 3, **INDEX)], 4 * (6 + 6) + 8 * 6),
        # more lookups than rows read the table once
        (lambda w, i: functional.embedding(i, w), [meta(2, 8), meta(1000, **INDEX)], 4 * (16 + 8000) + 8 * 1000),
        # allocated, and never touched
        (lambda a: (torch.empty_like(a), a.new_empty(9)), [meta(3, 5)], 0),
        # filled: written and not read, nor is the tensor that gives the shape
        (lambda a: (torch.zeros_like(a), a.new_ones(7)), [meta(3, 5)], 4 * (15 + 7)),
        (lambda a: torch.empty_like(a).bernoulli_(0.5), [meta(3, 5)], 4 * 15),
        # copied: source read, target written
        (lambda a, b: a.copy_(b), [meta(3, 5), meta(5)], 4 * (15 + 5)),
        # a list of inputs; several outputs: values, and indices of 8 bytes; integers move too
        (lambda a, b: torch.cat([a, b, a]), [meta(3, 5), meta(2, 5)], 4 * (15 + 10 + 40)),
        (lambda a: a.max(1), [meta(3, 5)], 4 * (15 + 3) + 8 * 3),
        (lambda i: i + 1, [meta(4, **INDEX)], 8 * (4 + 4)),
        # Three rows of 8 written by an index, and read from the source; three indices of 8 bytes
        (lambda cache: cache.index_copy_(0, PLACES, ROWS), [CACHE], 4 * (24 + 24) + 24),
        (lambda cache: cache.index_fill_(0, PLACES, 0.0), [CACHE], 4 * 24 + 24),
        # An index for each element, here expanded; it is stored once
        (lambda cache: cache.scatter_(0, GRID, ROWS), [CACHE], 4 * (24 + 24) + 24),
        # An addition reads its target too
        (lambda cache: cache.index_put_((PLACES,), ROWS, accumulate=True), [CACHE], 4 * (24 + 24 + 24) + 24),
        (lambda cache: cache.scatter_add_(0, GRID, ROWS), [CACHE], 4 * (24 + 24 + 24) + 24),
        # Rows are made shorter (read, written), then looked up
        (lambda t: functional.embedding(PLACES, t, max_norm=1.0), [CACHE], 2 * (4 * (24 + 24) + 24)),
        # How many rows a mask names depends on values: at most all, read and written
        (lambda a, m: a.index_put_((m,), ROWS[0]), [meta(5, 8), meta(5, dtype=torch.bool)], 4 * (40 + 40 + 8) + 5),
    ],
)
def test_an_operator_reads_and_writes_by_hand(compute, tensors, byte):
    for _ in range(2):  # the second time the outputs' shapes are known
        network = Own(lambda _self, *given: compute(*given))
        assert recording.record_inference(network, tensors)[0].forward.total("traffic_byte") == byte


def test_an_operator_without_a_formula_is_unknown_with_floats():
    power, whole, real = overload_of(aten.linalg_matrix_exp.default), meta(3, 5, **INDEX), meta(3)
    assert power.work((whole,), {}, whole, [whole, whole]) == NOTHING
    assert power.work((whole,), {}, (real, whole), [whole, real, whole]) is None
    assert overload_of(torch.ops.prims.mul.default).name == "prims.mul"  # short only where it is torch's own


@pytest.mark.parametrize(
    ("old_size", "is_held", "peak"),
    # written over it, unless something holds it; a smaller one is not written over a larger one
    [(5, False, 5 + 1), (5, True, 5 + 5 + 1), (6, False, 6 + 5)],
)
def test_a_storage_written_over_another_takes_no_more(old_size, is_held, peak):
    live, old, new = LiveMemory([]), meta(old_size), meta(5)
    live.number(old), live.number(new), live.overwrites(new, old)
    held = [old] if is_held else []
    del old
    last = meta(1)
    live.number(last)
    assert (live.peak_byte, len(held)) == (4 * peak, is_held)


def test_a_freed_tensor_is_no_longer_alive():
    resident, first, second = meta(100), meta(10), meta(20)
    live = LiveMemory([resident])
    assert [live.number(each) for each in (first, resident, second, first[2:])] == [1, None, 2, 1]
    assert live.byte == 4 * 30
    del first
    assert live.byte == 4 * 20
    third = meta(5)
    assert (live.number(third), live.byte, live.peak_byte) == (3, 4 * 25, 4 * 30)


def columns_of(network, *inputs):
    return count_network(network.to("meta"), inputs)[0]


def test_autograd_adds_gradients_in_place():
    def three_uses(self, scale):
        hidden = self.weight * scale
        return hidden * 2 + hidden * 3 + hidden * 4

    columns = columns_of(Own(three_uses, weight=nn.Parameter(torch.empty(1000))), meta(1))
    # Besides weight, momentum, scale and 1000 targets: the output, its gradient (the same for each product), and the
    # gradients of two uses of the hidden values. Their sum is written over the first; the third gradient comes when one
    # of them is gone.
    assert columns["training_peak_byte"] == pytest.approx(4 * (1000 + 1000 + 1 + 1000) + 4 * 4 * 1000, abs=16)


def read_part(_self, query, cache):
    return functional.scaled_dot_product_attention(query, cache[0, :, :, :10], cache[1, :, :, :10])


BF16 = {"dtype": torch.bfloat16}
EXPERTS = [meta(8, 16, 32, **BF16), meta(8, dtype=torch.int32)]
BY_EXPERTS = Own(lambda _self, rows, weights, ends: torch._grouped_mm(rows, weights, offs=ends))


@pytest.mark.parametrize(
    ("network", "inputs", "untouched"),
    [
        # Of a table only the 6 rows of 64 that an index names
        (nn.EmbeddingBag(10_000, 64), [meta(1, 6, **INDEX)], 4 * 64 * (10_000 - 6)),
        # Of a cache for 1000 places, 2 heads of 4 wide, the first 10
        (Own(read_part), [meta(1, 2, 1, 4), meta(2, 1, 2, 1000, 4)], 4 * 2 * 2 * 990 * 4),
        # 2 rows reach at most 2 of 8 experts, 9 rows all
        (BY_EXPERTS, [meta(2, 16, **BF16), *EXPERTS], 2 * 6 * 16 * 32),
        (BY_EXPERTS, [meta(9, 16, **BF16), *EXPERTS], 0),
        # Two plain matrices, split along their summands, are read whole.
        (BY_EXPERTS, [meta(2, 64, **BF16), meta(64, 48, **BF16), EXPERTS[1]], 0),
        # A layer that does not run: 5 by 6 weights and 6 biases
        (Own(lambda self, x: self.used(x), used=nn.Linear(3, 4), idle=nn.Linear(5, 6)), [meta(2, 3)], 4 * 36),
    ],
)
def test_untouched_bytes_by_hand(network, inputs, untouched):
    assert columns_of(network, *inputs)["untouched_byte"] == untouched


def test_a_gradient_that_is_a_view_is_not_added_in_place():
    def two_layers(self, rows):
        return functional.linear(functional.linear(rows, self.weight), self.weight)

    columns = columns_of(Own(two_layers, weight=nn.Parameter(torch.empty(100, 100))), meta(1, 100))
    # Weight, momentum, row and a label of 8 bytes stay. At the sum: two gradients, transposed results of products, and
    # their sum; the output of 100; the loss and its gradient.
    assert columns["training_peak_byte"] == 4 * (10_000 + 10_000 + 100) + 8 + 4 * (3 * 10_000 + 100 + 2)


def test_an_operator_in_place_reads_and_writes_one_tensor():
    # Linear: 2 rows of 64 and 96 x 64 weights in, 2 rows of 96 out; ReLU in place: these once more, both ways
    network = nn.Sequential(nn.Linear(64, 96, bias=False), nn.ReLU(inplace=True))
    columns = columns_of(network, torch.ones(2, 64))
    assert columns["read_byte"] == 4 * (2 * 64 + 96 * 64 + 2 * 96)
    assert columns["traffic_byte"] - columns["read_byte"] == 4 * (2 * 96 + 2 * 96)


@pytest.mark.parametrize("fake", [False, True])
def test_a_weight_that_wraps_two_tensors_has_their_bytes(fake):
    """As torchao's weights of 8 bits wrap values and scales. 2 rows of 64 by 64 x 96, by either tensor."""
    network = nn.Linear(64, 96, bias=False)
    weight = TwoTensor(torch.ones(96, 64), torch.ones(96, 64))
    network.weight = nn.Parameter(weight, requires_grad=False)
    call = copy_to_meta(Call(network, ()))
    with casting(call.network, None, None, fake) as (device, _):
        columns, layers, _ = count_network(call.network, [torch.empty(2, 64, device=device)])
    assert (columns["forward_flop"], columns["untouched_byte"]) == (2 * (2 * 2 * 64 * 96), 0)
    assert columns["parameter_byte"] == layers[0]["parameter_byte"] == 2 * 4 * 96 * 64
    assert columns["traffic_byte"] == 2 * 4 * (2 * 64 + 96 * 64 + 2 * 96)
    assert columns["read_byte"] == 2 * 4 * (2 * 64 + 96 * 64)
