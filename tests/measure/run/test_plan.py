import dataclasses
import logging
from itertools import chain, groupby
from pathlib import Path
from types import SimpleNamespace

from helpers.rows import cell_columns, roof_measurement, workload

from measure.cache.records import HardwareCounterProfile, Profile, RoofMeasurement, Run, Sample
from measure.domain.words import ROUNDS
from measure.models import catalog
from measure.run import plan
from measure.run.cell_tasks import HardwareCounterTask, InferenceTask, ProfileTask, TrainingTask
from measure.run.request import Request
from measure.run.sections import USUAL_SECTIONS, RoofTask, WorkloadTask
from measure.run.task import KILLED, RunCache

ALEXNET, VGG = catalog.find(["alexnet", "vgg11"])
TRAINED = {"training_models": [VGG], "training_batch_sizes": [32]}


def cache(
    workloads=(),
    roof_measurements=(),
    runs=(),
    profiles=(),
    counters=(),
    samples=(),
    device="cpu",
    capability=None,
    system="Linux",
    seed=1,
):
    """A cache of these rows, in which the environment of now is this machine's."""
    tables = {
        Sample: samples,
        RoofMeasurement: roof_measurements,
        Run: runs,
        Profile: profiles,
        HardwareCounterProfile: counters,
    }
    return RunCache(
        SimpleNamespace(rows=lambda record: workloads, data=Path("nowhere")),
        SimpleNamespace(rows=tables.get),
        SimpleNamespace(environment_id="now", name="Chip", device=device, capability=capability, system=system),
        seed,
    )


def to_do(request, **rows):
    return plan.tasks_to_do(request, cache(**rows))


def labels(tasks):
    """Sorted, since chance decides the order within a block."""
    return sorted(task.label for task in tasks)


def run(model, batch, environment="now", status="ok", number=0, phase="inference"):
    cell = cell_columns(model, batch, phase, environment=environment)
    return Run(**cell, status=status, reason=None, recorded_at="2026-01-01", round=number)


def test_counts_and_roofs_come_first_then_round_after_round_of_all_cells_and_counters_last():
    request = Request([ALEXNET, VGG], [1, 64], ["fp32"], plan.SECTIONS, rounds=2, **TRAINED)
    tasks = to_do(request)
    kinds = [type(task) for task in tasks]
    first, last = kinds.index(RoofTask), len(kinds) - kinds[::-1].index(HardwareCounterTask)
    assert set(kinds[:first]) == {WorkloadTask}
    assert last == len(kinds)
    assert set(kinds[-5:]) == {HardwareCounterTask}
    cells = {f"{model} batch {batch} fp32" for model in ("alexnet", "vgg11") for batch in (1, 64)}
    cells.add("training vgg11 batch 32 fp32")
    rounds = [{f"{cell}, round {number}" for cell in cells} for number in (1, 2)]
    streams = {"read", "write", "copy", "triad"}
    timed = [task for task in tasks if isinstance(task, InferenceTask | TrainingTask | ProfileTask)]
    assert {task.label for task in timed[:10]} == rounds[0] | {f"operators of {cell}" for cell in cells}
    assert {task.label for task in timed[10:]} == rounds[1]
    later = [task for task in tasks if isinstance(task, RoofTask) and task.round]
    assert sorted((task.round, task.roof_kernel) for task in later) == sorted(
        (number, f"stream_{name}") for number in (1, 2) for name in streams
    )
    assert tasks.index(later[0]) > tasks.index(timed[9])


def test_the_order_of_a_block_is_drawn_by_the_seed():
    request = Request([ALEXNET, VGG], [1, 2, 4, 8], ["fp32", "bf16"], ["inference", "operators"])

    def order(seed):
        return [task.label for task in to_do(request, seed=seed)]

    assert order(1) == order(1)
    assert order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2))
    # A round's sixteen cells and their profiles, then a round of sixteen: each in an order of its own.
    second, third = order(1)[32:48], order(1)[48:]
    assert [label.replace("round 2", "round 3") for label in second] != third


