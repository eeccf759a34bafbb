"""The tasks that a request still needs. ``test_runner`` has the rows of their outcomes."""

from dataclasses import replace

import pytest
from helpers.cells import ask, changed_rows, run_cache, timed_rounds
from helpers.rows import VERSION, counter_profile, profile, roof_measurement, run, workload

from measure.models import catalog
from measure.roofs.roofs import second_kernels
from measure.run import plan
from measure.run.missing import Tier, roof_tier
from measure.run.tasks import KILLED, WorkloadTask, roof_key

TRAINED = {"training_models": catalog.find(["vgg11"]), "training_batch_sizes": [32]}
A1, A64, V1, V64 = (f"{model} batch {batch} fp32" for model in ("alexnet", "vgg11") for batch in (1, 64))
STEP = "training vgg11 batch 32 fp32"
# Logarithms with deviations of 1 % and 20 %: 4.85 / sqrt(3) times that is ±2.8 % and more than ±50 %.
STEADY, NOISY = [1.0, 1.01, 0.99], [1.0, 1.2, 0.8]


def rounds(cell, *numbers):
    return [f"{cell}, round {number}" for number in numbers]


def profiles(*cells):
    return [f"operators of {cell}" for cell in cells]


def counters(*cells):
    return [f"hardware counters of {cell}" for cell in cells]


def loaded(rows, *numbers):
    """The same rows, with these rounds disturbed."""
    return [replace(row, flags="loaded") if hasattr(row, "flags") and row.round in numbers else row for row in rows]


ONE = ask(sections=["inference", "operators"], rounds=1)
TWO = ask("alexnet vgg11", most_rounds=9)
TWO_RATES = [*timed_rounds("alexnet", STEADY), *timed_rounds("vgg11", NOISY)]
WAYS = {"precisions": ["fp32", "bf16"], "variants": ["eager", "kept_memory"]}
STEPS = ask("vgg11", sections=["training"], rounds=2, **TRAINED)
PROFILES = ask("alexnet vgg11", (1, 64), ["operators"], optimizers=["sgd", "adam"], **TRAINED)
PROFILED = [
    profile("alexnet"), profile("alexnet", 64, "oom"), profile("vgg11", 32, phase="step"),
    *changed_rows(profile("vgg11"), environment_id="before"),
]  # fmt: skip
COUNTERS = ask(sections=["hardware-counters"], **TRAINED)
PAIR = [run("alexnet"), profile("alexnet")]
KILL = {"status": KILLED.status, "session": "before"}

