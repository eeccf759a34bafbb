"""A run of tasks: its rows, skipped tasks and tasks left. Workers answer from a list."""

import dataclasses
from functools import partial
from types import SimpleNamespace

import pytest
from helpers.cells import changed, counter_task, inference_task, profile_task, training_task
from helpers.rows import ENVIRONMENT, roof_measurement, workload
from hypothesis import given
from hypothesis import strategies as st

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.table import UnreadableError
from measure.counting.count import Count
from measure.domain import records
from measure.domain.records import Profile, RoofMeasurement, Run, Sample
from measure.domain.workload_records import Workload
from measure.machine.sensors import Conditions
from measure.models import catalog
from measure.profiling.attribution import AttributedKernel, AttributedTime
from measure.profiling.ncu_csv import CountedCell, CountedKernel
from measure.profiling.profile import CellProfile, SystemUse
from measure.roofs.roofs import KernelTiming
from measure.run import runner
from measure.run.sections import put
from measure.run.storing import RunCache
from measure.run.tasks import Failure, RoofTask, WorkloadTask
from measure.run.worker import BudgetSpent
from measure.timing.sampling import TimedSample, Timing

ALEXNET = catalog.find(["alexnet"])[0]
SITTING = {"session": "2026-01-02T00:00:00+00:00", "seed": 7, "version": "1.2.3 (abcdef)"}
ROOF = RoofTask("matmul", "fp32", 8, "sustained")
CELL = inference_task(ALEXNET, 4, "fp32", "eager", 0)
STEP = training_task(ALEXNET, 4, "fp32", "adam", 0)
PROFILE = profile_task(ALEXNET, 4, "fp32", "adam", "step")
COUNTERS = counter_task(ALEXNET, 4, "fp32", "adam", "step")
COUNT = WorkloadTask(ALEXNET, (1, 4), "fp32", None)


def timing(block, *latencies_s, **changes):
    return Timing(block, tuple(map(TimedSample, latencies_s)), **changes)


def answers(outcomes):
    """A worker that answers each task from a list."""
    following = iter(outcomes)
    return SimpleNamespace(run=lambda task, deadline=None: next(following))


SILENT = SimpleNamespace(begin=lambda task: None, end=lambda task, outcome: None, skip=lambda task: None)


@pytest.fixture
def cache(tmp_path):
    return RunCache(Workloads(tmp_path), MachineFolder(tmp_path, "box"), ENVIRONMENT, **SITTING)


def do(cache, outcomes):
    """Run tasks that end so; return the summary."""
    return runner.run(list(outcomes), answers(outcomes.values()), partial(put, cache), SILENT)


def test_results_go_into_their_tables(cache, monkeypatch):
    monkeypatch.setattr("measure.run.storing.now", lambda: "2026-01-03T00:00:00+00:00")
    signature = {"recorded_at": "2026-01-03T00:00:00+00:00", **SITTING}
    counted = workload("alexnet")
    conditions = Conditions(load=0.25, clock_hz=1e9, throttle="power cap")
    timed = Timing(3, (TimedSample(0.1, 0.09), TimedSample(0.2)), ("wide", "throttled"), conditions=conditions)
    again = dataclasses.replace(CELL, round=2)
    summary = do(cache, {COUNT: [Count(counted, [], [])], ROOF: KernelTiming(0.5, 0.4, 0.6, 6), again: timed})
    assert cache.workloads.rows(Workload) == [counted]
    assert cache.folder.rows(RoofMeasurement) == [dataclasses.replace(roof_measurement(), **signature)]
    assert cache.folder.rows(records.Environment) == [ENVIRONMENT]
    cell = (ENVIRONMENT.environment_id, "alexnet", 4, "fp32", "inference", "eager")
    of_run = {"round": 2, "flags": "wide;throttled", "input_shape": "3x224x224", "target": 0.05}
    assert cache.folder.rows(Run) == [Run(*cell, status="ok", reason=None, **of_run, **signature)]
    read = {"load": 0.25, "clock_hz": 1e9, "throttle": "power cap"}
    assert cache.folder.rows(Sample) == [
        Sample(*cell, sample=0, block=3, latency_s=0.1, round=2, event_s=0.09, **read),
        Sample(*cell, sample=1, block=3, latency_s=0.2, round=2, **read),
    ]
    assert summary.statuses == {"ok": 3}


def test_a_round_of_a_step_is_a_row_for_the_whole_and_each_stage(cache):
    stages = {"forward": timing(1, 0.5, 0.25), "backward": timing(1, 1.0, 0.5)}
    stages["update"] = timing(1, 0.1, 0.1, flags=("drifting",))
    do(cache, {STEP: timing(1, 1.6, 0.85, stages=stages, peak_byte=2048)})
    rows = [("forward", None, None), ("backward", None, None), ("update", "drifting", None), ("step", None, 2048)]
    assert [(row.phase, row.flags, row.peak_byte) for row in cache.folder.rows(Run)] == rows
    assert {(row.variant, row.status) for row in cache.folder.rows(Run)} == {("adam", "ok")}
    latencies = {phase: [] for phase, *_ in rows}
    for row in cache.folder.rows(Sample):
        latencies[row.phase].append(row.latency_s)
    assert latencies == {"forward": [0.5, 0.25], "backward": [1.0, 0.5], "update": [0.1, 0.1], "step": [1.6, 0.85]}