def test_on_a_gpu_the_batch_sizes_that_share_a_process_stay_together():
    request = Request([ALEXNET, VGG], [1, 2, 4, 8], ["fp32", "fp16"], ["inference", "operators"], rounds=2)

    def order(seed, device):
        timed = [task for task in to_do(request, device=device, seed=seed) if isinstance(task, InferenceTask)]
        return [(task.round, task.model.name, task.cell.precision, task.cell.batch) for task in timed]

    together = [list(group) for _, group in groupby(order(1, "cuda"), key=lambda named: named[:3])]
    assert [len(group) for group in together] == [4] * 2 * 2 * 2  # rounds, models, precisions
    assert len({tuple(batch for *_, batch in group) for group in together}) > 1
    assert order(1, "cuda") == order(1, "cuda") != order(2, "cuda")
    assert len(list(groupby(order(1, "cpu"), key=lambda named: named[:3]))) > 8


SHORT = {"budget_s": 180.0, "rounds": 2}
"""A budget of which a twentieth, 9 s, is a long cell: uncounted ones take 5.5 s at batch 1, 9 s at 8, 37 s at 64."""


def in_parts(request, **rows):
    """The labels of the tasks of each part of a run with a budget, in their order."""
    known = cache(**rows)
    request = request.on(known.environment)
    parts = plan.in_parts(plan.missing_tasks(request, known), request, known)
    return {part.title: [task.label for task in part.tasks] for part in parts}


def test_a_budget_begins_with_something_of_everything():
    models = catalog.find(["alexnet", "resnet18", "vgg11"])
    request = Request(models, [1, 8], ["fp32"], USUAL_SECTIONS, **TRAINED | {"training_models": models}, **SHORT)
    parts = in_parts(request)
    assert list(parts) == [
        "counts", "a first roof", "batch 1", "batch 8", "training steps", "operators", "other cells", "long cells",
        "further rounds", "finer roofs", "caches and other precisions",
    ]  # fmt: skip
    assert sorted(parts["counts"]) == sorted(f"workload {model.name} fp32" for model in models)
    first, second = parts["a first roof"]
    assert "stream_triad" in first
    assert second == "roof matmul fp32 1024 sustained"
    assert sorted(parts["batch 1"]) == sorted(f"{model.name} batch 1 fp32, round 1" for model in models)
    # Without the story both, two of the quick selection lead. A step of one comes before the long cells.
    assert parts["training steps"] == ["training alexnet batch 32 fp32, round 1"]
    *inference, step = parts["operators"]
    assert sorted(inference) == [f"operators of {name} batch 1 fp32" for name in ("alexnet", "resnet18")]
    assert step == "operators of training alexnet batch 32 fp32"
    assert parts["other cells"] == ["operators of vgg11 batch 1 fp32"]
    assert sorted(parts["long cells"]) == [
        "operators of training resnet18 batch 32 fp32",
        *(f"training {name} batch 32 fp32, round 1" for name in ("resnet18", "vgg11")),
    ]
    assert len([label for label in parts["further rounds"] if label.endswith("batch 1 fp32, round 2")]) == 3
    finer = parts["finer roofs"]
    assert {"roof matmul fp32 4096 sustained", "roof matmul fp32 512 sustained"} < set(finer)
    assert not [label for label in finer if "int8" in label or "burst" in label]
    assert len(to_do(request)) == len(to_do(dataclasses.replace(request, budget_s=None)))


def test_the_story_comes_first_at_each_batch_size():
    models = catalog.find(["alexnet", "resnet18", "vgg11", "mobilenet_v2"])
    request = Request(models, [1, 64], ["fp32"], ["inference", "operators"], **SHORT)
    for seed in range(4):
        parts = in_parts(request, seed=seed)
        story = {"mobilenet_v2", "resnet18"}
        for title in ("batch 1", "batch 64", "operators"):
            assert {label.removeprefix("operators of ").split()[0] for label in parts[title][:2]} == story
        # The others' batches of 64 are expected to take 37 s, more than a twentieth of the budget.
        assert len(parts["batch 1"]) == 4
        assert len(parts["batch 64"]) == 2


