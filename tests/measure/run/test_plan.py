"""The order of a run's tasks, without a budget and with one."""

import tempfile
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import pytest
from helpers.cells import ask, run_cache, timed_rounds
from helpers.rows import ENVIRONMENT, run, workload
from hypothesis import given, settings
from hypothesis import strategies as st

from measure.cache.folders import MachineFolder, Workloads
from measure.domain.words import STREAM_ARRAYS
from measure.models import catalog
from measure.run import plan
from measure.run.estimate import DurationEstimate
from measure.run.missing import Tier
from measure.run.request import Request
from measure.run.sections import SECTIONS, USUAL_SECTIONS, put
from measure.run.storing import RunCache
from measure.run.tasks import Failure, HardwareCounterTask, ProfileTask, RoofTask, RoundTask, WorkloadTask

TRAINED = {"training_models": catalog.find(["vgg11"]), "training_batch_sizes": [32]}
A1, A64, V1, V64 = (f"{model} batch {batch} fp32" for model in ("alexnet", "vgg11") for batch in (1, 64))
STEP = "training vgg11 batch 32 fp32"
BOTH = ["inference", "operators"]


def to_do(request, **cache):
    return plan.tasks_to_do(request, run_cache(**cache))


def in_parts(request, *rows, **cache):
    """The labels of the tasks of each part, in their order."""
    cache = run_cache(*rows, **cache)
    request = request.on(cache.environment)
    parts = plan.in_parts(plan.missing_tasks(request, cache), request, cache)
    return {part.title: [task.label for task in part.tasks] for part in parts}


def test_counts_and_roofs_come_first_and_counters_last():
    request = ask("alexnet vgg11", (1, 64), SECTIONS, rounds=2, **TRAINED)
    tasks = to_do(request)
    kinds = [type(task) for task in tasks]
    assert set(kinds[: kinds.index(RoofTask)]) == {WorkloadTask}
    assert set(kinds[-5:]) == {HardwareCounterTask}
    assert HardwareCounterTask not in kinds[:-5]
    assert "hardware-counters" not in USUAL_SECTIONS
    cells = {A1, A64, V1, V64, STEP}
    timed = [task for task in tasks if isinstance(task, RoundTask | ProfileTask)]
    first = {f"{cell}, round 1" for cell in cells} | {f"operators of {cell}" for cell in cells}
    assert {task.label for task in timed[:10]} == first
    assert {task.label for task in timed[10:]} == {f"{cell}, round 2" for cell in cells}
    later = [task for task in tasks if isinstance(task, RoofTask) and task.round]
    streams = sorted((number, kernel) for number in (1, 2) for kernel in STREAM_ARRAYS)
    assert sorted((task.round, task.roof_kernel) for task in later) == streams
    assert tasks.index(later[0]) > tasks.index(timed[9])
    titles = ["counts", "roofs", "round 1", "round 2", "round 3", "hardware counters"]
    assert list(in_parts(request)) == titles  # the third of the streams alone


def test_the_order_of_a_block_is_drawn_by_the_seed():
    request = ask("alexnet vgg11", (1, 2, 4, 8), BOTH, ["fp32", "bf16"])
    first, again, other = ([task.label for task in to_do(request, seed=seed)] for seed in (1, 1, 2))
    assert first == again != other
    # A round's sixteen cells and their profiles, then two rounds of sixteen: each in an order of its own.
    assert [label.replace("round 2", "round 3") for label in first[32:48]] != first[48:]


def test_batch_sizes_that_share_a_gpu_process_stay_together():
    request = ask("alexnet vgg11", (1, 2, 4, 8), BOTH, ["fp32", "fp16"], rounds=2)

    def orders(device):
        cells = [task for task in to_do(request, device=device) if task.section == "inference"]
        groups = groupby(cells, key=lambda task: (task.round, task.model.name, task.cell.precision))
        return [tuple(task.cell.batch for task in group) for _, group in groups]

    together = orders("cuda")
    assert [len(batches) for batches in together] == [4] * 2 * 2 * 2  # rounds, models, precisions
    assert len(set(together)) > 1
    assert len(orders("cpu")) > 8