LACKING = {
    "another environment": (ONE, changed_rows(*PAIR, environment_id="before"), [*rounds(A1, 1), *profiles(A1)]),
    "done or failed": (
        ask("alexnet vgg11", (1, 64), rounds=2),
        [run("alexnet"), run("alexnet", round_=1), run("vgg11"), run("vgg11", 64, "error")],
        [*rounds(A64, 1, 2), *rounds(V1, 2)],
    ),
    "by force all rounds": (
        ask("vgg11", most_rounds=9, force=True), timed_rounds("vgg11", [*NOISY, 1, 1]), rounds(V1, 1, 2, 3, 4, 5)
    ),
    "a wide interval": (TWO, TWO_RATES, rounds(V1, 4)),
    "a loaded machine": (  # three undisturbed rounds are wanted: vgg11 has none yet, alexnet two
        TWO,
        [*loaded(timed_rounds("vgg11", STEADY), 0, 1, 2), *loaded(timed_rounds("alexnet", STEADY), 2)],
        [*rounds(V1, 4, 5, 6), *rounds(A1, 4)],
    ),
    "a round that was made up for": (ask(most_rounds=9), loaded(timed_rounds("alexnet", [*STEADY, 9.0]), 3), []),
    "a machine that is always loaded": (ask(most_rounds=4), loaded(timed_rounds("alexnet", [1.0] * 4), 0, 1, 2, 3), []),
    "a stage that was disturbed": (
        replace(STEPS, most_rounds=9),
        [
            *(run("vgg11", 32, phase="step", round_=number) for number in (0, 1)),
            replace(run("vgg11", 32, phase="forward", round_=1), flags="loaded"),
        ],
        rounds(STEP, 3),
    ),
    "of another version": (ask(rounds=1), changed_rows(run("alexnet", status="error"), version="0.9"), rounds(A1, 1)),
    "other code": (ONE, changed_rows(*PAIR, code="1-2"), [*rounds(A1, 1), *profiles(A1)]),
    "within the target": (replace(TWO, target=0.9), TWO_RATES, []),
    "wide at last": (ask("vgg11", most_rounds=9), timed_rounds("vgg11", NOISY * 3), []),
    "rounds of a group are equal": (  # a variant or a precision is compared with its baseline round by round
        ask(batch_sizes=[1, 8], most_rounds=9, **WAYS),
        [
            *timed_rounds("alexnet", STEADY), *timed_rounds("alexnet", NOISY, variant="kept_memory"),
            *timed_rounds("alexnet", STEADY, precision="bf16"),
            *timed_rounds("alexnet", STEADY, precision="bf16", variant="kept_memory"),
            *timed_rounds("alexnet", STEADY, 8), *timed_rounds("alexnet", STEADY, 8, variant="kept_memory"),
            *timed_rounds("alexnet", STEADY, 8, precision="bf16"),
        ],
        [
            *rounds(A1, 4), *rounds(f"{A1} kept_memory", 4), *rounds("alexnet batch 1 bf16", 4),
            *rounds("alexnet batch 1 bf16 kept_memory", 4), *rounds("alexnet batch 8 bf16 kept_memory", 1, 2, 3),
        ],
    ),
    "killed before": (ONE, changed_rows(*PAIR, **KILL), [*rounds(A1, 1), *profiles(A1)]),
    "killed in this session": (ONE, changed_rows(*PAIR, **KILL | {"session": "today"}), []),
    "another input shape": (ONE, changed_rows(*PAIR, input_shape="3x600x600"), [*rounds(A1, 1), *profiles(A1)]),
    "a step is done with its whole": (
        STEPS, [run("vgg11", 32), run("vgg11", 32, phase="step"), run("vgg11", 32, phase="forward", round_=1)],
        rounds(STEP, 2),
    ),
    "a failed step fails no forward pass": (
        ask("vgg11", [32], ["inference", "training"], rounds=2, **TRAINED),
        [run("vgg11", 32, "oom", phase="step")],
        rounds("vgg11 batch 32 fp32", 1, 2),
    ),
    "profiles": (PROFILES, PROFILED, profiles(V1, V64, f"{STEP} adam")),
    "quick profiles": (  # of the two leading models, and of the one that is trained
        ask("alexnet vgg11 vgg16", (1, 64), ["operators"], quick=True, **TRAINED), [], profiles(A1, STEP, V1)
    ),
    "counters": (COUNTERS, [counter_profile("vgg11", 32, "unsupported"), PAIR[1]], counters(A1)),
}  # fmt: skip


@pytest.mark.parametrize(("request_", "rows", "expected"), LACKING.values(), ids=LACKING)
def test_missing_cells(request_, rows, expected):
    tasks = plan.tasks_to_do(request_, run_cache(*rows))
    assert sorted(task.label for task in tasks) == sorted(expected)


COUNTED = replace(workload("alexnet"), input_shape="3x224x224")
AS_BF16 = replace(COUNTED, precision="bf16")