def test_one_cell_of_every_model_comes_before_the_second_of_any():
    quick = ["resnet18", "resnet50", "alexnet"]
    models = catalog.find([*quick, "vgg11", "vgg16", "vgg19", "densenet121", "googlenet", "inception_v3", "swin_t"])
    request = Request(models, [1, 8], ["fp32", "bf16"], ["workload", "inference"], rounds=2, budget_s=3600.0)
    tasks = to_do(request, seed=3)
    cells = [task for task in tasks if isinstance(task, InferenceTask)]
    assert len({task.model.name for task in cells[: len(models)]}) == len(models)
    assert {task.cell.batch for task in cells[: len(models)]} == {1}
    # The quick selection is counted first; another model is counted right before its cell.
    first = [task.columns["model"] for task in tasks[: 2 * len(quick)]]
    assert sorted(first) == sorted(2 * quick)  # at both precisions
    for model in models:
        if model.name in quick:
            continue
        of_model = [task for task in tasks if task.columns["model"] == model.name][:3]
        assert [task.section for task in of_model] == ["workload", "workload", "inference"]
        assert tasks.index(of_model[2]) - tasks.index(of_model[0]) == 2


def test_what_was_timed_says_what_the_rest_will_take():
    request = Request([ALEXNET], [1, 64], ["fp32"], ["inference"], **SHORT)
    assert in_parts(request)["batch 64"] == ["alexnet batch 64 fp32, round 1"]  # a leading model's waits for nothing
    models = catalog.find(["alexnet", "vgg11", "vgg16"])
    request = dataclasses.replace(request, models=models)
    known = {"workloads": [dataclasses.replace(workload("vgg16"), input_shape="3x224x224")]}
    slow = measured(timed("vgg16", 1, [0.2]))  # at batch 64 64 times as long
    assert in_parts(request, **known, **slow)["long cells"] == ["vgg16 batch 64 fp32, round 1"]
    quick = measured(timed("vgg16", 1, [0.001]))
    assert "vgg16 batch 64 fp32, round 1" in in_parts(request, **known, **quick)["batch 64"]


def test_of_two_steps_the_quicker_one_comes_first_and_the_other_may_wait():
    models = catalog.find(["alexnet", "vgg11"])
    request = Request(models, [1], ["fp32"], ["training"], training_models=models, training_batch_sizes=[32], **SHORT)
    counted = [dataclasses.replace(workload(model.name), input_shape="3x224x224") for model in models]
    rows = measured(timed("alexnet", 1, [0.2]), timed("vgg11", 1, [0.1]))
    parts = in_parts(request, workloads=counted, **rows)
    # A step of 32 takes 3 * 32 times as long as an input: 9.6 s and 19.2 s, both longer than a twentieth of 180 s.
    assert parts["training steps"] == ["training vgg11 batch 32 fp32, round 1"]
    assert parts["long cells"] == ["training alexnet batch 32 fp32, round 1"]


def test_what_takes_long_comes_the_shortest_first():
    models = catalog.find(["alexnet", "vgg11", "vgg16"])
    request = Request(models, [1, 64, 256], ["fp32"], ["inference"], rounds=1, budget_s=180.0)
    long = in_parts(request)["long cells"]
    assert [label.split()[2] for label in long] == ["64", "256", "256", "256"]


def test_a_short_budget_has_the_profile_that_takes_least():
    request = Request([ALEXNET], [1, 8, 64], ["fp32"], ["inference", "operators"], rounds=1)

    def first(**changes):
        return in_parts(dataclasses.replace(request, **changes))["operators"]

    assert first(budget_s=180.0) == ["operators of alexnet batch 1 fp32"]
    assert first(budget_s=3600.0) == ["operators of alexnet batch 64 fp32"]
    assert first(budget_s=3600.0, quick=True) == ["operators of alexnet batch 1 fp32"]