SHORT = {"budget_s": 180.0, "rounds": 2}  # a long cell takes 9 s; uncounted ones take 5.5 s at batch 1, 37 s at 64


def test_a_budget_begins_with_something_of_everything():
    names = ("alexnet", "resnet18", "vgg11")
    request = ask(" ".join(names), (1, 8), USUAL_SECTIONS, **TRAINED, **SHORT)
    parts = in_parts(replace(request, training_models=request.models))
    assert list(parts) == [
        "counts", "a first latency", "a first roof", "batch 1", "batch 8", "training steps", "operators", "other cells",
        "long cells", "further rounds", "finer roofs", "caches and other precisions",
    ]  # fmt: skip
    assert sorted(parts["counts"]) == [f"workload {name} fp32" for name in names]
    assert "stream_triad" in parts["a first roof"][0]
    assert parts["a first roof"][1:] == ["roof matmul fp32 1024 sustained"]
    assert parts["a first latency"][0] in [f"{name} batch 1 fp32, round 1" for name in names[:2]]  # the leading ones
    first = [*parts["a first latency"], *parts["batch 1"]]
    assert sorted(first) == [f"{name} batch 1 fp32, round 1" for name in names]
    # Without the story both, two of the quick selection lead. A step of one comes before the long cells.
    assert parts["training steps"] == ["training alexnet batch 32 fp32, round 1"]
    *inference, step = parts["operators"]
    assert sorted(inference) == [f"operators of {name} batch 1 fp32" for name in ("alexnet", "resnet18")]
    assert step == "operators of training alexnet batch 32 fp32"
    assert parts["other cells"] == ["operators of vgg11 batch 1 fp32"]
    steps = [f"training {name} batch 32 fp32, round 1" for name in ("resnet18", "vgg11")]
    assert sorted(parts["long cells"]) == ["operators of training resnet18 batch 32 fp32", *steps]
    assert len([label for label in parts["further rounds"] if label.endswith("batch 1 fp32, round 2")]) == 3
    assert {f"roof matmul fp32 {size} sustained" for size in (512, 4096)} < set(parts["finer roofs"])
    assert not [label for label in parts["finer roofs"] if "int8" in label or "burst" in label]


def test_one_latency_comes_before_the_first_roof():
    request = ask("alexnet vgg11", (1, 8), ["roofs", "inference"], **SHORT)
    assert list(in_parts(request))[:2] == ["a first latency", "a first roof"]
    assert next(iter(in_parts(request, run()))) == "a first roof"


def test_one_cell_of_every_model_comes_before_the_second_of_any():
    quick, rest = "resnet18 resnet50 alexnet", "vgg11 vgg16 vgg19 densenet121 googlenet inception_v3 swin_t"
    sections = ["workload", "inference"]
    request = ask(f"{quick} {rest}", (1, 8), sections, ["fp32", "bf16"], rounds=2, budget_s=3600.0)
    tasks = to_do(request, seed=3)
    cells = [task for task in tasks if task.section == "inference"][: len(request.models)]
    assert {task.model for task in cells} == set(request.models)
    assert {task.cell.batch for task in cells} == {1}
    # The quick selection is counted first, at both precisions; another model right before its cell.
    assert sorted(task.columns["model"] for task in tasks[:6]) == sorted(2 * quick.split())
    for name in rest.split():
        of_model = [task for task in tasks if task.columns["model"] == name][:3]
        assert [task.section for task in of_model] == ["workload", "workload", "inference"]
        assert tasks.index(of_model[2]) - tasks.index(of_model[0]) == 2


def test_named_batch_sizes_do_not_wait_for_others():
    request = ask("alexnet vgg11", (1, 64, 256), USUAL_SECTIONS, **TRAINED, **SHORT)
    usual, named = (in_parts(replace(request, has_named_batches=is_named)) for is_named in (False, True))
    order = list(named)
    assert [label.rpartition(" fp32")[0] for label in named["other batch sizes"]] in (
        [A64[:-5], V64[:-5], "alexnet batch 256", "vgg11 batch 256"],
        [V64[:-5], A64[:-5], "vgg11 batch 256", "alexnet batch 256"],
    )  # of every model, before any has the next; also those that take long
    assert order.index("batch 1") < order.index("other batch sizes") < order.index("training steps")
    assert "other batch sizes" not in usual


