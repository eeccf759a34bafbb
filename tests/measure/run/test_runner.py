import dataclasses
import math
from types import SimpleNamespace

import pytest
from helpers.rows import roof_measurement, workload
from helpers.tasks import changed, counter_task, inference_task, profile_task, training_task

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.records import (
    Environment,
    HardwareCounterProfile,
    KernelCounters,
    KernelTime,
    OperatorTime,
    Profile,
    RoofMeasurement,
    Run,
    Sample,
)
from measure.cache.workload_records import Workload
from measure.counting.count import Count
from measure.machine.sensors import Conditions
from measure.models import catalog
from measure.profiling.attribution import AttributedKernel, AttributedTime
from measure.profiling.ncu_csv import CountedCell, CountedKernel
from measure.profiling.profile import CellProfile, SystemUse
from measure.roofs.roofs import KernelTiming
from measure.run import runner
from measure.run.sections import RoofTask, WorkloadTask
from measure.run.task import Failure, RunCache
from measure.run.worker import BudgetSpent
from measure.timing.sampling import TimedSample, Timing

ALEXNET = catalog.find(["alexnet"])[0]
ENVIRONMENT = Environment(
    "e1", "h1", "cpu", "Chip", 2, 2, 1024, None, None, "Linux", "3.11", "2.9", None, None, "2026-01-01"
)
SITTING = {"sitting": "2026-01-02T00:00:00+00:00", "seed": 7, "version": "1.2.3 (abcdef)"}
ROOF = RoofTask("matmul", "fp32", 8, "sustained")
CELL = inference_task(ALEXNET, 4, "fp32", "eager", 0)
STEP = training_task(ALEXNET, 4, "fp32", "adam", 0)
PROFILE = profile_task(ALEXNET, 4, "fp32", "adam", "step")
COUNTERS = counter_task(ALEXNET, 4, "fp32", "adam", "step")
COUNT = WorkloadTask(ALEXNET, (1, 4), "fp32", None)


def timing(block, *latencies_s, flags=()):
    return Timing(block, tuple(TimedSample(latency) for latency in latencies_s), flags)


class NullExecutor:
    """Answers each task from a list, as a worker would."""

    def __init__(self, outcomes):
        self._outcomes = iter(outcomes)

    def run(self, task, deadline=None):
        outcome = next(self._outcomes)
        if isinstance(outcome, type):
            raise outcome
        return outcome


class Log:
    def __init__(self):
        self.lines = []

    def begin(self, task):
        self.lines.append(("begin", task))

    def end(self, task, outcome):
        self.lines.append(("end", task))

    def skip(self, task):
        self.lines.append(("skip", task))


@pytest.fixture
def folder(tmp_path):
    return MachineFolder(tmp_path, "box")


@pytest.fixture
def clock(monkeypatch):
    """The runner's clock, which stands still unless a test moves its hands."""
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock


def do(tmp_path, folder, tasks, outcomes, deadline=None):
    store = RunCache(Workloads(tmp_path), folder, ENVIRONMENT, **SITTING)
    return runner.run(tasks, NullExecutor(outcomes), store.put, Log(), deadline)


def test_results_go_into_their_tables(tmp_path, folder, monkeypatch):
    monkeypatch.setattr("measure.run.task.now", lambda: "2026-01-03T00:00:00+00:00")
    signature = {"recorded_at": "2026-01-03T00:00:00+00:00", **SITTING}
    counted = workload("alexnet")
    roof = dataclasses.replace(roof_measurement(), pace="sustained", **signature)
    summary = do(
        tmp_path,
        folder,
        [COUNT, ROOF, CELL],
        [[Count(counted, [], [])], KernelTiming(0.5, 0.4, 0.6, 6), timing(3, 0.1, 0.2)],
    )
    assert Workloads(tmp_path).rows(Workload) == [counted]
    assert folder.rows(RoofMeasurement) == [roof]
    assert folder.rows(Environment) == [ENVIRONMENT]
    (run,) = folder.rows(Run)
    assert (run.model, run.batch, run.status, run.reason) == ("alexnet", 4, "ok", None)
    assert run.input_shape == "3x224x224"
    assert {name: getattr(run, name) for name in signature} == signature
    assert [(row.sample, row.block, row.latency_s) for row in folder.rows(Sample)] == [(0, 3, 0.1), (1, 3, 0.2)]
    assert summary.statuses == {"ok": 3}


