"""The wait for other ranks, told from the transfer: of gloo as two processes record it, and of NCCL's kernels."""

import subprocess
import sys

import pytest
from helpers import traces
from helpers.traces import call, event, kernel, launch, trace, write

from measure.cache.traces import read_trace, trace_names
from measure.domain.collectives import CollectiveTime, collective_times, matched_share
from measure.domain.trace_records import TraceCollective
from measure.traces.reading import read
from measure.traces.store import TraceLabels, TraceRows, device_rows, put
from measure.traces.summary import summarise

SLEEP_S, CALLS = 0.05, 6
RANK = f"""
import sys, time, torch, torch.distributed as distributed
from torch.profiler import profile, record_function
rank, size, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
distributed.init_process_group("gloo", init_method=f"file://{{folder}}/meeting", rank=rank, world_size=size)
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
    size = 3
    words = [[sys.executable, "-c", RANK, str(rank), str(size), str(tmp_path)] for rank in range(size)]
    ranks = [subprocess.Popen(each) for each in words]
    assert [each.wait(timeout=120) for each in ranks] == [0] * size
    late, *early = found = times(*(tmp_path / f"{rank}.json" for rank in range(size)))
    assert [each.calls for each in found] == [CALLS] * size
    assert matched_share(found) == 1.0
    assert late.transfer_s > 0
    for each in early:
        # A sleep is at least SLEEP_S; before it ends, the others may still be busy with the last call
        assert 0.8 * CALLS * SLEEP_S < each.wait_s < 2 * CALLS * SLEEP_S + late.transfer_s
        assert late.wait_s < each.wait_s / 2
        assert each.transfer_s == late.transfer_s
        # They sleep or wait, and compute nothing
        assert each.exposed_s > 0.8 * CALLS * SLEEP_S
        assert each.byte == CALLS * 4 * 1000
        factor = 2 * (size - 1) / size
        assert each.bus_byte_per_s == pytest.approx(factor * CALLS * 4 * 1000 / late.transfer_s)
    rows = {row.operator: row for row in summarise(*read(tmp_path / "1.json")).operators if row.step}
    ran = rows["gloo.all_reduce"]
    assert (ran.layer_kind, ran.stage, ran.calls) == ("communication", None, CALLS)
    assert (ran.byte, ran.flop) == (CALLS * 2 * 4 * 1000, 0)  # read and written
    # The thread that starts them is busy meanwhile: its time is the host's, or both would count
    assert [name for name, row in rows.items() if row.layer_kind == "communication"] == ["gloo.all_reduce"]
    assert ran.time_s == pytest.approx(early[0].transfer_s + early[0].wait_s)


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


NAMED = {"Process Group Name": "3", "Process Group Ranks": "[0, 2]", "Group size": 2}


def nccl(start, duration, correlation, name="AllReduce_Sum_f32_RING_LL", **arguments):
    """A kernel of NCCL and its launch."""
    return [
        launch(start - 5, correlation),
        kernel(f"ncclDevKernel_{name}()", start, duration, correlation, **arguments),
    ]


def rows_of(tmp_path, *events, **header):
    document = trace(*events, distributedInfo={"rank": 0, "world_size": 4} | header)
    return summarise(*read(write(tmp_path / "0.json", document))).collectives


def test_what_the_kernel_records_of_its_collective(tmp_path):
    sizes = {"Collective name": "_allgather_base", "In msg nelems": 100, "Out msg nelems": 200, "dtype": "BFloat16"}
    (row,) = rows_of(tmp_path, *nccl(50, 9, 1, "AllGather_RING_LL", **NAMED, **sizes, Seq=17))
    # The output has the parts of both ranks: 200 numbers of 2 bytes
    assert (row.collective, row.byte, row.sequence) == ("all_gather", 400, 17)
    assert (row.group, row.ranks, row.group_size) == ("3", "0 2", 2)


def test_the_range_around_the_launch_describes_it_as_well(tmp_path):
    sizes = {"Collective name": "allreduce", "In msg nelems": 7, "Out msg nelems": 7, "dtype": "Float"}
    around = event("cpu_op", "record_param_comms", 40, 8, NAMED | sizes | {"Seq": 4})
    (row,) = rows_of(tmp_path, around, *nccl(50, 9, 1))
    assert (row.collective, row.byte, row.sequence, row.group) == ("all_reduce", 28, 4, "3")


@pytest.mark.parametrize(
    ("name", "groups", "byte"),
    [
        ("nccl:all_reduce", 1, 4000),
        ("nccl:_all_gather_base", 0, 16000),  # the range has a rank's own part: four ranks, unless there are groups
        ("nccl:_all_gather_base", 3, None),
    ],
)
def test_old_traces_have_the_size_in_a_range(tmp_path, name, groups, byte):
    shape = {"Input Dims": [[1000]], "Input type": ["float"]}
    (row,) = rows_of(tmp_path, event("user_annotation", name, 40, 8, shape), *nccl(50, 9, 1), pg_count=groups)
    assert row.byte == byte
    assert row.group_size == (4 if groups < 2 else None)


def test_exposed_is_what_no_other_kernel_covers(tmp_path):
    """A collective from 50 to 150; kernels from 40 to 70, 60 to 80 and 140 to 200; another collective is no cover."""
    others = [kernel("gemm", 40, 30, 7), kernel("relu", 60, 20, 8), kernel("gemm", 140, 60, 9)]
    others.append(kernel("elsewhere", 80, 60, 10, device=1))
    rows = rows_of(tmp_path, *nccl(50, 100, 1), *nccl(90, 20, 2), *others)
    # 100 - (80 - 50) - (150 - 140) = 60 µs; the second, from 90 to 110, has nothing beneath it
    assert [row.exposed_s for row in rows] == pytest.approx([60e-6, 20e-6])


def test_private_names_of_groups_are_not_stored(tmp_path):
    fields = {"Process Group Name": "my secret group", "Collective name": "/home/me", "dtype": "x" * 99}
    (row,) = rows_of(tmp_path, *nccl(50, 9, 1, **fields))
    assert (row.group, row.collective, row.byte) == (None, "all_reduce", None)
