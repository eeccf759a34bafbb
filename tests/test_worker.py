import dataclasses
import os
import signal
import threading
import time

import pytest

from measure import catalog, worker
from measure.errors import UserError
from measure.plan import InferenceTask, WorkloadTask
from measure.timing import Sampling
from measure.worker import BudgetSpent, Failure, Worker, classify

pytest.importorskip("torch", reason="a worker measures with torch")
pytest.importorskip("torchvision", reason="the models are torchvision's")
SQUEEZENET = catalog.find(["squeezenet1_0"])[0]
COUNT = WorkloadTask(SQUEEZENET, (1,), "fp32", None)


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (MemoryError("no"), "oom"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "oom"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "oom"),
        (RuntimeError("\"slow_conv2d_cpu\" not implemented for 'Half'"), "unsupported"),
        (NotImplementedError("aten::thing"), "unsupported"),
        (ValueError("first line\nsecond line"), "error"),
        (RuntimeError(), "error"),
    ],
)
def test_exceptions_become_statuses(problem, status):
    failure = classify(problem)
    assert failure.status == status
    assert failure.reason.startswith(type(problem).__name__)
    assert "\n" not in failure.reason


@pytest.fixture(scope="module")
def process():
    process = Worker("cpu", 1, "e1", Sampling())
    yield process
    process.close()


def test_a_result_comes_back(process):
    (count,) = process.run(COUNT)
    assert count.workload.parameter_count == 1_248_424  # torchvision's published count


def test_a_batch_that_fits_nowhere_is_out_of_memory_and_the_next_task_runs(process):
    # 10^8 images of 3 * 224 * 224 * 4 bytes are 60 TB.
    failure = process.run(InferenceTask(SQUEEZENET, 10**8, "fp32", "eager", 0))
    assert isinstance(failure, Failure)
    assert failure.status == "oom"
    assert isinstance(process.run(COUNT), list)


@pytest.mark.parametrize(
    ("number", "status", "words"),
    [(signal.SIGKILL, "oom", "signal 9"), (signal.SIGSEGV, "error", "signal 11")],
)
def test_a_process_that_dies_is_an_outcome_and_the_next_task_finds_a_fresh_one(
    process, number, status, words
):
    process.run(COUNT)
    victim = process._process.pid
    threading.Timer(0.5, os.kill, (victim, number)).start()
    failure = process.run(InferenceTask(SQUEEZENET, 64, "fp32", "eager", 0))
    assert failure.status == status
    assert words in failure.reason
    assert isinstance(process.run(COUNT), list)
    assert process._process.pid != victim


def test_a_call_without_a_sign_of_life_is_a_timeout(process, monkeypatch):
    process.run(COUNT)
    monkeypatch.setattr(process, "_call_limit_s", 0.0)
    assert process.run(InferenceTask(SQUEEZENET, 64, "fp32", "eager", 0)) == Failure(
        "timeout", "one call took longer than 0 s"
    )


def test_the_end_of_the_budget_gives_the_task_up(process):
    process.run(COUNT)
    with pytest.raises(BudgetSpent):
        process.run(InferenceTask(SQUEEZENET, 64, "fp32", "eager", 0), deadline=time.monotonic() + 0.2)


def test_a_device_that_cannot_be_set_up_is_one_sentence():
    process = Worker("cuda:99", 1, "e1", Sampling())
    with pytest.raises(UserError, match="there is no cuda:99 on this machine"):
        process.run(COUNT)
    process.close()


def test_each_round_of_a_cell_has_a_process_of_its_own(process):
    quick = InferenceTask(SQUEEZENET, 1, "fp32", "eager", 0)
    process.run(COUNT)
    shared = process._process.pid
    process.run(quick)
    assert process._process.pid == shared  # nothing was timed in it before
    process.run(dataclasses.replace(quick, round=1))
    assert process._process.pid != shared


def test_limits_are_positive():
    assert worker.CALL_LIMIT_S > 0
    assert worker.START_LIMIT_S > worker.CALL_LIMIT_S
