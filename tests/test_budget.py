"""The reach of a run with a budget, and its share within calls, at the pace of imaginary machines.

Nothing is computed, and nobody waits for the clock. The times of a process, a network and a call are assumed here; the
program itself decides which processes begin, how calls are warmed up and when samples suffice.
"""

import dataclasses
from random import Random
from types import SimpleNamespace

import pytest
from helpers.gpu.catalogue import T4
from helpers.places import ROOT
from helpers.rows import ENVIRONMENT

from measure.cache.folders import MachineFolder, Workloads
from measure.domain.models import QUICK, STORY
from measure.domain.words import PRECISION_BYTE, STEP
from measure.domain.workload_records import Workload
from measure.profiling.profile import FEWEST_STEPS, PLAIN, PROFILED_S
from measure.run import plan, runner
from measure.run.estimate import MemoryFit
from measure.run.processes import origin
from measure.run.storing import RunCache
from measure.run.tasks import CellTask, ProfileTask, RoofTask, RoundTask
from measure.run.worker import BudgetSpent, needs_fresh
from measure.timing.sampling import sample
from measure.timing.stopwatch import Stopwatch
from measure.verbs.run_flags import make_request, make_sampling, parser

WORKLOADS = Workloads(ROOT / "data")
COUNTED = {
    row.model: row for row in WORKLOADS.rows(Workload) if (row.batch, row.precision, row.autocast) == (1, "fp32", None)
}
ROOF_S, BUILD_S, ATTRIBUTION_S = 3.0, 0.5, 4.0
REACHED, LEAST_CALL_S, NOISE = 0.5, 0.004, 0.01
"""The part of the roof that calls reach, the launches of some hundred kernels, the scatter of a call's logarithm."""

GPU = SimpleNamespace(
    kind="cuda", name=T4.name, memory_byte=T4.memory_byte, flop_per_s=T4.flop_per_s, byte_per_s=T4.byte_per_s,
    import_s=6.0, begin_s=2.0,
)  # fmt: skip
PROCESSOR = SimpleNamespace(
    kind="cpu", name="Processor", memory_byte=8 * 2**30, flop_per_s={"fp32": 240e9}, byte_per_s=50e9, import_s=4.0,
    begin_s=0.1,
)  # fmt: skip
"""Two cores, with the roofs that the reference machine has."""


class Pace:
    """Does tasks in the place of a worker, by putting the clock forward."""

    def __init__(self, machine, sampling):
        self.machine, self.sampling = machine, sampling
        self.draw, self.previous = Random(1), None
        self.now_s = self.called_s = self.cells_s = self.calls_s = 0.0
        self.done = []

    def run(self, task, deadline=None):
        began_s, self.called_s = self.now_s, 0.0
        if needs_fresh(self.previous, task, self.machine.kind):
            is_other = self.previous is None or origin(task) != origin(self.previous)
            self.now_s += self.machine.begin_s + (self.machine.import_s if is_other else 0.0)
        self.previous = task
        self.pass_time(task)
        if deadline is not None and self.now_s > deadline:
            self.now_s = deadline
            raise BudgetSpent
        self.done.append(task)
        if isinstance(task, RoundTask):
            self.cells_s += self.now_s - began_s
            self.calls_s += self.called_s

    def pass_time(self, task):
        if not isinstance(task, CellTask):
            self.now_s += ROOF_S if isinstance(task, RoofTask) else 1.0
            return
        call_s, self.now_s = self.call_s(task.cell), self.now_s + BUILD_S

        def call():
            taken_s = call_s * self.draw.lognormvariate(0.0, NOISE)
            self.now_s += taken_s
            self.called_s += taken_s

        is_profile = isinstance(task, ProfileTask)
        stopwatch = Stopwatch(call, lambda: None, lambda: round(1e9 * self.now_s))
        sample(stopwatch, PLAIN if is_profile else self.sampling)
        if is_profile:
            self.now_s += 2 * max(PROFILED_S, FEWEST_STEPS * call_s) + ATTRIBUTION_S

    def call_s(self, cell):
        """The time of a call, by the count of one input of the model at fp32."""
        inputs = cell.batch * (3 if cell.phase == STEP else 1)
        row, width = COUNTED[cell.model], PRECISION_BYTE[cell.precision] / 4
        computing_s = inputs * row.forward_flop / self.machine.flop_per_s[cell.precision]
        return max(
            computing_s / REACHED, inputs * width * row.traffic_byte / self.machine.byte_per_s / REACHED, LEAST_CALL_S
        )

    def batches(self, model, section):
        found = [task.cell for task in self.done if task.section == section and task.model.name == model]
        return {(cell.batch, cell.precision) for cell in found}


