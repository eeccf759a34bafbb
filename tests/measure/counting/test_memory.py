import pytest
from helpers.counting import meta, nn, recorder, torch
from torch.nn import functional

from measure.counting import count
from measure.counting.formulas import NOTHING, Work
from measure.counting.memory import LiveMemory, overload_of, tensor_byte, tensors_in

aten = torch.ops.aten
INDEX = {"dtype": torch.int64}


def traffic(compute, *tensors):
    """Bytes that the operators within ``compute`` read and write."""

    class Network(nn.Module):
        def forward(self, *inputs):
            return compute(*inputs)

    return recorder.record_inference(Network(), tensors)[0].forward.total("traffic_byte")


@pytest.mark.parametrize(
    ("compute", "tensors", "byte"),
    [
        # a and b read, the sum written
        (lambda a, b: a + b, [meta(3, 5), meta(3, 5)], 4 * (15 + 15 + 15)),
        # one tensor that is both operands is read once
        (lambda a: a * a, [meta(3, 5)], 4 * (15 + 15)),
        # in place: read and written, the other read
        (lambda a, b: a.add_(b), [meta(3, 5), meta(5)], 4 * (15 + 15 + 5)),
        # an expanded tensor is one row of 5, also where it is part of a larger one
        (lambda a, b: b.expand(3, 5) + a, [meta(3, 5), meta(5)], 4 * (15 + 5 + 15)),
        (lambda a, b: b[1].expand(3, 5) + a, [meta(3, 5), meta(2, 5)], 4 * (15 + 5 + 15)),
        # windows of 3 that overlap: 3 of them hold 5 distinct elements
        (lambda a: a.unfold(0, 3, 1) * 2, [meta(5)], 4 * (5 + 9)),
        # half of a tensor is read and written
        (lambda a: a[:, :2] + 1, [meta(3, 4)], 4 * (6 + 6)),
        # half precision reads and writes 2 bytes; the cast reads 4
        (lambda a: a.to(torch.bfloat16), [meta(3, 5)], 4 * 15 + 2 * 15),
        # views move nothing
        (lambda a: a.view(15).reshape(5, 3).t().unsqueeze(0).transpose(1, 2).split(2, 1)[0], [meta(3, 5)], 0),
        (lambda a: aten._unsafe_view(a, [5, 3]), [meta(3, 5)], 0),
        (lambda a: a.unsafe_chunk(3)[0], [meta(3, 5)], 0),
        (lambda a: (a.detach(), a.expand(2, 3, 5), a.unbind(0), a.permute(1, 0), a.diagonal()), [meta(3, 5)], 0),
        (lambda a: (a.t_(), a.unsqueeze_(0), a.transpose_(1, 2), a.as_strided_((2, 2), (1, 1))), [meta(3, 5)], 0),
        # a transposed matrix is read as much as a plain one
        (lambda a, b: a @ b.t(), [meta(2, 3), meta(5, 3)], 4 * (6 + 15 + 10)),
        # rows that are looked up: 4 of 7, read and written, and their places
        (lambda w, i: nn.functional.embedding(i, w), [meta(7, 3), meta(4, **INDEX)], 4 * (12 + 12) + 8 * 4),
        (lambda a, i: a[i], [meta(7, 3), meta(4, **INDEX)], 4 * (12 + 12) + 8 * 4),
        (lambda a, i: a.gather(1, i), [meta(2, 7), meta(2, 3, **INDEX)], 4 * (6 + 6) + 8 * 6),
        # allocated, and never touched
        (lambda a: (torch.empty_like(a), a.new_empty(9)), [meta(3, 5)], 0),
        # filled: written and not read, nor is the tensor that gives the shape
        (lambda a: torch.zeros_like(a), [meta(3, 5)], 4 * 15),
        (lambda a: a.new_ones(7), [meta(3, 5)], 4 * 7),
        (lambda a: a.zero_(), [meta(3, 5)], 4 * 15),
        (lambda a: torch.empty_like(a).bernoulli_(0.5), [meta(3, 5)], 4 * 15),
        # copied: source read, target written
        (lambda a, b: a.copy_(b), [meta(3, 5), meta(5)], 4 * (15 + 5)),
        # a list of inputs
        (lambda a, b: torch.cat([a, b, a]), [meta(3, 5), meta(2, 5)], 4 * (15 + 10 + 40)),
        # several outputs: values, and indices of 8 bytes
        (lambda a: a.max(1), [meta(3, 5)], 4 * (15 + 3) + 8 * 3),
        # integers move too
        (lambda i: i + 1, [meta(4, **INDEX)], 8 * (4 + 4)),
    ],
)
def test_reads_and_writes_by_hand(compute, tensors, byte):
    assert traffic(compute, *tensors) == byte
    assert traffic(compute, *tensors) == byte  # also where the outputs' shapes are known from before


