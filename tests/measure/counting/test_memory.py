import pytest

from measure.counting import count

torch = pytest.importorskip("torch", reason="counting needs torch")
memory = pytest.importorskip("measure.counting.memory")


def block(elements):
    return torch.empty(elements, device="meta")


def test_views_and_resident_tensors_take_nothing():
    weight = block(10)
    live = memory.LiveMemory([weight])
    assert live.number(weight) is None
    assert live.number(weight[2:4]) is None
    output = block(5)
    assert live.number(output) == live.number(output[1:]) == 1
    assert live.byte == live.peak_byte == 4 * 5


def test_a_storage_lives_until_its_last_view_goes():
    live = memory.LiveMemory([])
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
    live = memory.LiveMemory([])
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
    live = memory.LiveMemory([])
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
