"""The wait for other ranks in a collective, told from the transfer."""

import pytest

from measure.domain.collectives import CollectiveTime, collective_times
from measure.domain.trace_records import TraceCollective


def calls(rank, *times_s, step=0, operator="all_reduce", ranks="0 1", device=0):
    return [TraceCollective(rank, device, step, operator, ranks, number, each) for number, each in enumerate(times_s)]


def test_the_last_rank_to_arrive_waits_for_nobody():
    # The first call takes 1 s and the second 2 s of transfer: rank 0 waits 3 s, rank 1 waits 5 s
    rows = [*calls(1, 1.0, 7.0), *calls(0, 4.0, 2.0)]
    assert collective_times(rows) == [CollectiveTime(0, 2.0, 3.0, 3.0), CollectiveTime(1, 2.0, 3.0, 5.0)]
    assert collective_times(reversed(rows)) == collective_times(rows)  # calls are matched by number


def test_times_are_means_over_the_steps_of_a_rank():
    rows = [row for step in (3, 4) for rank in (0, 1) for row in calls(rank, 1.0 + 2 * rank, 6.0, step=step)]
    rows += calls(0, 2.0, step=4, operator="broadcast", ranks=None)  # rank 1 has none of its name
    # In each step 1 + 6 s of transfer, and rank 1 waits 2 s; the broadcast's 2 s are half a call in each of two steps
    assert collective_times(rows) == [CollectiveTime(0, 2.5, 7.0, 0.0, 1.0), CollectiveTime(1, 2.0, 7.0, 2.0)]


def test_a_rank_with_fewer_steps_has_the_mean_of_its_own():
    rows = [*calls(0, 8.0), *calls(1, 2.0), *calls(0, 4.0, step=1)]
    # Rank 0 has two steps: 2 s and 6 s halved, and 4 s unmatched halved
    assert collective_times(rows) == [CollectiveTime(0, 1.0, 1.0, 3.0, 2.0), CollectiveTime(1, 1.0, 2.0, 0.0)]


@pytest.mark.parametrize("other", [{"step": 1}, {"operator": "all_gather"}, {"ranks": "1 2"}])
def test_only_equal_calls_are_matched(other):
    # Another step counts for rank 1 alone, which has no other: its times stay sums
    found = collective_times([*calls(0, 1.0, 2.0), *calls(1, 4.0, 8.0, **other)])
    assert found == [CollectiveTime(0, 2.0, unmatched_s=3.0), CollectiveTime(1, 2.0, unmatched_s=12.0)]


def test_ranks_with_unequal_numbers_of_calls_are_not_matched():
    found = collective_times([*calls(0, 1.0, 2.0), *calls(1, 4.0)])
    assert found == [CollectiveTime(0, 2.0, unmatched_s=3.0), CollectiveTime(1, 1.0, unmatched_s=4.0)]


def test_devices_of_one_rank_are_matched_like_ranks():
    found = collective_times([*calls(0, 1.0), *calls(0, 3.0, device=1), *calls(1, 6.0)])
    assert found == [CollectiveTime(0, 2.0, 2.0, 2.0), CollectiveTime(1, 1.0, 1.0, 5.0)]


def test_a_single_rank_has_nothing_to_compare():
    assert collective_times([]) == collective_times(calls(0, 1.0)) == []