def test_backward_traffic_by_hand():
    record = recorder.record_training(nn.Linear(3, 5).to("meta"), [meta(4, 3)])
    # Weight: gradient of the output (4 * 5) and input (4 * 3) read, 5 * 3 written; bias: 4 * 5 read, 5 written.
    assert record.backward.total("traffic_byte") == 4 * (20 + 12 + 15 + 20 + 5)


def test_tensors_are_found_in_nested_values():
    a, b = meta(1), meta(2)
    assert [tensor.numel() for tensor in tensors_in({"x": [a, (b, None)], "y": 3})] == [1, 2]


def test_bytes_of_a_tensor():
    assert tensor_byte(meta(0, 3)) == 0
    assert tensor_byte(meta()) == 4
    assert tensor_byte(meta(2, 3, dtype=torch.complex64)) == 48


WHOLE = meta(3, 5, dtype=torch.int64)


def test_names_are_short_where_they_are_torchs_own():
    assert overload_of(aten.add.Tensor).name == "add"
    assert overload_of(torch.ops.prims.mul.default).name == "prims.mul"
    assert overload_of(aten.add.Tensor) is overload_of(aten.add.Tensor)


def test_views_are_ignored_and_only_operators_without_memory_of_their_arguments_are_pure():
    view, in_place, new = (overload_of(aten.view.default), overload_of(aten.add_.Tensor), overload_of(aten.add.Tensor))
    assert [operator.is_ignored for operator in (view, in_place, new)] == [True, False, False]
    assert [operator.is_pure for operator in (view, in_place, new)] == [False, False, True]
    assert overload_of(aten.detach.default).is_ignored
    assert overload_of(aten._unsafe_view.default).is_ignored


@pytest.mark.parametrize(
    ("operator", "args", "output", "work"),
    [
        (aten.add_.Tensor, (meta(3, 5), meta(5)), meta(3, 5), Work(0, 15)),
        # No formula: nothing for integers, unknown as soon as a floating-point number takes part.
        (aten.linalg_matrix_exp.default, (WHOLE,), (WHOLE, WHOLE), NOTHING),
        (aten.linalg_matrix_exp.default, (meta(3, 5),), (meta(3), WHOLE), None),
        # A formula that knows no complex numbers.
        (aten.acos.default, (meta(3, 5, dtype=torch.complex64),), meta(3, 5, dtype=torch.complex64), None),
    ],
)
def test_work(operator, args, output, work):
    assert overload_of(operator).work(args, {}, output, tensors_in([args, output])) == work


def block(elements):
    return torch.empty(elements, device="meta")


def test_views_and_resident_tensors_take_nothing():
    weight = block(10)
    live = LiveMemory([weight])
    assert live.number(weight) is None
    assert live.number(weight[2:4]) is None
    output = block(5)
    assert live.number(output) == live.number(output[1:]) == 1
    assert live.byte == live.peak_byte == 4 * 5


def test_a_storage_lives_until_its_last_view_goes():
    live = LiveMemory([])
    first = block(5)
    live.number(first)
    view = first[1:]
    del first
    second = block(7)
    live.number(second)
    assert live.byte == 4 * (5 + 7)
    del view
    assert live.byte == 4 * 7
    del second
    assert (live.byte, live.peak_byte) == (0, 4 * (5 + 7))


@pytest.mark.parametrize(("is_held", "peak"), [(False, 5 + 1), (True, 5 + 5 + 1)])
def test_a_storage_written_over_another_takes_no_more_unless_something_holds_that(is_held, peak):
    live = LiveMemory([])
    old, new, last = block(5), block(5), block(1)
    live.number(old)
    live.number(new)
    live.overwrites(new, old)
    held = [old] if is_held else []
    del old
    live.number(last)
    del held
    assert live.peak_byte == 4 * peak


def test_a_smaller_storage_is_not_written_over_a_larger_one():
    live = LiveMemory([])
    old, new = block(6), block(5)
    live.number(old)
    live.number(new)
    live.overwrites(new, old)
    del old
    assert live.peak_byte == 4 * (6 + 5)


def test_autograd_adds_gradients_in_place():
    class ThreeUses(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.empty(1000))

        def forward(self, scale):
            hidden = self.weight * scale
            return hidden * 2 + hidden * 3 + hidden * 4

    network = ThreeUses().to("meta")
    columns, *_ = count.count_network(network, (torch.empty(1, device="meta"),))
    # Beside weight, momentum and scale: the output, its gradient (which is that of each product), and the gradients
    # of two uses of what is hidden. Their sum is written over the first; the gradient of the third use comes when
    # one of the two is gone.
    assert columns["training_peak_byte"] == pytest.approx(4 * (1000 + 1000 + 1) + 4 * 4 * 1000, abs=16)