def test_a_quick_run_profiles_the_two_leading_models_alone():
    models = catalog.find(["alexnet", "vgg11", "vgg16"])
    tasks = to_do(Request(models, [1, 64], ["fp32"], ["operators"], quick=True, **TRAINED))
    assert labels(tasks) == [
        "operators of alexnet batch 1 fp32",
        "operators of training vgg11 batch 32 fp32",  # the one model that is trained
        "operators of vgg11 batch 1 fp32",
    ]


def test_without_a_budget_parts_are_sections_and_rounds():
    request = Request([ALEXNET], [1], ["fp32"], plan.SECTIONS, rounds=4, **TRAINED)
    assert list(in_parts(request)) == ["counts", "roofs", *(f"round {n}" for n in range(1, 5)), "hardware counters"]


def timed(model, batch, latencies_s, precision="fp32", variant="eager"):
    """The runs of a cell and their samples, one a round."""
    cell = cell_columns(model, batch, "inference", environment="now", precision=precision, variant=variant)
    runs = [
        Run(**cell, status="ok", reason=None, recorded_at="2026-01-01", round=number)
        for number in range(len(latencies_s))
    ]
    samples = [
        Sample(**cell, sample=0, block=1, latency_s=latency_s, round=number)
        for number, latency_s in enumerate(latencies_s)
    ]
    return runs, samples


STEADY, NOISY = [1.0, 1.01, 0.99], [1.0, 1.2, 0.8]
"""Logarithms with deviations of 1 % and 20 %: 4.85 / sqrt(3) times that is ±2.8 % and more than ±50 %."""


def measured(*cells):
    runs, samples = map(chain.from_iterable, zip(*cells, strict=True))
    return {"runs": list(runs), "samples": list(samples)}


def test_a_cell_that_is_not_known_well_enough_gets_one_more_round():
    request = Request([ALEXNET, VGG], [1], ["fp32"], ["inference"], most_rounds=9)
    rows = measured(timed("alexnet", 1, STEADY), timed("vgg11", 1, NOISY))
    assert labels(to_do(request, **rows)) == ["vgg11 batch 1 fp32, round 4"]
    assert to_do(dataclasses.replace(request, target=0.9), **rows) == []
    assert to_do(dataclasses.replace(request, most_rounds=3), **rows) == []
    nine = measured(timed("vgg11", 1, NOISY * 3))
    assert to_do(dataclasses.replace(request, models=[VGG]), **nine) == []


def test_a_variant_or_a_precision_is_measured_in_the_same_rounds_as_its_baseline():
    request = Request([ALEXNET], [1, 8], ["fp32", "bf16"], ["inference"], ["eager", "kept_memory"], most_rounds=9)
    rows = measured(
        timed("alexnet", 1, STEADY),
        timed("alexnet", 1, NOISY, variant="kept_memory"),
        timed("alexnet", 1, STEADY, precision="bf16"),
        timed("alexnet", 1, STEADY, precision="bf16", variant="kept_memory"),
        *(timed("alexnet", 8, STEADY, *way) for way in (("fp32",), ("bf16",), ("fp32", "kept_memory"))),
    )
    assert labels(to_do(request, **rows)) == sorted(
        [
            *(f"alexnet batch 8 bf16 kept_memory, round {number}" for number in (1, 2, 3)),
            *(f"alexnet batch 1 {way}, round 4" for way in ("fp32", "bf16", "fp32 kept_memory", "bf16 kept_memory")),
        ]
    )


def test_by_force_all_rounds_that_a_cell_has_are_done_again():
    request = Request([VGG], [1], ["fp32"], ["inference"], most_rounds=9, force=True)
    assert len(to_do(request, **measured(timed("vgg11", 1, [*NOISY, 1.0, 1.0])))) == 5