def test_rounds_of_a_stream_stand_beside_each_other(tmp_path, folder):
    streams = [RoofTask("stream_read", "fp64", 1536, "sustained", number) for number in (0, 1, 2, 1)]
    do(tmp_path, folder, streams, [KernelTiming(latency_s, 0.1, 0.9, 6) for latency_s in (0.5, 0.25, 0.5, 0.75)])
    assert [(row.round, row.latency_s) for row in folder.rows(RoofMeasurement)] == [(0, 0.5), (2, 0.5), (1, 0.75)]


def test_failures_become_rows_and_the_run_goes_on(tmp_path, folder):
    outcomes = [
        Failure("error", "no shape"),
        Failure("unsupported", "no kernel"),
        Failure("oom", "full"),
        timing(1, 1.0),
    ]
    tasks = [COUNT, ROOF, CELL, inference_task(ALEXNET, 8, "fp32", "eager", 0)]
    summary = do(tmp_path, folder, tasks, outcomes)
    assert [(row.batch, row.status, row.reason, row.forward_flop) for row in Workloads(tmp_path).rows(Workload)] == [
        (1, "error", "no shape", None),
        (4, "error", "no shape", None),
    ]
    assert [(row.status, row.reason, row.latency_s) for row in folder.rows(RoofMeasurement)] == [
        ("unsupported", "no kernel", None)
    ]
    assert [(row.batch, row.status, row.reason) for row in folder.rows(Run)] == [(4, "oom", "full"), (8, "ok", None)]
    assert summary.statuses == {"error": 1, "unsupported": 1, "oom": 1, "ok": 1}
    assert [task for task, _ in summary.failures] == [COUNT, ROOF, CELL]


def test_whatever_a_reason_says_the_tables_can_be_read(tmp_path, folder):
    # A cell of CSV may have 131,072 characters (Python's csv.field_size_limit).
    failure = Failure("error", "\ud800\x00\r\n" + 10_000_000 * "x")
    do(tmp_path, folder, [COUNT, ROOF, CELL, STEP, PROFILE, COUNTERS], [failure] * 6)
    assert {row.reason for row in Workloads(tmp_path).rows(Workload)} == {failure.reason}
    rows = [
        *folder.rows(RoofMeasurement),
        *folder.rows(Run),
        *folder.rows(Profile),
        *folder.rows(HardwareCounterProfile),
    ]
    assert [row.reason for row in rows] == [failure.reason] * (1 + 1 + 4 + 1 + 1)  # a step has four rows


def test_a_spent_budget_leaves_its_task_and_the_rest(tmp_path, folder, clock):
    summary = do(tmp_path, folder, [CELL, ROOF, COUNT], [timing(1, 1.0), BudgetSpent], deadline=1000.0)
    assert summary.left == 2
    assert len(folder.rows(Run)) == 1
    assert folder.rows(RoofMeasurement) == []


def test_a_result_that_no_table_can_hold_is_a_row_and_the_run_goes_on(tmp_path, folder):
    summary = do(tmp_path, folder, [ROOF, CELL], [KernelTiming(math.inf, 0.4, 0.6, 6), timing(1, 1.0)])
    (row,) = folder.rows(RoofMeasurement)
    assert (row.status, row.latency_s) == ("error", None)
    assert row.reason.startswith(f"{folder.folder / 'roofs.csv'}, column latency_s: the cell is 'inf', not a number")
    assert [row.status for row in folder.rows(Run)] == ["ok"]
    assert summary.statuses == {"error": 1, "ok": 1}
    assert [task for task, _ in summary.failures] == [ROOF]


def test_no_task_begins_after_the_budget(tmp_path, folder, clock):
    summary = do(tmp_path, folder, [CELL], [], deadline=0.0)
    assert summary.left == 1