def columns_of(network, *inputs):
    return count.count_network(network.to("meta").eval(), inputs)[0]


def footprint(columns):
    whole = columns["parameter_byte"] + columns["input_byte"] + columns["activation_byte"]
    return whole - columns["untouched_byte"]


def test_of_a_table_only_the_rows_that_an_index_names_are_touched():
    class Bag(nn.Module):
        def __init__(self):
            super().__init__()
            with torch.device("meta"):
                self.bag, self.out = nn.EmbeddingBag(10_000_000, 64), nn.Linear(64, 2)

        def forward(self, places):
            return self.out(self.bag(places))

    columns = columns_of(Bag(), torch.empty(1, 6, dtype=torch.int64, device="meta"))
    # 6 rows of 64, a linear layer of 130, 6 indices of 8 bytes, outputs of 64 and 2
    assert footprint(columns) == 4 * (6 * 64 + 130) + 48 + 4 * 66
    assert columns["untouched_byte"] == 4 * 64 * (10_000_000 - 6)
    assert columns["traffic_byte"] < 3000


def test_more_lookups_than_rows_touch_the_table_once():
    columns = columns_of(nn.Embedding(2, 8), torch.empty(1000, dtype=torch.int64, device="meta"))
    assert columns["untouched_byte"] == 0
    assert columns["traffic_byte"] == 4 * 2 * 8 + 8000 + 4 * 1000 * 8


def test_a_slice_of_a_cache_is_touched_and_no_more():
    class Reader(nn.Module):
        def forward(self, query, cache):
            return functional.scaled_dot_product_attention(query, cache[0, :, :, :10], cache[1, :, :, :10])

    query, cache = (torch.empty(shape, device="meta") for shape in ((1, 2, 1, 4), (2, 1, 2, 1000, 4)))
    assert columns_of(Reader(), query, cache)["untouched_byte"] == 4 * 2 * 2 * 990 * 4


PLACES = torch.empty(3, dtype=torch.int64, device="meta")
ROWS = torch.empty(3, 8, device="meta")
GRID = PLACES[:, None].expand(3, 8)


@pytest.mark.parametrize(
    ("write", "byte"),
    [
        # Three rows of 8 written, and read from the source; three indices of 8 bytes
        (lambda cache: cache.index_copy_(0, PLACES, ROWS), 4 * (24 + 24) + 24),
        (lambda cache: cache.index_put_((PLACES,), ROWS), 4 * (24 + 24) + 24),
        (lambda cache: cache.__setitem__(PLACES, ROWS), 4 * (24 + 24) + 24),
        (lambda cache: cache.index_fill_(0, PLACES, 0.0), 4 * 24 + 24),
        # An index for each element, here expanded; it is stored once
        (lambda cache: cache.scatter_(0, GRID, ROWS), 4 * (24 + 24) + 24),
        # What is added to is read too
        (lambda cache: cache.index_add_(0, PLACES, ROWS), 4 * (24 + 24 + 24) + 24),
        (lambda cache: cache.index_put_((PLACES,), ROWS, accumulate=True), 4 * (24 + 24 + 24) + 24),
        (lambda cache: cache.scatter_add_(0, GRID, ROWS), 4 * (24 + 24 + 24) + 24),
        (lambda cache: functional.embedding(PLACES, cache, max_norm=1.0), (4 * (24 + 24) + 24) + (4 * (24 + 24) + 24)),
    ],
)
def test_a_write_by_index_touches_what_the_index_names(write, byte):
    class Writer(nn.Module):
        def forward(self, cache):
            write(cache)
            return cache

    assert columns_of(Writer(), torch.empty(8192, 8, device="meta"))["traffic_byte"] == byte


def test_rows_reach_no_more_experts_than_there_are_rows():
    class Experts(nn.Module):
        def forward(self, rows, weights, ends):
            return torch._grouped_mm(rows, weights, offs=ends)

    bf16 = {"dtype": torch.bfloat16, "device": "meta"}
    inputs = (
        torch.empty(2, 16, **bf16),
        torch.empty(8, 16, 32, **bf16),
        torch.empty(8, dtype=torch.int32, device="meta"),
    )
    assert columns_of(Experts(), *inputs)["untouched_byte"] == 2 * 6 * 16 * 32


def test_layers_that_do_not_run_are_not_touched():
    class Idle(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.idle = nn.Linear(3, 4), nn.Linear(5, 6)

        def forward(self, image):
            return self.used(image)

    assert columns_of(Idle(), torch.empty(2, 3, device="meta"))["untouched_byte"] == 4 * 36
