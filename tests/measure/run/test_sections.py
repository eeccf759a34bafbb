"""Outcomes of all sections in a few words."""

from dataclasses import replace

import pytest
from helpers.cells import counter_task, inference_task, profile_task, training_task

from measure.counting.count import not_counted
from measure.models import catalog
from measure.profiling.attribution import AttributedTime
from measure.profiling.ncu_csv import CountedCell, CountedKernel
from measure.profiling.profile import CellProfile
from measure.roofs.roofs import KernelTiming
from measure.run.sections import describe
from measure.run.tasks import Failure, RoofTask, WorkloadTask
from measure.timing.sampling import TimedSample, Timing

ALEXNET = catalog.find(["alexnet"])[0]
CELL = inference_task(ALEXNET, 64, "fp32", "eager", 0)
STEP = training_task(ALEXNET, 64, "fp32", "eager", 0)
PROFILE = profile_task(ALEXNET, 64, "fp32", "eager", "inference")
COUNTERS = counter_task(ALEXNET, 64, "fp32", "eager", "inference")
TIMES = (AttributedTime("inference", ".", "add", 1, 0.01), AttributedTime("inference", "a", "linear", 2, 0.02))
KERNEL = CountedKernel("sgemm", 3, 0.5, *[None] * 9)
NONE = not_counted(ALEXNET, 2, "fp32", None, "ok", None)


def timing(*latencies_s):
    return Timing(1, tuple(map(TimedSample, latencies_s)))


def roof(kernel, precision, size):
    return RoofTask(kernel, precision, size, "sustained"), KernelTiming(2.0, 2.0, 2.0, 6)


def count(flop, **columns):
    """Of a batch of 2."""
    row = replace(NONE.workload, forward_flop=flop, **{"forward_other_flop": 0} | columns)
    return WorkloadTask(ALEXNET, (2, 4), "fp32", None), [NONE._replace(workload=row), NONE]


@pytest.mark.parametrize(
    ("task", "outcome", "words"),
    [
        # Six values: the interval reaches from 0.9 to 1.1, half of it is 10 % of the median 1.0.
        (CELL, timing(0.9, 1.0, 1.0, 1.0, 1.0, 1.1), "1.00 s (±10.0 %, 6 samples)"),
        (STEP, replace(timing(1.0), stages={"forward": timing(0.1)}), "1.00 s (no interval, 1 samples)"),
        (CELL, Failure("oom", "full"), "oom: full"),
        (PROFILE, CellProfile(3, 0.035, 0.04, TIMES), "35.0 ms, profiled 40.0 ms, 75% of it in operators"),
        (COUNTERS, CountedCell(2, "ncu", (KERNEL,), "8.0", None), "3 kernels, 500 ms"),
        (*roof("matmul", "fp32", 1000), "1.00 GFLOP/s"),  # 2 * 1000^3 in 2 s
        (*roof("fma", "fp32", 3_000_000_000), "3.00 GFLOP/s"),
        (*roof("chain", "int64", 7_400_000_000), "3.700 additions/ns"),
        (RoofTask("idle", "fp32", 2000, "sustained"), KernelTiming(2.0, energy_j=125.0), "62.5 W"),  # 125 J in 2 s
        (RoofTask("idle", "fp32", 2000, "sustained"), KernelTiming(2.0), "no energy counted"),
        (*count(2.8e10, uncounted="mode:2:0.1;sort:1:0.2", reason="no"), "14.0 GFLOP an input, without mode, sort; no"),
        (*count(0, forward_other_flop=600), "no products, 300 FLOP of other arithmetic an input"),
    ],
)
def test_outcomes_in_a_few_words(task, outcome, words):
    assert describe(task, outcome) == words