class Punctual:
    """Takes so long for a task, moves the clock by it, and gives the task up at the deadline, as the worker does."""

    def __init__(self, clock, task_s):
        self._clock, self._task_s = clock, task_s

    def run(self, task, deadline=None):
        if deadline is not None and self._clock.now + self._task_s > deadline:
            self._clock.now = deadline
            raise BudgetSpent
        self._clock.now += self._task_s
        return timing(1, 1.0)


@pytest.mark.parametrize(("task_s", "done"), [(30.0, 3), (25.0, 4), (0.3, 333), (500.0, 0)])
def test_a_run_ends_when_its_budget_does(tmp_path, folder, clock, task_s, done):
    """At 100 s: neither at the end of the task before, nor at that of the one which the end falls into."""
    tasks = [changed(CELL, batch=batch) for batch in range(1, 401)]
    store = SimpleNamespace(put=lambda task, outcome: None)
    summary = runner.run(tasks, Punctual(clock, task_s), store.put, Log(), 100.0)
    assert clock.now == pytest.approx(100.0)
    assert (summary.statuses.total(), summary.left) == (done, 400 - done)


def test_conditions_and_flags_are_kept(tmp_path, folder):
    conditions = Conditions(load=0.25, clock_hz=1e9, throttle="power cap")
    timed = Timing(2, (TimedSample(0.1, 0.09, conditions),), ("wide", "throttled"))
    do(tmp_path, folder, [dataclasses.replace(CELL, round=2)], [timed])
    (run,) = folder.rows(Run)
    assert (run.round, run.flags) == (2, "wide;throttled")
    (row,) = folder.rows(Sample)
    assert (row.round, row.event_s, row.load, row.clock_hz, row.throttle) == (2, 0.09, 0.25, 1e9, "power cap")
    assert row.energy_j is None


def test_no_further_round_of_a_cell_that_failed(tmp_path, folder):
    again = dataclasses.replace(CELL, round=1)
    other = changed(CELL, 1, batch=8)
    summary = do(tmp_path, folder, [CELL, again, other], [Failure("oom", "full"), timing(1, 1.0)])
    assert [(row.batch, row.round, row.status) for row in folder.rows(Run)] == [(4, 0, "oom"), (8, 1, "ok")]
    assert summary.statuses == {"oom": 1, "ok": 1}


def test_what_cannot_fit_is_recorded_without_being_tried(tmp_path, folder):
    store = RunCache(Workloads(tmp_path), folder, ENVIRONMENT)
    refusal = {CELL: Failure("oom", "not tried: too large")}.get
    runner.run([CELL, ROOF], NullExecutor([Failure("error", "no")]), store.put, Log(), refusal=refusal)
    (row,) = folder.rows(Run)
    assert (row.status, row.reason) == ("oom", "not tried: too large")


def step_timing(*forward_s):
    """Of steps whose backward pass takes twice their forward pass, and the update 0.1 s."""
    latencies_s = {
        "step": [3 * each + 0.1 for each in forward_s],
        "forward": forward_s,
        "backward": [2 * each for each in forward_s],
        "update": [0.1 for _ in forward_s],
    }
    phases = {phase: timing(1, *values) for phase, values in latencies_s.items()}
    phases["update"] = dataclasses.replace(phases["update"], flags=("drifting",))
    return dataclasses.replace(phases.pop("step"), stages=phases, peak_byte=2048)


def test_a_round_of_a_step_is_a_row_for_the_whole_and_for_each_stage(tmp_path, folder):
    summary = do(tmp_path, folder, [STEP], [step_timing(0.5, 0.25)])
    assert [(row.phase, row.variant, row.status, row.flags, row.peak_byte) for row in folder.rows(Run)] == [
        ("forward", "adam", "ok", None, None),
        ("backward", "adam", "ok", None, None),
        ("update", "adam", "ok", "drifting", None),
        ("step", "adam", "ok", None, 2048),
    ]
    by_sample = {(row.sample, row.phase): row.latency_s for row in folder.rows(Sample)}
    assert by_sample[1, "forward"] == 0.25
    assert by_sample[1, "backward"] == 0.5
    assert by_sample[1, "update"] == 0.1
    assert by_sample[1, "step"] == pytest.approx(0.85)
    assert len(by_sample) == 8
    assert summary.statuses == {"ok": 1}


