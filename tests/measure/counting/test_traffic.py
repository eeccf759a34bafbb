import pytest
from helpers.counting import meta, nn, recorder, torch

from measure.counting.memory import tensor_byte, tensors_in

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
