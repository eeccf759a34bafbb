import dataclasses
import logging
from types import SimpleNamespace

from helpers.rows import cell_columns, roof_measurement, workload

from measure.cache.records import HardwareCounterProfile, Profile, Run
from measure.models import catalog
from measure.run import plan
from measure.run.sections.hardware_counters import HardwareCounterTask
from measure.run.sections.operators import ProfileTask
from measure.run.sections.roofs import RoofTask
from measure.run.sections.rounds import InferenceTask, TrainingTask
from measure.run.sections.workload import WorkloadTask
from measure.run.task import ROUNDS, Cache, Request

ALEXNET, VGG = catalog.find(["alexnet", "vgg11"])
TRAINED = {"training_models": [VGG], "training_batch_sizes": [32]}


def cache(workloads=(), roof_measurements=(), runs=(), profiles=(), counters=(), device="cpu"):
    """A cache of these rows, in which the environment of now is this machine's."""
    tables = {
        "roof_measurements": roof_measurements,
        "runs": runs,
        "profiles": profiles,
        "hardware_counter_profiles": counters,
    }
    return Cache(
        SimpleNamespace(counted=lambda: workloads),
        SimpleNamespace(**{name: lambda rows=rows: rows for name, rows in tables.items()}),
        SimpleNamespace(environment_id="now", device=device),
    )


def to_do(request, workloads=(), roof_measurements=(), runs=(), profiles=(), counters=()):
    return plan.tasks_to_do(request, cache(workloads, roof_measurements, runs, profiles, counters))


def run(model, batch, environment="now", status="ok", number=0, phase="inference"):
    cell = cell_columns(model, batch, phase, environment=environment)
    return Run(**cell, status=status, reason=None, recorded_at="2026-01-01", round=number)


def test_small_batches_of_all_models_come_before_large_ones_and_roofs_before_models():
    request = Request([ALEXNET, VGG], [1, 64], ["fp32"], plan.SECTIONS, rounds=2, **TRAINED)
    tasks = to_do(request)
    kinds = [type(task) for task in tasks]
    order = [WorkloadTask, RoofTask, InferenceTask, TrainingTask, ProfileTask, HardwareCounterTask]
    assert list(dict.fromkeys(kinds)) == order
    assert kinds == sorted(kinds, key=order.index)
    assert [task.label for task in tasks if isinstance(task, InferenceTask)] == [
        f"{model} batch {batch} fp32, round {number}"
        for batch in (1, 64)
        for number in (1, 2)
        for model in ("alexnet", "vgg11")
    ]


def test_what_the_cache_holds_is_not_measured_again_whatever_became_of_it():
    request = Request([ALEXNET, VGG], [1, 64], ["fp32"], ["inference"], rounds=2)
    runs = [run("alexnet", 1), run("alexnet", 1, number=1), run("vgg11", 1), run("vgg11", 64, status="oom")]
    assert [task.label for task in to_do(request, runs=runs)] == [
        "vgg11 batch 1 fp32, round 2",
        "alexnet batch 64 fp32, round 1",
        "alexnet batch 64 fp32, round 2",
    ]


def test_another_environment_does_not_count():
    request = Request([ALEXNET], [1], ["fp32"], ["inference"])
    assert len(to_do(request, runs=[run("alexnet", 1, environment="before")])) == ROUNDS


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
    assert {task.precision for task in tasks if task.roof_kernel == "matmul"} == {"fp32", "bf16"}
    streams = [task for task in tasks if task.roof_kernel.startswith("stream_")]
    assert len({(task.roof_kernel, task.size, task.pace) for task in streams}) == len(streams) > 0


def test_a_processor_has_its_clock_measured_once_whatever_the_precisions():
    request = Request([], [], ["fp32", "bf16"], ["roofs"])
    chains = [task for task in to_do(request) if task.roof_kernel == "chain"]
    assert [task.precision for task in chains] == ["int64", "fp64"]
    gpu = plan.tasks_to_do(request, cache(device="cuda"))
    assert not [task for task in gpu if task.roof_kernel == "chain"]


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
    assert [task.label for task in to_do(request)] == [
        "training vgg11 batch 32 fp32, round 1",
        "training vgg11 batch 32 fp32 adam, round 1",
        "training vgg11 batch 32 fp32, round 2",
        "training vgg11 batch 32 fp32 adam, round 2",
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
        "inference: 3 to do, what else was asked for is in the cache",
    ]


def test_operators_are_profiled_once_for_each_cell_of_inference_and_of_training():
    request = Request([ALEXNET, VGG], [1, 64], ["fp32"], ["operators"], **TRAINED, optimizers=["sgd", "adam"])
    labels = [
        "operators of alexnet batch 1 fp32",
        "operators of vgg11 batch 1 fp32",
        "operators of alexnet batch 64 fp32",
        "operators of vgg11 batch 64 fp32",
        "operators of training vgg11 batch 32 fp32",
        "operators of training vgg11 batch 32 fp32 adam",
    ]
    assert [task.label for task in to_do(request)] == labels
    known = [
        profile("alexnet", 1),
        profile("vgg11", 1, environment="before"),
        profile("alexnet", 64, status="oom"),
        profile("vgg11", 32, phase="step"),
    ]
    left = to_do(request, profiles=known)
    assert [task.label for task in left] == [labels[1], labels[3], labels[5]]
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
    assert "hardware-counters" not in plan.USUAL_SECTIONS