def test_memory_is_kept_too_on_a_processor_under_linux_unless_variants_are_named():
    request = Request([ALEXNET], [1], ["fp32"], ["inference"], variants=(), rounds=1)
    both = ["alexnet batch 1 fp32 kept_memory, round 1", "alexnet batch 1 fp32, round 1"]
    assert labels(to_do(request)) == both
    assert labels(to_do(request, device="cuda")) == both[1:]
    assert labels(to_do(request, system="Darwin 23")) == both[1:]
    assert labels(to_do(dataclasses.replace(request, variants=("eager",)))) == both[1:]


def test_precisions_are_those_of_the_device_unless_they_are_named():
    request = Request([ALEXNET], [1], [], ["inference"], rounds=1)
    fp32, fp16, bf16 = (f"alexnet batch 1 {precision}, round 1" for precision in ("fp32", "fp16", "bf16"))
    assert labels(to_do(request)) == [fp32]
    assert labels(to_do(request, device="cuda", capability="7.5")) == [fp16, fp32]
    assert labels(to_do(request, device="cuda", capability="8.0")) == [bf16, fp32]
    named = dataclasses.replace(request, precisions=["fp32"])
    assert labels(to_do(named, device="cuda", capability="8.0")) == [fp32]
    # fp32 is done, and bf16 is new.
    assert labels(to_do(request, device="cuda", capability="8.0", runs=[run("alexnet", 1)])) == [bf16]


def test_what_the_cache_holds_is_not_measured_again_whatever_became_of_it():
    request = Request([ALEXNET, VGG], [1, 64], ["fp32"], ["inference"], rounds=2)
    runs = [run("alexnet", 1), run("alexnet", 1, number=1), run("vgg11", 1), run("vgg11", 64, status="oom")]
    assert labels(to_do(request, runs=runs)) == [
        "alexnet batch 64 fp32, round 1",
        "alexnet batch 64 fp32, round 2",
        "vgg11 batch 1 fp32, round 2",
    ]


def killed(row, sitting):
    return dataclasses.replace(row, status=KILLED.status, reason=KILLED.reason, sitting=sitting)


def test_what_was_killed_from_outside_is_done_again_in_the_next_sitting():
    request = Request([ALEXNET], [1], ["fp32"], ["inference", "operators"], rounds=3)
    first, second = run("alexnet", 1), run("alexnet", 1, number=1)
    left = ["alexnet batch 1 fp32, round 2", "alexnet batch 1 fp32, round 3", "operators of alexnet batch 1 fp32"]
    before = {"runs": [first, killed(second, "before")], "profiles": [killed(profile("alexnet", 1), "before")]}
    assert labels(to_do(request, **before)) == left
    today = cache().sitting
    rows = {"runs": [first, killed(second, today)], "profiles": [killed(profile("alexnet", 1), today)]}
    assert labels(plan.tasks_to_do(request, dataclasses.replace(cache(**rows), sitting=today))) == []


def test_what_was_killed_is_known_by_its_status_however_its_reason_is_worded():
    request = Request([ALEXNET], [1], ["fp32"], ["inference"], rounds=1)
    row = dataclasses.replace(killed(run("alexnet", 1), "before"), reason="ended from outside")
    assert labels(to_do(request, runs=[row])) == ["alexnet batch 1 fp32, round 1"]
    failed = dataclasses.replace(run("alexnet", 1), status="error", reason=KILLED.reason)
    assert to_do(request, runs=[failed]) == []


def test_a_roof_that_was_killed_from_outside_is_measured_again_in_the_next_sitting():
    request = Request([], [], ["fp32"], ["roofs"])
    task = next(task for task in to_do(request) if task.roof_kernel == "matmul")
    row = dataclasses.replace(roof_measurement(), environment_id="now", **task.columns)
    assert task not in to_do(request, roof_measurements=[row])
    assert task in to_do(request, roof_measurements=[killed(row, "before")])


