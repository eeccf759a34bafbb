"""A worker's processes: whatever happens to one is an outcome, and the next task runs.

That they end with their parent is seen by ``test_kills``.
"""

import os
import signal
import time

import pytest
from helpers.cells import changed, inference_task, profile_task, training_task

from measure.models import catalog
from measure.run import worker
from measure.run.processes import IsolatedProcess
from measure.run.tasks import KILLED, Failure, WorkloadTask
from measure.run.worker import BudgetSpent, Worker
from measure.timing.sampling import Sampling

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_workers")]

SQUEEZENET, SMALL = catalog.find(["squeezenet1_0", "helpers.small_network:network"])
COUNT = WorkloadTask(SQUEEZENET, (1,), "fp32", None)
CELL = inference_task(SMALL, 1, "fp32", "eager", 0)
LARGE = inference_task(SQUEEZENET, 64, "fp32", "eager", 0)
WEIGHTS = 8 * (3 * 3 * 3 + 1) + 10 * (8 * 14 * 14 + 1)  # of a convolution and a linear layer
QUICK = Sampling(warm_up_s=0.1, least_s=0.1, limit_s=0.2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def process(forked_workers, folder):
    """A worker. Its processes find own models in the folder, as this process does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        process = Worker("cpu", 1, QUICK)
        yield process
        process.close()


def pid_of(worker):
    return worker._isolated.process.pid


def test_each_task_has_its_result_and_each_cell_a_process(process):
    (count,) = process.run(COUNT)
    assert count.workload.parameter_count == 1_248_424  # torchvision's published count
    pids = [pid_of(process)]
    for task in (CELL, changed(CELL, 1)):
        assert min(process.run(task).latencies_s) > 0
        pids.append(pid_of(process))
    step = process.run(training_task(SMALL, 1, "fp32", "eager", 0))
    assert list(step.stages) == ["forward", "backward", "update"]
    assert min(min(timing.latencies_s) for timing in (step, *step.stages.values())) > 0
    assert step.peak_byte > 2 * 4 * WEIGHTS  # and their momentum
    pids.append(pid_of(process))
    profiled = process.run(profile_task(SMALL, 1, "fp32", "eager", "inference"))
    called = {(each.path, each.operator) for each in profiled.operators}
    assert called >= {("0", "conv2d"), ("1", "relu"), ("3", "linear")}
    assert len({*pids, pid_of(process)}) == 5


UNREADABLE = """
import torch


class Mute(Exception):
    def __str__(self):
        raise ValueError


class Network(torch.nn.Linear):
    def forward(self, numbers):
        raise Mute


def network(batch_size):
    return Network(3, 2), torch.ones(batch_size, 3)
"""


def test_an_exception_without_words_is_an_outcome(process, folder):
    process.run(COUNT)
    before = pid_of(process)
    (folder / "unreadable.py").write_text(UNREADABLE)
    (model,) = catalog.find(["unreadable:network"])
    failure = process.run(WorkloadTask(model, (1,), "fp32", None))
    assert (failure.status, "Mute: its text cannot be read" in failure.reason) == ("error", True)
    assert isinstance(process.run(COUNT), list)
    assert pid_of(process) != before


@pytest.mark.parametrize(
    ("number", "counted", "status", "words"),
    [
        (signal.SIGKILL, (3, 4), "oom", "signal 9"),
        (signal.SIGKILL, (3, 3), KILLED.status, KILLED.reason),
        (signal.SIGTERM, (3, 3), KILLED.status, KILLED.reason),  # by a batch system, or a guard of the memory
        (signal.SIGHUP, (3, 3), KILLED.status, KILLED.reason),
        (signal.SIGSEGV, (3, 4), "error", "signal 11"),
    ],
)
def test_a_dead_process_is_an_outcome_and_a_fresh_one_follows(process, monkeypatch, number, counted, status, words):
    if signal.getsignal(number) == signal.SIG_IGN:
        pytest.skip("these tests run under nohup, and so do their processes")
    kills = iter(counted)  # for want of memory: before the task, and when its process has died
    monkeypatch.setattr(worker, "oom_kills", lambda: next(kills))
    victims, send = [], IsolatedProcess.send

    def send_and_kill(isolated, task):
        send(isolated, task)
        victims.append(isolated.process.pid)
        os.kill(victims[0], number)

    monkeypatch.setattr(IsolatedProcess, "send", send_and_kill)
    failure = process.run(LARGE)
    assert (failure.status, words in failure.reason) == (status, True)
    monkeypatch.undo()
    assert isinstance(process.run(COUNT), list)
    assert pid_of(process) not in victims
    os.kill(pid_of(process), number)  # between two tasks
    process._isolated.process.join()
    assert isinstance(process.run(COUNT), list)


def test_a_batch_without_room_and_a_silent_call_are_outcomes(process, monkeypatch):
    # 10^8 images of 3 * 224 * 224 * 4 bytes are 60 TB.
    assert process.run(changed(LARGE, batch=10**8)).status == "oom"
    process.run(COUNT)
    with pytest.raises(BudgetSpent):
        process.run(LARGE, deadline=time.monotonic() + 0.2)
    process.run(COUNT)
    monkeypatch.setattr(process, "_call_limit_s", 0.0)
    assert process.run(LARGE) == Failure("timeout", "one call took longer than 0 s")