def test_a_step_that_failed_is_hopeless_and_the_forward_pass_is_not(tmp_path, folder):
    again = dataclasses.replace(STEP, round=1)
    forward = inference_task(ALEXNET, 4, "fp32", "adam", 1)
    summary = do(tmp_path, folder, [STEP, again, forward], [Failure("oom", "full"), timing(1, 1.0)])
    assert [(row.phase, row.status, row.reason) for row in folder.rows(Run)] == [
        *((phase, "oom", "full") for phase in ("forward", "backward", "update", "step")),
        ("inference", "ok", None),
    ]
    assert summary.statuses == {"oom": 1, "ok": 1}
    assert len(summary.failures) == 1


def test_a_profile_is_a_row_with_the_times_of_its_operators(tmp_path, folder):
    times = (
        AttributedTime("forward", "features.0", "conv2d", 1, 0.25),
        AttributedTime("update", None, "add_", 16, 0.125),
    )
    kernels = (AttributedKernel("forward", "features.0", "conv2d", "implicit_gemm", 2, 0.25),)
    use = SystemUse(0.0625, 1200.0)
    do(tmp_path, folder, [PROFILE], [CellProfile(3, 0.5, 0.625, times, 0.375, kernels, use)])
    (row,) = folder.rows(Profile)
    assert (row.busy_s, row.system_s, row.page_faults) == (0.375, 0.0625, 1200.0)
    assert (row.phase, row.variant, row.status, row.steps, row.plain_s, row.profiled_s) == (
        "step",
        "adam",
        "ok",
        3,
        0.5,
        0.625,
    )
    cell = ("e1", "alexnet", 4, "fp32", "step", "adam")
    assert folder.rows(OperatorTime) == [OperatorTime(*cell, *each) for each in times]
    assert folder.rows(KernelTime) == [KernelTime(*cell, *each) for each in kernels]
    assert folder.rows(Environment) == [ENVIRONMENT]
    assert folder.rows(Run) == []


def test_a_profile_that_failed_or_cannot_fit_is_a_row_with_the_reason(tmp_path, folder):
    compiled = changed(PROFILE, variant="compile")
    store = RunCache(Workloads(tmp_path), folder, ENVIRONMENT)
    refusal = {PROFILE: Failure("oom", "not tried: too large")}.get
    outcomes = NullExecutor([Failure("unsupported", "compiled"), timing(1, 1.0)])
    summary = runner.run([PROFILE, compiled, CELL], outcomes, store.put, Log(), refusal=refusal)
    assert [(row.variant, row.status, row.reason, row.profiled_s) for row in folder.rows(Profile)] == [
        ("adam", "oom", "not tried: too large", None),
        ("compile", "unsupported", "compiled", None),
    ]
    assert folder.rows(OperatorTime) == []
    assert summary.statuses == {"oom": 1, "unsupported": 1, "ok": 1}


def test_counters_are_a_row_with_their_kernels_or_with_a_reason(tmp_path, folder):
    kernel = CountedKernel("sgemm", 2, 0.5, 8.0, 4.0, 16.0, 32.0, 0.0, 64.0, 0.0, None, 3.0)
    counted = CountedCell(2, "ncu 1.2", (kernel,), "7.5", "not counted")
    compiled = changed(COUNTERS, variant="compile")
    summary = do(tmp_path, folder, [COUNTERS, compiled], [counted, Failure("unsupported", "forbidden")])
    one, other = folder.rows(HardwareCounterProfile)
    assert (one.phase, one.variant, one.status, one.tool) == ("step", "adam", "ok", "ncu 1.2")
    assert (one.capability, one.steps, one.tensor_gap) == ("7.5", 2, "not counted")
    assert (other.variant, other.status, other.reason, other.tool) == ("compile", "unsupported", "forbidden", None)
    assert folder.rows(KernelCounters) == [KernelCounters("e1", "alexnet", 4, "fp32", "step", "adam", *kernel)]
    assert summary.statuses == {"ok": 1, "unsupported": 1}