def test_a_count_that_was_killed_from_outside_is_counted_again_but_not_in_the_same_run():
    request = Request([ALEXNET], [1], ["fp32"], ["workload"])
    known = dataclasses.replace(
        workload("alexnet"), input_shape="3x224x224", status=KILLED.status, reason=KILLED.reason
    )
    assert labels(to_do(request, workloads=[known])) == ["workload alexnet fp32"]
    assert plan.further_tasks(request, cache(workloads=[known]), set()) == []


def loaded(row, load, sitting="before"):
    return dataclasses.replace(row, load=load, sitting=sitting)


def test_a_roof_that_was_measured_beside_other_programs_is_measured_again_once_in_a_run():
    request = Request([], [], ["fp32"], ["roofs"])
    task = next(task for task in to_do(request) if task.roof_kernel == "matmul")
    row = dataclasses.replace(roof_measurement(), environment_id="now", **task.columns)
    for load, is_again in ((None, False), (0.09, False), (0.1, True), (0.9, True)):
        assert (task in to_do(request, roof_measurements=[loaded(row, load)])) == is_again
    rows = cache(roof_measurements=[loaded(row, 0.9)])
    assert task in plan.further_tasks(request, rows, set())
    assert task not in plan.further_tasks(request, rows, {task})


def test_another_environment_does_not_count():
    request = Request([ALEXNET], [1], ["fp32"], ["inference"])
    assert len(to_do(request, runs=[run("alexnet", 1, environment="before")])) == ROUNDS


def test_what_was_measured_at_another_input_shape_does_not_count():
    request = Request([ALEXNET], [1], ["fp32"], ["inference", "operators"], rounds=1)

    def left(shape):
        run_, profile_ = run("alexnet", 1), profile("alexnet", 1)
        rows = [dataclasses.replace(row, input_shape=shape) for row in (run_, profile_)]
        return labels(to_do(request, runs=rows[:1], profiles=rows[1:]))

    assert left("3x224x224") == []
    assert left(None) == []  # not known
    assert left("3x600x600") == ["alexnet batch 1 fp32, round 1", "operators of alexnet batch 1 fp32"]


def test_a_failure_at_another_input_shape_does_not_keep_a_cell_from_being_tried():
    request = Request([ALEXNET], [1], ["fp32"], ["inference"], rounds=1)
    failed = dataclasses.replace(run("alexnet", 1, status="oom"), input_shape="3x600x600")
    assert len(to_do(request, runs=[failed])) == 1


def test_force_plans_everything():
    request = Request([ALEXNET], [1], ["fp32"], ["inference"], force=True)
    assert len(to_do(request, runs=[run("alexnet", 1)])) == ROUNDS


def test_a_model_is_counted_only_at_the_batch_sizes_that_are_missing():
    known = dataclasses.replace(workload("alexnet"), input_shape="3x224x224")
    (task,) = to_do(Request([ALEXNET], [1, 64, 256], ["fp32"], ["workload"]), workloads=[known])
    assert task == WorkloadTask(ALEXNET, (64, 256), "fp32", None)


def test_what_could_not_be_counted_is_not_tried_again():
    known = dataclasses.replace(workload("alexnet"), input_shape="3x224x224", status="unsupported", reason="no shape")
    assert to_do(Request([ALEXNET], [1], ["fp32"], ["workload"]), workloads=[known]) == []


def test_each_precision_is_counted_and_so_is_its_autocast_on_a_kind_of_device():
    known = dataclasses.replace(workload("alexnet"), input_shape="3x224x224", precision="bf16")
    cast = to_do(Request([ALEXNET], [1], ["fp32", "fp16", "bf16"], ["workload"]), workloads=[known])
    assert [task.label for task in cast] == ["workload alexnet fp32", "workload alexnet fp16"]
    request = Request([ALEXNET], [1], ["fp32", "bf16"], ["workload"], variants=["eager", "autocast"])
    assert [task.label for task in to_do(request, workloads=[known])] == [
        "workload alexnet fp32",
        "workload alexnet bf16 autocast on cpu",
    ]