def test_profiles_and_counters_are_rows_with_their_kernels(cache):
    times = (
        AttributedTime("forward", "features.0", "conv2d", 1, 0.25), AttributedTime("update", None, "add_", 16, 0.125)
    )  # fmt: skip
    kernels = (AttributedKernel("forward", "features.0", "conv2d", "implicit_gemm", 2, 0.25),)
    counted = CountedKernel("sgemm", 2, 0.5, 8.0, 4.0, 16.0, 32.0, 0.0, 64.0, 0.0, None, 3.0)
    profiled = CellProfile(3, 0.5, 0.625, times, 0.375, kernels, SystemUse(0.0625, 1200.0))
    do(cache, {PROFILE: profiled, COUNTERS: CountedCell(2, "ncu 1.2", (counted,), "7.5", "not counted")})
    (row,) = cache.folder.rows(Profile)
    assert (row.phase, row.variant, row.status) == ("step", "adam", "ok")
    assert (row.steps, row.plain_s, row.profiled_s, row.busy_s) == (3, 0.5, 0.625, 0.375)
    assert (row.system_s, row.page_faults) == (0.0625, 1200.0)
    (row,) = cache.folder.rows(records.HardwareCounterProfile)
    assert (row.phase, row.variant, row.status, row.tool) == ("step", "adam", "ok", "ncu 1.2")
    assert (row.capability, row.steps, row.tensor_gap) == ("7.5", 2, "not counted")
    cell = (ENVIRONMENT.environment_id, "alexnet", 4, "fp32", "step", "adam")
    assert cache.folder.rows(records.OperatorTime) == [records.OperatorTime(*cell, *each) for each in times]
    assert cache.folder.rows(records.KernelTime) == [records.KernelTime(*cell, *each) for each in kernels]
    assert cache.folder.rows(records.KernelCounters) == [records.KernelCounters(*cell, *counted)]
    assert cache.folder.rows(Run) == []


class Punctual:
    """Takes its time for a task, moves the clock by it, and gives the task up at the deadline, as the worker does."""

    def __init__(self, clock, outcomes):
        self._clock, self._outcomes = clock, outcomes

    def run(self, task, deadline=None):
        task_s, outcome = self._outcomes[task]
        if deadline is not None and self._clock.now + task_s > deadline:
            self._clock.now = deadline
            raise BudgetSpent
        self._clock.now += task_s
        return outcome


ROUNDS = [changed(cell, number, batch=batch) for number in range(3) for cell in (CELL, STEP) for batch in (1, 2)]
ENDINGS = ["ok", "oom", "error", "killed", "timeout", "refused", "unreadable"]


@given(
    st.permutations([*ROUNDS, ROOF, COUNT, PROFILE]),
    st.lists(st.tuples(st.sampled_from([0, 10, 20]), st.sampled_from(ENDINGS)), min_size=15, max_size=15),
    st.sampled_from([None, 0, 10, 30, 50, 200]),
)
def test_each_task_is_stored_once_or_skipped_despite_failures(tasks, endings, budget_s):
    drawn = dict(zip(tasks, endings, strict=True))
    clock = SimpleNamespace(now=0.0)
    failures = {task: Failure(end, "no") for task, (_, end) in drawn.items() if end not in ("ok", "unreadable")}
    worker = Punctual(clock, {task: (task_s, failures.get(task, "done")) for task, (task_s, _) in drawn.items()})
    stored, events = {}, []

    def put(task, outcome):
        if drawn[task][1] == "unreadable" and not isinstance(outcome, Failure):
            raise UnreadableError("no table holds it")
        assert task not in stored
        stored[task] = outcome

    def refusal(task):
        return failures[task] if drawn[task][1] == "refused" else None

    def note(kind):
        return lambda task, *_: events.append((kind, task, clock.now))

    progress = SimpleNamespace(begin=note("begin"), end=note("end"), skip=note("skip"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: clock.now))
        summary = runner.run(tasks, worker, put, progress, budget_s, refusal)

    ended = [task for kind, task, _ in events if kind == "end"]
    skipped = [task for kind, task, _ in events if kind == "skip"]
    assert list(stored) == ended
    assert [task for task in tasks if task in (*ended, *skipped)] == tasks[: len(tasks) - summary.left]
    assert summary.statuses.total() == len(ended)
    assert summary.failures == [(task, stored[task]) for task in ended if drawn[task][1] != "ok"]
    assert all(isinstance(outcome, Failure) == (drawn[task][1] != "ok") for task, outcome in stored.items())
    failed = [task.cell for task in ended if task in ROUNDS and drawn[task][1] != "ok"]
    assert len(set(failed)) == len(failed)  # a cell fails once, and its other rounds are skipped
    assert all(task.cell in failed for task in skipped)
    if budget_s is None:
        assert summary.left == 0
    else:
        assert clock.now == budget_s if summary.left else clock.now <= budget_s
        assert all(now < budget_s for kind, _, now in events if kind == "begin")
