"""The wait for other ranks, told from the transfer: of gloo as two processes record it, and of NCCL's kernels."""

import subprocess
import sys

import pytest
from helpers import traces
from helpers.traces import call, event, kernel, launch, trace, write

from measure.cache.traces import read_trace, trace_names
from measure.domain.collectives import CollectiveTime, collective_times
from measure.domain.trace_records import TraceCollective
from measure.traces.reading import read
from measure.traces.store import TraceLabels, TraceRows, device_rows, put
from measure.traces.summary import summarise

SLEEP_S, CALLS = 0.05, 6
RANK = f"""
import sys, time, torch, torch.distributed as distributed
from torch.profiler import profile, record_function
rank, folder = int(sys.argv[1]), sys.argv[2]
distributed.init_process_group("gloo", init_method=f"file://{{folder}}/meeting", rank=rank, world_size=2)
numbers = torch.ones(1000)
with profile(record_shapes=True) as profiler:
    distributed.all_reduce(numbers)  # profilers do not start together
    with record_function("ProfilerStep#1"):
        for _ in range({CALLS}):
            if rank == 0:
                time.sleep({SLEEP_S})
            distributed.all_reduce(numbers)
profiler.export_chrome_trace(f"{{folder}}/{{rank}}.json")
distributed.destroy_process_group()
"""


def times(*documents):
    """The times of each rank's collectives, as they are stored and read."""
    for path in documents:
        found = summarise(*read(path))
        rows = TraceRows(device_rows(found, {}, TraceLabels()), found.steps, found.operators, found.collectives)
        put(path.parent, rows)
    (name,) = trace_names(documents[0].parent)
    return collective_times(read_trace(documents[0].parent, name).collectives)


def test_gloos_wait_is_the_others_sleep(tmp_path):
    ranks = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(tmp_path)]) for rank in range(2)]
    assert [each.wait(timeout=120) for each in ranks] == [0, 0]
    late, early = times(tmp_path / "0.json", tmp_path / "1.json")
    assert (late.calls, early.calls, late.unmatched_s) == (CALLS, CALLS, 0.0)
    assert late.transfer_s == early.transfer_s > 0
    assert early.wait_s > CALLS * SLEEP_S / 2
    assert late.wait_s < early.wait_s / 2
    rows = {row.operator: row for row in summarise(*read(tmp_path / "1.json")).operators if row.step}
    ran = rows["gloo.all_reduce"]
    assert (ran.layer_kind, ran.stage, ran.calls) == ("communication", None, CALLS)
    assert (ran.byte, ran.flop) == (CALLS * 2 * 4 * 1000, 0)  # read and written
    # The thread that starts them is busy meanwhile: its time is the host's, or both would count
    assert [name for name, row in rows.items() if row.layer_kind == "communication"] == ["gloo.all_reduce"]
    assert ran.time_s == pytest.approx(early.transfer_s + early.wait_s)


def rank_of(rank, durations, names=("AllReduce_Sum_f32_RING_LL",), ranks="[0, 1]", world_size=2):
    """A rank whose collectives take these times (µs), one after the other."""
    events = []
    for number, duration in enumerate(durations):
        start = 1000 * number
        events += [call("c10d::allreduce_", ["8x64"], start=start + 10), launch(start + 12, number + 1)]
        name = f"ncclDevKernel_{names[number % len(names)]}(ncclDevKernelArgsStorage<4096ul>)"
        events.append(kernel(name, start + 50, duration, number + 1, **{"Process Group Ranks": ranks}))
    return trace(*events, distributedInfo={"rank": rank, "world_size": world_size})


def test_the_wait_is_what_a_rank_takes_beyond_the_fastest(tmp_path):
    paths = [write(tmp_path / f"{rank}.json", rank_of(rank, each)) for rank, each in enumerate(((10, 30), (40, 12)))]
    # The first takes 10 and the second 12 µs of transfer: the one rank waits 18 for it, the other 30 for the first.
    # Each sends 8 x 64 fp32 numbers: 2 x 2048 bytes, and among two ranks the bus carries 2 x 1/2 of them.
    transfer = pytest.approx(22e-6)
    sent = {"byte": 4096, "bus_byte_per_s": pytest.approx(4096 / 22e-6)}
    assert times(*paths) == [
        CollectiveTime(0, 2, transfer, pytest.approx(18e-6), exposed_s=pytest.approx(40e-6), **sent),
        CollectiveTime(1, 2, transfer, pytest.approx(30e-6), exposed_s=pytest.approx(52e-6), **sent),
    ]


def test_collectives_that_not_all_ranks_have_are_not_matched(tmp_path):
    paths = [write(tmp_path / f"{rank}.json", rank_of(rank, each)) for rank, each in enumerate(((10, 30), (40,)))]
    unmatched = [(each.transfer_s, each.wait_s, each.unmatched_s) for each in times(*paths)]
    assert unmatched == [(0.0, 0.0, pytest.approx(40e-6)), (0.0, 0.0, pytest.approx(40e-6))]


def test_groups_of_ranks_are_matched_apart():
    """Ranks 0 and 1 are one group, 2 and 3 another; a group that one rank recorded alone has nothing to compare."""

    def rows(rank, ranks, *times_s):
        return [TraceCollective(rank, 0, 0, "all_reduce", ranks, number, each) for number, each in enumerate(times_s)]

    found = [
        *rows(0, "0 1", 3.0),
        *rows(1, "0 1", 1.0),
        *rows(2, "2 3", 7.0),
        *rows(3, "2 3", 5.0),
        *rows(3, "3 4", 9.0),
    ]
    waits = {each.rank: (each.transfer_s, each.wait_s, each.unmatched_s) for each in collective_times(found)}
    assert waits == {0: (1.0, 2.0, 0.0), 1: (1.0, 0.0, 0.0), 2: (5.0, 2.0, 0.0), 3: (5.0, 0.0, 9.0)}


def test_a_kernel_without_an_operator_has_its_own_name(tmp_path):
    document = trace(
        launch(45, 1), kernel("ncclDevKernel_AllGather_RING_LL()", 50, 9, 1, **{"Process Group Ranks": "[0, 1]"}),
        kernel("gemm", 70, 5, 2), distributedInfo={"rank": 1, "world_size": 2},
    )  # fmt: skip
    found = summarise(*read(write(tmp_path / "1.json", document)))
    rows = [TraceCollective(1, 0, 0, "AllGather", "0 1", 0, 9e-6, 9e-6, "all_gather", group_size=2)]
    assert found.collectives == rows


def test_a_single_process_has_no_collectives_and_no_table(tmp_path):
    path = write(tmp_path / "0.json", rank_of(0, (10, 20), world_size=1))
    assert times(path) == []
    assert not list(tmp_path.glob("traces/*/collectives.csv"))


def test_a_users_range_is_no_operator(tmp_path):
    ranges = [event("user_annotation", f"gloo:{name}", 5, 9, {}) for name in ("My Secret", "x" * 31)]
    (found,) = read(write(tmp_path / "0.json", trace(*traces.ran(traces.addmm(10)), *ranges)))
    assert {each.name for each in found.operators} == {"aten::addmm"}