def test_what_is_stored_as_fp32_is_counted_as_that():
    tasks = to_do(Request([ALEXNET], [1], ["fp32", "tf32"], ["workload"], variants=["eager", "compile"]))
    assert [task.label for task in tasks] == ["workload alexnet fp32"]


def test_each_precision_has_its_matrix_products_and_all_share_the_memory():
    tasks = to_do(Request([], [], ["fp32", "bf16"], ["roofs"]))
    assert {task.precision for task in tasks if task.roof_kernel == "matmul"} == {"fp32", "bf16", "int8"}
    streams = [task for task in tasks if task.roof_kernel.startswith("stream_")]
    assert len({(task.roof_kernel, task.size, task.pace, task.round) for task in streams}) == len(streams) > 0


def test_a_gpus_products_are_measured_at_all_that_it_has_units_for():
    def of_products(capability, **asked):
        tasks = to_do(Request([], [], ["fp32"], ["roofs"], **asked), device="cuda", capability=capability)
        return {task.precision for task in tasks if task.roof_kernel == "matmul"}

    assert of_products("9.0") == of_products("9.0", quick=True) == {"fp32", "tf32", "fp16", "bf16", "fp8", "int8"}
    assert of_products("7.5") == {"fp32", "fp16", "int8"}


def test_a_processor_has_its_clock_measured_once_whatever_the_precisions():
    request = Request([], [], ["fp32", "bf16"], ["roofs"])
    chains = [task for task in to_do(request) if task.roof_kernel == "chain"]
    assert [task.precision for task in chains] == ["int64", "fp64"]
    assert not [task for task in to_do(request, device="cuda") if task.roof_kernel == "chain"]


def test_a_clock_that_could_not_be_measured_is_not_tried_again():
    request = Request([], [], ["fp32"], ["roofs"])
    (size,) = {task.size for task in to_do(request) if (task.roof_kernel, task.precision) == ("chain", "int64")}
    kernel = {"environment_id": "now", "roof_kernel": "chain", "precision": "int64", "pace": "sustained"}
    failed = dataclasses.replace(roof_measurement(size), **kernel, status="unsupported", reason="no Numba")
    label = f"roof chain int64 {size} sustained"
    assert label in [task.label for task in to_do(request)]
    assert label not in [task.label for task in to_do(request, roof_measurements=[failed])]


def test_a_quick_run_measures_few_kernels_and_none_twice():
    tasks = to_do(Request([], [], ["fp32"], ["roofs"], quick=True))
    assert {task.roof_kernel for task in tasks} == {"matmul", "fma", "stream_triad", "chain"}
    assert {task.pace for task in tasks} == {"sustained"}
    assert set(tasks) < set(to_do(Request([], [], ["fp32"], ["roofs"])))


def test_a_step_is_measured_for_each_optimiser_in_rounds_of_its_own():
    request = Request([ALEXNET, VGG], [1], ["fp32"], ["training"], **TRAINED, optimizers=["sgd", "adam"], rounds=2)
    assert labels(to_do(request)) == [
        "training vgg11 batch 32 fp32 adam, round 1",
        "training vgg11 batch 32 fp32 adam, round 2",
        "training vgg11 batch 32 fp32, round 1",
        "training vgg11 batch 32 fp32, round 2",
    ]


def test_a_step_is_measured_if_the_row_of_the_whole_is_there():
    request = Request([VGG], [32], ["fp32"], ["inference", "training"], **TRAINED, rounds=2)
    runs = [
        run("vgg11", 32),
        run("vgg11", 32, number=1),
        run("vgg11", 32, phase="step"),
        run("vgg11", 32, phase="forward", number=1),
    ]
    assert [task.label for task in to_do(request, runs=runs)] == ["training vgg11 batch 32 fp32, round 2"]
    failed = [run("vgg11", 32, phase="step", status="oom")]
    assert [task.section for task in to_do(request, runs=failed)] == ["inference"] * 2


