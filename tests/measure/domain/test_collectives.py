"""The wait for other ranks in a collective, told from the transfer."""

from dataclasses import replace

import pytest

from measure.domain.collectives import CollectiveTime, bus_factor, collective_of, collective_times, matched_share
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


def test_a_single_rank_has_its_time_and_nothing_to_compare():
    assert collective_times([]) == []
    # Two calls of 3 s in all, of which 2 s are exposed; 30 bytes
    rows = [replace(row, exposed_s=1.0, byte=15) for row in calls(0, 1.0, 2.0)]
    times = collective_times(rows)
    assert times == [CollectiveTime(0, 2.0, None, None, 3.0, exposed_s=2.0, byte=30)]
    assert matched_share(times) is None


def test_a_recorded_number_matches_what_order_does_not():
    """Rank 1 missed the first collective; the order would match its second with the first of rank 0."""

    def numbered(rank, **times_s):
        rows = calls(rank, *times_s.values())
        return [replace(row, sequence=int(name[1:])) for row, name in zip(rows, times_s, strict=True)]

    times = collective_times([*numbered(0, n7=9.0, n8=4.0, n9=2.0), *numbered(1, n8=1.0, n9=5.0)])
    # Number 8: 1 s of transfer, rank 0 waits 3 s; number 9: 2 s, rank 1 waits 3 s; number 7 is alone
    assert times == [CollectiveTime(0, 3.0, 3.0, 3.0, 9.0), CollectiveTime(1, 2.0, 3.0, 3.0)]
    assert matched_share(times) == pytest.approx(1 - 9 / 21)


def test_launches_that_share_a_number_are_matched_in_their_order():
    rows = [
        replace(row, sequence=5) for rank, times in ((0, (1.0, 8.0)), (1, (3.0, 2.0))) for row in calls(rank, *times)
    ]
    # 1 s and 2 s of transfer
    assert collective_times(rows) == [CollectiveTime(0, 2.0, 3.0, 6.0), CollectiveTime(1, 2.0, 3.0, 2.0)]


def test_two_groups_of_the_same_ranks_are_matched_apart():
    rows = [*calls(0, 4.0), *calls(1, 1.0)]
    assert collective_times([replace(row, group=str(row.rank)) for row in rows])[0].unmatched_s == 4.0


@pytest.mark.parametrize(
    ("name", "collective", "of_four"),
    [
        # nccl-tests, doc/PERFORMANCE.md: 2 (n - 1) / n, (n - 1) / n and 1; of four ranks 6/4 and 3/4
        ("c10d.allreduce_", "all_reduce", 1.5),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL", "all_reduce", 1.5),
        ("vllm.all_reduce", "all_reduce", 1.5),
        ("_allgather_base", "all_gather", 0.75),
        ("c10d._reduce_scatter_base_", "reduce_scatter", 0.75),
        ("all_to_allv", "alltoall", 0.75),
        ("gloo.all_to_all", "alltoall", 0.75),
        ("gather", "gather", 0.75),
        ("broadcast", "broadcast", 1.0),
        ("reduce", "reduce", 1.0),
        ("send", "send", 1.0),
        ("gloo.barrier", "barrier", None),
        ("SendRecv", None, None),
        ("mm", None, None),
    ],
)
def test_the_factor_of_the_bus_bandwidth(name, collective, of_four):
    assert collective_of(name) == collective
    assert bus_factor(collective, 4) == of_four
    assert bus_factor(collective, None) is None


def test_bus_bandwidth_is_of_the_transfer_and_not_of_the_wait():
    sizes = {"collective": "all_reduce", "group_size": 4, "byte": 1000}
    rows = [replace(row, **sizes) for rank in range(4) for row in calls(rank, 2.0 + rank, 3.0)]
    # 2 s and 3 s of transfer for 2 x 1000 bytes: 2000 x 2 x 3/4 / 5 s = 600 byte/s, for all ranks
    assert [each.bus_byte_per_s for each in collective_times(rows)] == pytest.approx([600] * 4)
    # A barrier has neither bytes nor a bandwidth, and its time is not the others'
    barrier = [
        replace(row, collective="barrier", group_size=4)
        for rank in range(4)
        for row in calls(rank, 7.0, step=0, operator="barrier")
    ]
    (first, *_) = collective_times([*rows, *barrier])
    assert (first.byte, first.transfer_s) == (2000, 12.0)
    assert first.bus_byte_per_s == pytest.approx(600)
