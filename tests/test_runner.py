import pytest

from measure import catalog, runner
from measure.cache import MachineFolder, Workloads
from measure.plan import CeilingTask, InferenceTask, WorkloadTask
from measure.records import Ceiling, Environment, Workload
from measure.timing import Timing
from measure.worker import BudgetSpent, Failure
from measure.workload import Count

ALEXNET = catalog.find(["alexnet"])[0]
ENVIRONMENT = Environment(
    "e1", "h1", "cpu", "Chip", 2, 2, 1024, None, None, "Linux", "3.11", "2.9", None, None, "2026-01-01"
)
ROOF = CeilingTask("matmul", "fp32", 8)
CELL = InferenceTask(ALEXNET, 4, "fp32")
COUNT = WorkloadTask(ALEXNET, (1, 4), "fp32", None)


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


@pytest.fixture
def folder(tmp_path):
    return MachineFolder(tmp_path, "box")


def do(tmp_path, folder, tasks, outcomes, budget_s=None):
    store = runner.Store(Workloads(tmp_path), folder, ENVIRONMENT)
    return runner.run(tasks, NullExecutor(outcomes), store, Log(), budget_s)


def test_results_go_into_their_tables(tmp_path, folder):
    counted = Workload("alexnet", "torchvision", "plain", "3x224x224", 1, "fp32", None, "ok", None)
    roof = Ceiling("e1", "matmul", "fp32", 8, 1024, 768, "ok", None, 0.5, 0.4, 0.6, 6)
    summary = do(tmp_path, folder, [COUNT, ROOF, CELL], [[Count(counted, [])], roof, Timing(3, (0.1, 0.2))])
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
        Timing(1, (1,)),
    ]
    tasks = [COUNT, ROOF, CELL, InferenceTask(ALEXNET, 8, "fp32")]
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
    summary = do(tmp_path, folder, [CELL, ROOF, COUNT], [Timing(1, (1.0,)), BudgetSpent], budget_s=1000)
    assert summary.left == 2
    assert len(folder.runs()) == 1
    assert folder.ceilings() == []


def test_no_task_begins_after_the_budget(tmp_path, folder):
    summary = do(tmp_path, folder, [CELL], [], budget_s=0.0)
    assert summary.left == 1