def test_the_batch_sizes_of_training_are_counted_for_what_is_trained():
    request = Request([ALEXNET, VGG], [1, 64], ["fp32"], ["workload", "training"], **TRAINED, rounds=0)
    assert [task.batches for task in to_do(request)] == [(1, 64), (1, 32, 64)]
    counted = Request([ALEXNET, VGG], [1, 64], ["fp32"], ["workload"], **TRAINED)
    assert [task.batches for task in to_do(counted)] == [(1, 64), (1, 64)]


def profile(model, batch, status="ok", environment="now", phase="inference"):
    cell = cell_columns(model, batch, phase, environment=environment)
    return Profile(**cell, status=status, reason=None, recorded_at="2026-01-01")


def test_the_log_names_what_failed_before_and_is_left_out(caplog):
    caplog.set_level(logging.INFO, "measure")
    request = Request([ALEXNET, VGG], [1], ["fp32"], ["inference"])
    to_do(request, runs=[run("alexnet", 1, status="oom")])
    assert [record.getMessage() for record in caplog.records] == [
        "not tried again without --force: alexnet batch 1 fp32 inference eager, oom (None)",
        "inference: 3 to do, the rest is in the cache",
    ]


def test_operators_are_profiled_once_for_each_cell_of_inference_and_of_training():
    request = Request([ALEXNET, VGG], [1, 64], ["fp32"], ["operators"], **TRAINED, optimizers=["sgd", "adam"])
    expected = [
        "operators of alexnet batch 1 fp32",
        "operators of alexnet batch 64 fp32",
        "operators of training vgg11 batch 32 fp32",
        "operators of training vgg11 batch 32 fp32 adam",
        "operators of vgg11 batch 1 fp32",
        "operators of vgg11 batch 64 fp32",
    ]
    assert labels(to_do(request)) == expected
    known = [
        profile("alexnet", 1),
        profile("vgg11", 1, environment="before"),
        profile("alexnet", 64, status="oom"),
        profile("vgg11", 32, phase="step"),
    ]
    left = to_do(request, profiles=known)
    assert labels(left) == expected[3:]
    assert len(to_do(dataclasses.replace(request, force=True), profiles=known)) == 6


def test_a_profile_is_no_round_and_a_round_no_profile():
    request = Request([ALEXNET], [1], ["fp32"], ["inference", "operators"], rounds=1)
    assert [task.section for task in to_do(request, profiles=[profile("alexnet", 1)])] == ["inference"]
    assert [task.section for task in to_do(request, runs=[run("alexnet", 1)])] == ["operators"]


def test_the_batch_sizes_of_training_are_counted_for_the_operators_of_its_steps():
    request = Request([VGG], [1, 64], ["fp32"], ["workload", "operators"], **TRAINED)
    assert to_do(request)[0].batches == (1, 32, 64)


def test_counters_are_read_once_for_each_cell_that_operators_are_profiled_of_and_only_where_asked_for():
    request = Request([ALEXNET], [1], ["fp32"], ["hardware-counters"], **TRAINED)
    assert [task.label for task in to_do(request)] == [
        "hardware counters of alexnet batch 1 fp32",
        "hardware counters of training vgg11 batch 32 fp32",
    ]
    known = HardwareCounterProfile(
        "now", "vgg11", 32, "fp32", "step", "eager", "unsupported", "forbidden", "2026-01-01"
    )
    left = to_do(request, counters=[known], profiles=[profile("alexnet", 1)])
    assert [task.label for task in left] == ["hardware counters of alexnet batch 1 fp32"]
    assert "hardware-counters" not in USUAL_SECTIONS
