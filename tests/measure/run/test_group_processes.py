"""Groups of processes under torch's launcher: a rank that dies or hangs is an outcome, and none outlives its parent."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from measure import __main__ as command
from measure.cache.folders import MachineFolder
from measure.domain.records import CollectiveMeasurement, DataParallelStep
from measure.machine import devices
from measure.run import group, group_storing
from measure.run.group_tasks import CollectiveTask, GroupFailure
from measure.timing.sampling import Sampling

pytestmark = pytest.mark.slow

SMALL = ("all_reduce", 4096)
ONE = CollectiveTask(2, "fp32", (SMALL,), 0)


def ranks(of=None):
    """The ranks below a process, without the launcher."""
    found = []
    for process in psutil.Process(of).children(recursive=True):
        try:
            words = process.cmdline()
        except psutil.Error:
            continue
        if "measure.run.rank" in words and "torch.distributed.run" not in words:
            found.append(process)
    return found


class Signal:
    """A sign of life's reader that sends a signal to the second rank, once there are two."""

    def __init__(self, number):
        self.number, self.ranks = number, []

    def __call__(self):
        found = [] if self.ranks else ranks()
        if len(found) == 2:
            self.ranks = found
            second = max(found, key=lambda process: int(process.environ().get("RANK", 0)))
            second.send_signal(self.number)


def run(task, beat=lambda: None, call_limit_s=60.0):
    return task.run(devices.find("cpu"), Sampling(call_limit_s=call_limit_s), beat)


@pytest.mark.usefixtures("brief_rounds")
def test_a_run_times_collectives_and_steps_and_the_next_run_measures_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(group_storing, "SIZES", {"cpu": [4096]})
    monkeypatch.setitem(group_storing.PROCESSES, "cpu", (2,))
    words = "--device cpu --sections distributed --models helpers.small_network:network --training-batch-sizes 2"
    words += f" --variants eager --max-rounds 1 --data {tmp_path} --machine box"
    assert command.main(words.split()) == 0
    assert "prints 3 times of collectives and 2 of data-parallel steps" in capsys.readouterr().out
    box = MachineFolder(tmp_path, "box")
    rows = box.rows(CollectiveMeasurement)
    assert {(row.collective, row.message_byte) for row in rows} == {
        (name, 4096) for name in ("all_reduce", "all_gather", "reduce_scatter")
    }
    assert {row.status for row in rows} == {"ok"}
    assert all(row.latency_low_s <= row.latency_s <= row.latency_high_s for row in rows)
    assert {(row.threads, row.processes, row.backend) for row in rows} == {(max(1, os.cpu_count() // 2), 2, "gloo")}
    overlapped, alone = sorted(box.rows(DataParallelStep), key=lambda row: row.communication == "none")
    assert (overlapped.communication, alone.communication) == ("overlapped", "none")
    # Weights of a convolution of 3 channels to 8, 3 x 3, and of a linear layer of 8 x 14 x 14 to 10, with biases
    assert overlapped.gradient_byte == 4 * (8 * (3 * 3 * 3 + 1) + 10 * (8 * 14 * 14 + 1))
    assert command.main(words.split()) == 0
    assert "Nothing left to measure" in capsys.readouterr().out
    assert box.rows(CollectiveMeasurement) == rows
    assert command.main(["show", "--data", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("gloo") == 5


def test_a_killed_rank_is_named(tmp_path):
    beat = Signal(signal.SIGKILL)
    outcome = run(ONE, beat)
    assert isinstance(outcome, GroupFailure)
    assert (outcome.status, outcome.reason) == (
        "killed",
        "rank 1 of 2 was killed by signal 9; the next run tries again",
    )
    assert not any(process.is_running() for process in beat.ranks)


def test_a_rank_without_memory_costs_its_own_size_alone():
    huge = ("all_reduce", 2**50)
    outcome = run(CollectiveTask(2, "fp32", (SMALL, huge, ("all_reduce", 65536)), 0))
    assert (outcome.status, outcome.items) == ("oom", (huge,))
    assert "rank" in outcome.reason
    ((item, report),) = outcome.result.reports
    assert (item, report["latency_s"] > 0) == (SMALL, True)


def test_a_hung_rank_is_a_timeout_and_leaves_no_process(monkeypatch):
    monkeypatch.setattr(group, "END_LIMIT_S", 1.0)  # the launcher waits for the rank that is stopped
    beat = Signal(signal.SIGSTOP)
    outcome = run(ONE, beat, call_limit_s=5.0)
    assert (outcome.status, outcome.reason) == ("timeout", "2 processes gave no sign of life for 5 s")
    _, alive = psutil.wait_procs(beat.ranks, 10)
    assert alive == []


@pytest.mark.parametrize(
    ("launcher", "status", "reason"),
    [
        (["-m", "no_such_launcher"], "error", "No module named no_such_launcher"),
        (
            ["-c", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"],
            "killed",
            "torchrun was killed by signal 9",
        ),
        (["-c", "raise OSError('[Errno 98] Address already in use')"], "error", "torchrun found its port taken"),
        (["-c", "print('ready')"], "error", "torchrun ended with exit code 0: it printed nothing"),
    ],
)
def test_a_launcher_that_fails_is_one_reason_for_all(monkeypatch, launcher, status, reason):
    monkeypatch.setattr(group, "LAUNCHER", (sys.executable, *launcher))
    outcome = run(ONE)
    assert (outcome.status, outcome.items, outcome.result.reports) == (status, (SMALL,), ())
    assert reason in outcome.reason


PARENT = """
from measure.machine import devices
from measure.run.group_tasks import CollectiveTask
from measure.timing.sampling import Sampling

items = tuple(("all_reduce", 4096 * 2**(number % 8)) for number in range(200))
CollectiveTask(2, "fp32", items, 0).run(devices.find("cpu"), Sampling(), lambda: None)
"""


def test_the_ranks_end_with_a_killed_parent():
    with subprocess.Popen([sys.executable, "-c", PARENT]) as parent:
        ends = time.monotonic() + 120
        while len(children := ranks(parent.pid)) < 2 and time.monotonic() < ends:
            time.sleep(0.2)
        children = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
    assert len(children) >= 3  # the launcher and two ranks
    _, alive = psutil.wait_procs(children, 60)
    assert alive == []