@pytest.fixture
def spend(monkeypatch, tmp_path):
    """Lets a run with these flags go by; returns its pace, and all that it was to do."""

    def spend(machine, *flags):
        parsed = parser().parse_args(list(flags))
        request, pace = make_request(parsed), Pace(machine, make_sampling(parsed))
        environment = dataclasses.replace(ENVIRONMENT, device=machine.kind, name=machine.name)
        tasks = plan.tasks_to_do(request, RunCache(WORKLOADS, MachineFolder(tmp_path, "box"), environment, 1))
        monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=lambda: pace.now_s))
        silent = SimpleNamespace(begin=lambda task: None, end=lambda task, outcome: None, skip=lambda task: None)
        refusal = MemoryFit(machine.memory_byte, WORKLOADS).refusal
        runner.run(tasks, pace, lambda task, outcome: None, silent, request.budget_s, refusal)
        return pace, tasks

    return spend


def test_twenty_minutes_give_a_t4_some_of_every_section(spend):
    pace, tasks = spend(GPU, "--budget", "20m", "--precisions", "fp32", "fp16")
    assert pace.now_s == 1200.0
    kernels = {(task.roof_kernel, task.precision) for task in pace.done if task.section == "roofs"}
    # A roof at each precision, the two streams through memory and L2, and the idle power
    streams = {("stream_read", "fp32"), ("stream_triad", "fp32")}
    assert kernels == {("matmul", "fp32"), ("matmul", "fp16"), ("idle", "fp32"), *streams}
    for model in QUICK:
        both = {(batch, precision) for batch in (1, 64, 256) for precision in ("fp32", "fp16")}
        assert pace.batches(model, "inference") == both
        assert pace.batches(model, "training") == {(32, "fp32"), (32, "fp16")}
        steps = {(32, "fp32")} if model in STORY else set()
        assert pace.batches(model, "operators") == {(64, "fp32")} | steps
    first = [task for task in tasks if task.section in ("inference", "training") and task.round == 0]
    whole = {task.model.name for task in first} - {task.model.name for task in first if task not in pace.done}
    assert set(QUICK) <= whole
    assert len(whole) >= 15  # of 23
    assert pace.calls_s >= 0.65 * pace.cells_s  # the GPU is at work


def test_three_minutes_give_two_cores_some_of_every_section(spend):
    models = ("resnet18", "mobilenet_v2")
    pace, _ = spend(PROCESSOR, "--budget", "3m", "--models", *models)
    assert {task.section for task in pace.done} >= {"roofs", "inference", "training", "operators"}
    for model in models:
        assert pace.batches(model, "inference") == {(batch, "fp32") for batch in (1, 64, 256)}
        assert pace.batches(model, "training") == {(32, "fp32")}
        assert pace.batches(model, "operators") == {(1, "fp32"), (32, "fp32")}  # of inference, and of a step
    assert pace.calls_s >= 0.7 * pace.cells_s


@pytest.mark.parametrize(
    ("budget", "sections"), [("30s", {"roofs", "inference"}), ("1m", {"roofs", "inference", "training", "operators"})]
)
def test_wherever_a_short_budget_ends_every_model_has_a_cell(spend, budget, sections):
    pace, _ = spend(PROCESSOR, "--budget", budget, "--quick")
    assert {task.section for task in pace.done} >= sections
    assert {task.cell.model for task in pace.done if task.section == "inference"} == set(QUICK)
    second = [task.cell.model for task in pace.done if task.section == "inference" and task.cell.batch == 64]
    assert set(second[:2]) <= {"mobilenet_v2", "resnet18"}