def test_a_budget_for_one_section_is_spent_on_it():
    rows = timed_rounds("alexnet", [1.0, 1.2, 0.8])
    request = ask("alexnet", (1,), ["inference"], budget_s=60.0, rounds=3, most_rounds=9)
    assert in_parts(request, *rows) == {"more rounds": [f"{A1}, round 4"]}


def test_long_cells_come_shortest_first_and_timed_ones_tell():
    request = ask("alexnet vgg11 vgg16", (1, 64, 256), rounds=1, budget_s=180.0)
    assert [label.split()[2] for label in in_parts(request)["long cells"]] == ["64", "256", "256", "256"]
    three, counted = ask("alexnet vgg11 vgg16", (1, 64), **SHORT), replace(workload("vgg16"), input_shape="3x224x224")
    for latency_s, part in ((0.2, "long cells"), (0.001, "batch 64")):  # at batch 64 64 times as long
        assert "vgg16 batch 64 fp32, round 1" in in_parts(three, counted, *timed_rounds("vgg16", [latency_s]))[part]


@pytest.mark.parametrize(
    ("changes", "batch"),
    [({"budget_s": 180.0}, 1), ({"budget_s": 3600.0}, 64), ({"budget_s": 3600.0, "quick": True}, 1)],
)
def test_a_short_budget_has_the_profile_that_takes_least(changes, batch):
    request = ask(batch_sizes=(1, 8, 64), sections=BOTH, rounds=1, **changes)
    assert in_parts(request)["operators"] == [f"operators of alexnet batch {batch} fp32"]


MODELS = catalog.find(["alexnet", "mobilenet_v2", "resnet18", "vgg11"])


def some(of):
    return st.lists(st.sampled_from(of), min_size=1, unique=True)


REQUESTS = st.builds(
    Request,
    some(MODELS[:3]), some([1, 8, 64]), some(["fp32", "bf16"]), some(list(SECTIONS)),
    some(["eager", "channels_last", "autocast"]), st.lists(st.sampled_from(MODELS), unique=True), st.just([32]),
    rounds=st.integers(1, 3), quick=st.just(True),
)  # fmt: skip


@given(REQUESTS, st.sampled_from([30.0, 180.0, 3600.0]), st.integers(0, 99), st.sampled_from(["cpu", "cuda"]))
def test_a_budget_and_a_seed_change_the_order_alone(request, budget_s, seed, device):
    cache = run_cache(seed=seed, device=device, capability="8.0" if device == "cuda" else None)
    tasks = plan.tasks_to_do(request, cache)
    assert len(set(tasks)) == len(tasks)
    blocks = [task.block for task in tasks]
    assert blocks == sorted(blocks)
    assert all(task.section in request.sections for task in tasks)

    hasty = replace(request, budget_s=budget_s).on(cache.environment)
    parts = plan.in_parts(plan.missing_tasks(hasty, cache), hasty, cache)
    assert sorted(map(str, tasks)) == sorted(str(task) for part in parts for task in part.tasks)
    sizes = {"first": min(request.batch_sizes), "second": request.second_batch}
    titles = [tier.value.format(**sizes) for tier in Tier]
    assert [titles.index(part.title) for part in parts] == sorted(titles.index(part.title) for part in parts)
    estimate = DurationEstimate(hasty, cache)
    for part in parts:
        if part.title in ("other cells", "long cells"):
            is_long = [estimate.seconds(task) > budget_s / 20 for task in part.tasks]
            assert set(is_long) == {part.title == "long cells"}


@settings(max_examples=10)
@given(REQUESTS)
def test_an_ended_run_leaves_no_task_whatever_became_of_them(request):
    with tempfile.TemporaryDirectory() as folder:
        cache = RunCache(Workloads(Path(folder)), MachineFolder(Path(folder), "box"), ENVIRONMENT)
        for task in plan.tasks_to_do(request, cache):
            put(cache, task, Failure("error", "no"))
        assert plan.tasks_to_do(request, cache) == []
