import dataclasses

import pytest

from measure import catalog, runner
from measure.cache import MachineFolder, Workloads
from measure.plan import CeilingTask, InferenceTask, WorkloadTask
from measure.records import Ceiling, Environment, Workload
from measure.sensors import Conditions
from measure.timing import TimedSample, Timing
from measure.worker import BudgetSpent, Failure
from measure.workload import Count

ALEXNET = catalog.find(["alexnet"])[0]
ENVIRONMENT = Environment(
    "e1", "h1", "cpu", "Chip", 2, 2, 1024, None, None, "Linux", "3.11", "2.9", None, None, "2026-01-01"
)
ROOF = CeilingTask("matmul", "fp32", 8, "sustained")
CELL = InferenceTask(ALEXNET, 4, "fp32", "eager", 0)
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


def do(tmp_path, folder, tasks, outcomes, budget_s=None):
    store = runner.Store(Workloads(tmp_path), folder, ENVIRONMENT)
    return runner.run(tasks, NullExecutor(outcomes), store, Log(), budget_s)


def test_results_go_into_their_tables(tmp_path, folder):
    counted = Workload("alexnet", "torchvision", "plain", "3x224x224", 1, "fp32", None, "ok", None)
    roof = Ceiling("e1", "matmul", "fp32", 8, 1024, 768, "ok", None, 0.5, 0.4, 0.6, 6, "sustained")
    summary = do(tmp_path, folder, [COUNT, ROOF, CELL], [[Count(counted, [])], roof, timing(3, 0.1, 0.2)])
    assert Workloads(tmp_path).models() == [counted]
    assert folder.ceilings() == [roof]
    assert folder.environments() == [ENVIRONMENT]
    (run,) = folder.runs()
    assert (run.model, run.batch, run.status, run.reason) == ("alexnet", 4, "ok", None)
    assert [(row.sample, row.block, row.latency_s) for row in folder.samples()] == [(0, 3, 0.1), (1, 3, 0.2)]
    assert summary.statuses == {"ok": 3}


def test_failures_become_rows_and_the_run_goes_on(tmp_path, folder):
    outcomes = [
        Failure("error", "no shape"),
        Failure("unsupported", "no kernel"),
        Failure("oom", "full"),
        timing(1, 1.0),
    ]
    tasks = [COUNT, ROOF, CELL, InferenceTask(ALEXNET, 8, "fp32", "eager", 0)]
    summary = do(tmp_path, folder, tasks, outcomes)
    assert [
        (row.batch, row.status, row.reason, row.forward_flop) for row in Workloads(tmp_path).models()
    ] == [
        (1, "error", "no shape", None),
        (4, "error", "no shape", None),
    ]
    assert [(row.status, row.reason, row.latency_s) for row in folder.ceilings()] == [
        ("unsupported", "no kernel", None)
    ]
    assert [(row.batch, row.status, row.reason) for row in folder.runs()] == [
        (4, "oom", "full"),
        (8, "ok", None),
    ]
    assert summary.statuses == {"error": 1, "unsupported": 1, "oom": 1, "ok": 1}
    assert [task for task, _ in summary.failures] == [COUNT, ROOF, CELL]


def test_a_spent_budget_leaves_its_task_and_the_rest(tmp_path, folder):
    summary = do(tmp_path, folder, [CELL, ROOF, COUNT], [timing(1, 1.0), BudgetSpent], budget_s=1000)
    assert summary.left == 2
    assert len(folder.runs()) == 1
    assert folder.ceilings() == []


def test_no_task_begins_after_the_budget(tmp_path, folder):
    summary = do(tmp_path, folder, [CELL], [], budget_s=0.0)
    assert summary.left == 1


def test_conditions_and_flags_are_kept(tmp_path, folder):
    conditions = Conditions(load=0.25, clock_hz=1e9, throttle="power cap")
    timed = Timing(2, (TimedSample(0.1, 0.09, conditions),), ("wide", "throttled"))
    do(tmp_path, folder, [dataclasses.replace(CELL, round=2)], [timed])
    (run,) = folder.runs()
    assert (run.round, run.flags) == (2, "wide;throttled")
    (row,) = folder.samples()
    assert (row.round, row.event_s, row.load, row.clock_hz, row.throttle) == (2, 0.09, 0.25, 1e9, "power cap")
    assert row.energy_j is None


def test_no_further_round_of_a_cell_that_failed(tmp_path, folder):
    again = dataclasses.replace(CELL, round=1)
    other = dataclasses.replace(CELL, batch=8, round=1)
    summary = do(tmp_path, folder, [CELL, again, other], [Failure("oom", "full"), timing(1, 1.0)])
    assert [(row.batch, row.round, row.status) for row in folder.runs()] == [(4, 0, "oom"), (8, 1, "ok")]
    assert summary.statuses == {"oom": 1, "ok": 1}


def test_what_cannot_fit_is_recorded_without_being_tried(tmp_path, folder):
    store = runner.Store(Workloads(tmp_path), folder, ENVIRONMENT)
    refusal = {CELL: Failure("oom", "not tried: too large")}.get
    runner.run([CELL, ROOF], NullExecutor([Failure("error", "no")]), store, Log(), refusal=refusal)
    (row,) = folder.runs()
    assert (row.status, row.reason) == ("oom", "not tried: too large")
