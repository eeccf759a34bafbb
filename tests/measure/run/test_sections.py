"""The counts and roofs that a request still needs."""

from dataclasses import replace

import pytest
from helpers.cells import asked, run_cache
from helpers.rows import VERSION, roof_measurement, workload

from measure.models import catalog
from measure.run import plan
from measure.run.tasks import KILLED, WorkloadTask

KILL = {"status": KILLED.status}
COUNTED = replace(workload("alexnet"), input_shape="3x224x224")
AS_BF16 = replace(COUNTED, precision="bf16")
TRAINED = {"training_models": catalog.find(["vgg11"]), "training_batch_sizes": [32]}

COUNTS = {
    "missing batch sizes": (asked(batch_sizes=(1, 64, 256)), COUNTED, {"fp32": (64, 256)}),
    "could not be counted": (asked(), replace(COUNTED, status="unsupported", reason="no shape"), {}),
    "killed": (asked(), replace(COUNTED, **KILL), {"fp32": (1,)}),
    "another input shape": (asked(), replace(COUNTED, input_shape="3x600x600"), {"fp32": (1,)}),
    "by other formulas": (asked(), replace(COUNTED, counting=0), {"fp32": (1,)}),
    "by other formulas, in vain": (asked(), replace(COUNTED, status="error", reason="?", counting=0), {"fp32": (1,)}),
    "of other code": (asked(), replace(COUNTED, code="1-2"), {"fp32": (1,)}),
    "by force": (asked(force=True), COUNTED, {"fp32": (1,)}),
    "autocast on a kind of device": (
        asked(precisions=["fp32", "bf16"], variants=["eager", "autocast"]), AS_BF16,
        {"fp32": (1,), "bf16 autocast on cpu": (1,)},
    ),
    "stored as fp32": (
        asked(precisions=["fp32", "tf32"], variants=["eager", "compile"]), AS_BF16, {"fp32": (1,)}
    ),
    "trained": (asked("vgg11", sections=["training"], **TRAINED), COUNTED, {"fp32": (1, 32)}),
    "not trained now": (asked("vgg11", **TRAINED), COUNTED, {"fp32": (1,)}),
}  # fmt: skip


@pytest.mark.parametrize(("request_", "row", "expected"), COUNTS.values(), ids=COUNTS)
def test_missing_counts(request_, row, expected):
    tasks = plan.tasks_to_do(replace(request_, sections=["workload", *request_.sections]), run_cache(row))
    counts = [task for task in tasks if isinstance(task, WorkloadTask)]
    assert {task.label.split(maxsplit=2)[2]: task.batches for task in counts} == expected
    assert len(counts) == len(expected)


ROOFS = asked("", (), ["roofs"])


def kernels(request, *rows, **machine):
    return plan.tasks_to_do(request, run_cache(*rows, **machine))


def test_a_quick_run_measures_few_kernels():
    tasks = kernels(replace(ROOFS, quick=True))
    assert {task.roof_kernel for task in tasks} == {"matmul", "fma", "stream_triad", "chain"}
    assert {task.pace for task in tasks} == {"sustained"}
    assert set(tasks) < set(kernels(ROOFS))


@pytest.mark.parametrize("kernel", [("matmul", "fp32"), ("chain", "int64")])
@pytest.mark.parametrize(
    ("change", "is_again"),
    [({"status": "unsupported"}, False), (KILL, True), ({"load": 0.09}, False), ({"load": 0.1}, True)],  # others' load
)
def test_a_roof_is_measured_again_if_it_was_killed_or_disturbed(kernel, change, is_again):
    task = next(task for task in kernels(ROOFS) if (task.roof_kernel, task.precision) == kernel)
    row = replace(roof_measurement(), session="before", version=VERSION, **task.columns, **change)
    assert (task in kernels(ROOFS, row)) is is_again
    assert (task in plan.further_tasks(ROOFS, run_cache(row), set())) is is_again
    assert task not in plan.further_tasks(ROOFS, run_cache(row), {task})  # once in a run