COUNTS = {
    "missing batch sizes": (ask(batch_sizes=(1, 64, 256)), COUNTED, {"fp32": (64, 256)}),
    "could not be counted": (ask(), replace(COUNTED, status="unsupported", reason="no shape"), {}),
    "killed": (ask(), replace(COUNTED, status=KILLED.status), {"fp32": (1,)}),
    "another input shape": (ask(), replace(COUNTED, input_shape="3x600x600"), {"fp32": (1,)}),
    "by other formulas": (ask(), replace(COUNTED, counting=0), {"fp32": (1,)}),
    "by other formulas, in vain": (ask(), replace(COUNTED, status="error", reason="?", counting=0), {"fp32": (1,)}),
    "of other code": (ask(), replace(COUNTED, code="1-2"), {"fp32": (1,)}),
    "by force": (ask(force=True), COUNTED, {"fp32": (1,)}),
    "autocast on a kind of device": (
        ask(precisions=["fp32", "bf16"], variants=["eager", "autocast"]), AS_BF16,
        {"fp32": (1,), "bf16 autocast on cpu": (1,)},
    ),
    "stored as fp32": (
        ask(precisions=["fp32", "tf32"], variants=["eager", "compile"]), AS_BF16, {"fp32": (1,)}
    ),
    "trained": (ask("vgg11", sections=["training"], **TRAINED), COUNTED, {"fp32": (1, 32)}),
    "not trained now": (ask("vgg11", **TRAINED), COUNTED, {"fp32": (1,)}),
}  # fmt: skip


@pytest.mark.parametrize(("request_", "row", "expected"), COUNTS.values(), ids=COUNTS)
def test_missing_counts(request_, row, expected):
    tasks = plan.tasks_to_do(replace(request_, sections=["workload", *request_.sections]), run_cache(row))
    counts = [task for task in tasks if isinstance(task, WorkloadTask)]
    assert {task.label.split(maxsplit=2)[2]: task.batches for task in counts} == expected
    assert len(counts) == len(expected)


ROOFS = ask("", (), ["roofs"])


def kernels(request, *rows, **machine):
    return plan.tasks_to_do(request, run_cache(*rows, **machine))


def test_a_quick_run_measures_few_kernels():
    tasks = kernels(replace(ROOFS, quick=True))
    assert {task.roof_kernel for task in tasks} == {"matmul", "fma", "stream_triad", "chain"}
    assert {task.pace for task in tasks} == {"sustained"}
    assert set(tasks) < set(kernels(ROOFS))


def test_a_quick_run_of_a_gpu_has_its_memory_read_its_l2_and_its_idle_power():
    tasks = kernels(replace(ROOFS, quick=True), device="cuda")
    assert {task.roof_kernel for task in tasks} == {"matmul", "fma", "stream_read", "stream_triad", "idle"}
    assert {task.pace for task in tasks} == {"sustained"}
    reads = sorted(round(task.size / 2**20, 1) for task in tasks if task.roof_kernel == "stream_read")
    assert reads == [1.4, 2.0, 2.8, 16.0, 22.6, 32.0, 1024.0]  # MiB


@pytest.mark.parametrize(("budget_s", "tier"), [(1200.0, Tier.FIRST_ROOF), (300.0, Tier.ROOFS)])
def test_a_short_budget_has_the_l2_and_the_idle_power_after_its_first_cells(budget_s, tier):
    request = replace(ROOFS, budget_s=budget_s, device_kind="cuda")
    in_l2 = [task for task in kernels(ROOFS, device="cuda") if roof_key(task) in second_kernels("cuda")]
    assert len(in_l2) == 13
    assert {roof_tier(task, request) for task in in_l2} == {tier}


@pytest.mark.parametrize("kernel", [("matmul", "fp32"), ("chain", "int64")])
@pytest.mark.parametrize(
    ("change", "is_again"),
    [
        ({"status": "unsupported"}, False),
        ({"status": KILLED.status}, True),
        ({"load": 0.09}, False),
        ({"load": 0.1}, True),
    ],  # others' load
)
def test_a_roof_is_measured_again_if_it_was_killed_or_disturbed(kernel, change, is_again):
    task = next(task for task in kernels(ROOFS) if (task.roof_kernel, task.precision) == kernel)
    row = replace(roof_measurement(), session="before", version=VERSION, **task.columns, **change)
    assert (task in kernels(ROOFS, row)) is is_again
    assert (task in plan.further_tasks(ROOFS, run_cache(row), set())) is is_again
    assert task not in plan.further_tasks(ROOFS, run_cache(row), {task})  # once in a run
