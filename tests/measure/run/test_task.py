"""What outcomes of all sections are in a few words."""

from dataclasses import replace

import pytest
from helpers.tasks import counter_task, inference_task, profile_task, training_task

from measure.counting.count import not_counted
from measure.models import catalog
from measure.profiling.attribution import AttributedTime
from measure.profiling.ncu_csv import CountedCell, CountedKernel
from measure.profiling.profile import CellProfile
from measure.roofs.roofs import KernelTiming
from measure.run.sections import RoofTask, WorkloadTask
from measure.run.task import Failure
from measure.timing.sampling import TimedSample, Timing

ALEXNET = catalog.find(["alexnet"])[0]
CELL = inference_task(ALEXNET, 64, "fp32", "eager", 0)
STEP = training_task(ALEXNET, 64, "fp32", "eager", 0)
PROFILE = profile_task(ALEXNET, 64, "fp32", "eager", "inference")
COUNTERS = counter_task(ALEXNET, 64, "fp32", "eager", "inference")


def timing(*latencies_s):
    return Timing(1, tuple(map(TimedSample, latencies_s)))


def test_a_reason_is_at_most_500_printable_characters():
    reason = Failure("error", "Wide: \ud800\x00\n" + "x" * 10_000_000).reason
    assert len(reason) == 500
    assert reason.isprintable()
    assert reason.startswith("Wide: ")


def test_outcomes_in_a_few_words():
    # Six values: the interval reaches from 0.9 to 1.1, half of it is 10 % of the median 1.0.
    assert CELL.describe(timing(0.9, 1.0, 1.0, 1.0, 1.0, 1.1)) == "1.00 s (±10.0 %, 6 samples)"
    assert CELL.describe(timing(1.0, 1.0, 1.0)) == "1.00 s (no interval, 3 samples)"
    step = replace(timing(1.0, 1.0, 1.0), stages={"forward": timing(0.1, 0.1, 0.1)}, peak_byte=1024)
    assert STEP.describe(step) == "1.00 s (no interval, 3 samples)"
    assert CELL.describe(Failure("oom", "full")) == "oom: full"
    times = (AttributedTime("inference", ".", "add", 1, 0.01), AttributedTime("inference", "a", "linear", 2, 0.02))
    profiled = CellProfile(3, 0.035, 0.04, times)
    assert PROFILE.describe(profiled) == "35.0 ms, profiled 40.0 ms, 75% of it in operators"
    kernel = CountedKernel("sgemm", 3, 0.5, *[None] * 9)
    assert COUNTERS.describe(CountedCell(2, "ncu", (kernel,), "8.0", None)) == "3 kernels, 500 ms"


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"forward_flop": 2.8e10}, "14.0 GFLOP an input"),
        (
            {"forward_flop": 2.8e10, "reason": "backward not counted: head (Linear): no"},
            "14.0 GFLOP an input; backward not counted: head (Linear): no",
        ),
        (
            {"forward_flop": 2.8e10, "uncounted": "mode:2:0.1;sort:1:0.2", "reason": "backward not counted: no"},
            "14.0 GFLOP an input, without mode, sort; backward not counted: no",
        ),
        ({"forward_flop": 0, "forward_other_flop": 600}, "no products, 300 FLOP of other arithmetic an input"),
        (
            {"forward_flop": 0, "forward_other_flop": 0, "uncounted": "mode:1:1"},
            "no products, 0 FLOP of other arithmetic an input, without mode",
        ),
    ],
)
def test_counts_in_a_few_words_say_what_is_missing(columns, words):
    """For a batch of 2."""
    none = not_counted(ALEXNET, 2, "fp32", None, "ok", None)
    counted = none._replace(workload=replace(none.workload, **{"forward_other_flop": 0, **columns}))
    task = WorkloadTask(ALEXNET, (2, 4), "fp32", None)
    assert task.describe([counted, none]) == words


@pytest.mark.parametrize(
    ("kernel", "precision", "size", "words"),
    [
        ("matmul", "fp32", 1000, "1.00 GFLOP/s"),  # 2 * 1000^3 in 2 s
        ("matmul", "fp8", 1000, "1.00 GFLOP/s"),
        ("matmul", "int8", 1000, "1.00 GOP/s"),  # integers are no FLOP
        ("fma", "fp32", 3_000_000_000, "3.00 GFLOP/s"),
        ("stream_triad", "fp64", 6_000_000_000, "3.00 GB/s"),
        ("chain", "int64", 7_400_000_000, "3.700 additions/ns"),
    ],
)
def test_roofs_in_a_few_words(kernel, precision, size, words):
    assert RoofTask(kernel, precision, size, "sustained").describe(KernelTiming(2.0, 2.0, 2.0, 6)) == words
