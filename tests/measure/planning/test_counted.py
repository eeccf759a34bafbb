"""Networks counted block by block: stages, and the nearest plan."""

import pytest

from measure.errors import UserError
from measure.planning.counted import BlockCount, CountedNetwork, cut
from measure.planning.layout import Layout, choose


def part(flop, is_block=True, **more):
    columns = {"parameters": 0.0, "saved_byte": 0.0, "output_byte": 0.0} | more
    return BlockCount(is_block, forward_flop=flop, backward_flop=2 * flop, **columns)


def test_stages_have_whole_blocks_and_the_least_largest_flop():
    stem, head = part(1, is_block=False), part(2, is_block=False)
    blocks = [part(flop) for flop in (3, 3, 4, 5)]
    # 1 + 3 + 3 and 4 + 5 + 2 is 11 at most; 1 + 3 + 3 + 4 and 5 + 2 is 11 as well; 1 + 3 and the rest is 14
    found = cut((stem, *blocks, head), 2)
    assert max(sum(each.forward_flop for each in stage) for stage in found) == 11
    assert [each for stage in found for each in stage] == [stem, *blocks, head]
    assert [len(stage) for stage in cut((stem, *blocks, head), 4)] == [2, 1, 1, 2]


def network():
    blocks = [part(10, parameters=100, saved_byte=40, output_byte=8) for _ in range(4)]
    stem = part(2, is_block=False, parameters=20, saved_byte=6, output_byte=16)
    return CountedNetwork("x", (stem, *blocks), 10, 2)


def test_a_stage_adds_its_parts():
    first, second = network().stages(Layout(pipeline=2))
    # The backward pass has twice the FLOP, so the step's are three times the forward pass
    assert (first.shared, first.root, first.layer) == (220, 20, 100)
    assert (first.forward_flop, second.forward_flop) == (22, 20)
    assert (first.saved_byte, first.block_byte) == (86, 40)
    assert first.input_byte == 2 * 8 + 6  # a block's input or output, and what the stem saves
    assert (first.sent_byte, second.sent_byte) == (8, 0)
    assert second.loss_byte == 10 * (2 + 4 + 4)


def test_it_shares_neither_matrices_nor_experts():
    with pytest.raises(UserError, match=r"--tp 2 shares the matrices of a decoder alone, .* is --dp 4 --tp 1 --pp 1"):
        choose(network(), 4, 8, {"tp": 2}, 8)
    with pytest.raises(UserError, match=r"--ep 2 shares the experts of a decoder alone"):
        choose(network(), 4, 8, {"ep": 2}, 8)
    with pytest.raises(UserError, match=r"--pp 8 is more stages than x has blocks \(4\); .* --pp 4"):
        choose(network(), 8, 8, {"pp": 8}, 8)
