"""What a run with a budget reaches, and how much of it passes within calls, at the pace of machines that are not there.

Nothing is computed: the clock, what calls reach of the roofs and what processes take to begin are assumed
(``helpers.pace``).
"""

import dataclasses
from types import SimpleNamespace

import pytest
from helpers.gpu.catalogue import T4
from helpers.pace import Pace
from helpers.places import ROOT
from helpers.rows import ENVIRONMENT

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.workload_records import Workload
from measure.domain.models import QUICK, STORY
from measure.run import plan, runner
from measure.run.estimate import MemoryFit
from measure.run.task import RunCache
from measure.verbs.measure import make_request, make_sampling, parser

WORKLOADS = Workloads(ROOT / "data")
DONE_S = 1200.0


SILENT = SimpleNamespace(begin=lambda task: None, end=lambda task, outcome: None, skip=lambda task: None)


@pytest.fixture
def spend(monkeypatch, tmp_path):
    """Lets a run with these flags go by; returns its summary, and all that it was to do."""

    def spend(machine, pace, *flags):
        device, name, memory_byte = machine
        request = make_request(parser().parse_args(list(flags)))
        environment = dataclasses.replace(ENVIRONMENT, device=device, name=name)
        tasks = plan.tasks_to_do(request, RunCache(WORKLOADS, MachineFolder(tmp_path, "box"), environment, 1))
        monkeypatch.setattr(runner, "time", SimpleNamespace(monotonic=pace.monotonic))
        refusal = MemoryFit(memory_byte, WORKLOADS).refusal
        return runner.run(tasks, pace, lambda task, outcome: None, SILENT, request.budget_s, refusal), tasks

    return spend


def t4(*, import_s, begin_s, budget="20m"):
    sampling = make_sampling(parser().parse_args(["--budget", budget]))
    rates = (T4.flop_per_s, T4.byte_per_s)
    return Pace("cuda", *rates, import_s, begin_s, WORKLOADS.rows(Workload), sampling)


GPU = ("cuda", T4.name, T4.memory_byte)
BOTH = ("--precisions", "fp32", "fp16")


def done_of(pace, model, section):
    return {
        (task.cell.batch, task.cell.precision)
        for task in pace.done
        if task.section == section and task.model.name == model
    }


def whole_models(pace, tasks):
    """The models of which a round of each cell was done."""
    first = [task for task in tasks if task.section in ("inference", "training") and task.round == 0]
    return {task.model.name for task in first} - {task.model.name for task in first if task not in pace.done}


def test_in_twenty_minutes_on_a_t4_every_section_has_something_of_all_first_models(spend):
    pace = t4(import_s=6.0, begin_s=2.0)
    summary, tasks = spend(GPU, pace, "--budget", "20m", *BOTH)
    assert pace.now_s == DONE_S
    assert summary.left > 0
    kernels = {(task.roof_kernel, task.precision) for task in pace.done if task.section == "roofs"}
    assert kernels == {("matmul", "fp32"), ("matmul", "fp16"), ("stream_triad", "fp32")}  # a roof at each precision
    for model in QUICK:
        for precision in ("fp32", "fp16"):
            inference = {batch for batch, other in done_of(pace, model, "inference") if other == precision}
            assert inference == {1, 64, 256}, (model, precision)
        assert done_of(pace, model, "training") == {(32, "fp32"), (32, "fp16")}
        steps = {(32, "fp32")} if model in STORY else set()
        assert done_of(pace, model, "operators") == {(64, "fp32")} | steps
    whole = whole_models(pace, tasks)
    assert set(QUICK) <= whole
    assert len(whole) >= 15  # of 23; 17 with this seed


def share(pace):
    """The part of the time of cells that passes within their calls."""
    return pace.calls_s / pace.cells_s


@pytest.mark.parametrize(("import_s", "begin_s", "budget"), [(6.0, 2.0, "20m"), (6.0, 2.0, "1h"), (4.0, 4.0, "1h")])
def test_with_a_start_of_8_s_a_gpu_is_at_work_for_65_percent_of_a_run(spend, import_s, begin_s, budget):
    pace = t4(import_s=import_s, begin_s=begin_s)
    spend(GPU, pace, "--budget", budget, *BOTH)
    assert share(pace) >= 0.65


PROCESSOR = ("cpu", "Processor", 8 * 2**30)
MODELS = ("resnet18", "mobilenet_v2")


def processor(*flags):
    """Two cores, with the roofs that the reference machine has, in a run with these flags."""
    sampling = make_sampling(parser().parse_args(list(flags)))
    return Pace("cpu", {"fp32": 240e9}, 50e9, 4.0, 0.1, WORKLOADS.rows(Workload), sampling)


def test_in_three_minutes_two_cores_have_something_of_every_section(spend):
    pace = processor("--budget", "3m")
    spend(PROCESSOR, pace, "--budget", "3m", "--models", *MODELS)
    assert {task.section for task in pace.done} >= {"roofs", "inference", "training", "operators"}
    for model in MODELS:
        assert done_of(pace, model, "inference") == {(batch, "fp32") for batch in (1, 64, 256)}
        assert done_of(pace, model, "training") == {(32, "fp32")}
        assert done_of(pace, model, "operators") == {(1, "fp32"), (32, "fp32")}  # of inference, and of a step
    assert share(pace) >= 0.7


@pytest.mark.parametrize(
    ("budget", "sections"), [("30s", {"roofs", "inference"}), ("1m", {"roofs", "inference", "training", "operators"})]
)
def test_wherever_a_short_budget_ends_every_quick_model_has_a_cell(spend, budget, sections):
    pace = processor("--budget", budget, "--quick")
    spend(PROCESSOR, pace, "--budget", budget, "--quick")
    assert {task.section for task in pace.done} >= sections
    assert {task.cell.model for task in pace.done if task.section == "inference"} == set(QUICK)
    second = [task.cell.model for task in pace.done if task.section == "inference" and task.cell.batch == 64]
    assert set(second[:2]) <= {"mobilenet_v2", "resnet18"}
