import dataclasses
import logging
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from helpers.places import ROOT
from helpers.processes import has_ended, wait_until
from helpers.tasks import changed, inference_task, profile_task, training_task

from measure.errors import UserError
from measure.models import catalog
from measure.run import worker
from measure.run.processes import IsolatedProcess
from measure.run.sections import RoofTask, WorkloadTask
from measure.run.task import KILLED, Failure
from measure.run.worker import BudgetSpent, Channel, Worker, classify, needs_fresh
from measure.timing.sampling import Sampling
from measure.verbs.measure import make_sampling, parser

pytest.importorskip("torch", reason="a worker measures with torch")
pytest.importorskip("torchvision", reason="the models are torchvision's")
psutil = pytest.importorskip("psutil", reason="a process that ended is told from one that runs by psutil")
SQUEEZENET = catalog.find(["squeezenet1_0"])[0]
COUNT = WorkloadTask(SQUEEZENET, (1,), "fp32", None)
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("forked_workers")]
QUICK = Sampling(warm_up_s=0.1, least_s=0.1, limit_s=0.2)


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (MemoryError("no"), "oom"),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "oom"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "oom"),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), "oom"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "oom"),
        (RuntimeError("GET was unable to find an engine to execute this computation"), "oom"),
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
def process(forked_workers):
    process = Worker("cpu", 1, QUICK)
    yield process
    process.close()


def pid_of(worker):
    return worker._isolated.process.pid


def begin_anew(process):
    """Have what is forked next told where modules are now."""
    process.stop()
    process._processes.close()


def test_a_result_comes_back(process):
    (count,) = process.run(COUNT)
    assert count.workload.parameter_count == 1_248_424  # torchvision's published count


def test_a_model_of_ones_own_is_found_in_the_process_too(process):
    (pair,) = catalog.find(["examples.transformer:pair"])
    (count,) = process.run(WorkloadTask(pair, (1,), "fp32", None))
    # One trunk and one embedding for both texts; the head takes three times their width.
    block = 12 * 256 * 256 + 13 * 256
    assert count.workload.parameter_count == (8192 + 128) * 256 + 4 * block + 2 * 256 + (3 * 256 + 1) * 12


def test_a_model_that_reads_a_value_as_it_is_made_is_counted_and_timed(process, monkeypatch, tmp_path):
    (tmp_path / "by_values.py").write_text(
        "import torch\n"
        "def network(batch_size):\n"
        "    width = int(torch.full((1,), 3.0).item())\n"
        "    return torch.nn.Linear(width, 2), torch.ones(batch_size, width)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    begin_anew(process)
    (model,) = catalog.find(["by_values:network"])
    (counted,) = process.run(WorkloadTask(model, (1,), "fp32", None))
    assert counted.workload.forward_flop == 2 * 3 * 2  # one row of 3 by 3 x 2
    assert min(process.run(inference_task(model, 2, "fp32", "eager", 0)).latencies_s) > 0


def test_a_batch_that_fits_nowhere_is_out_of_memory_and_the_next_task_runs(process):
    # 10^8 images of 3 * 224 * 224 * 4 bytes are 60 TB.
    failure = process.run(inference_task(SQUEEZENET, 10**8, "fp32", "eager", 0))
    assert isinstance(failure, Failure)
    assert failure.status == "oom"
    assert isinstance(process.run(COUNT), list)


@pytest.mark.parametrize(
    ("number", "counted", "status", "words"),
    [
        (signal.SIGKILL, (3, 4), "oom", "signal 9"),
        (signal.SIGKILL, (3, 3), KILLED.status, KILLED.reason),
        (signal.SIGSEGV, (3, 4), "error", "signal 11"),
    ],
)
def test_a_process_that_dies_is_an_outcome_and_the_next_task_finds_a_fresh_one(
    process, monkeypatch, number, counted, status, words
):
    kills = iter(counted)  # for want of memory: before the task, and when its process has died
    monkeypatch.setattr(worker, "oom_kills", lambda: next(kills))
    victims, send = [], IsolatedProcess.send

    def send_and_kill(isolated, task):
        send(isolated, task)
        victims.append(isolated.process.pid)
        os.kill(victims[0], number)

    monkeypatch.setattr(IsolatedProcess, "send", send_and_kill)
    failure = process.run(inference_task(SQUEEZENET, 64, "fp32", "eager", 0))
    assert failure.status == status
    assert words in failure.reason
    monkeypatch.undo()
    assert isinstance(process.run(COUNT), list)
    assert pid_of(process) not in victims


def test_counts_share_a_process_and_a_failed_task_leaves_its_own_to_nobody(process, own):
    task = WorkloadTask(own("raise ValueError"), (1,), "fp32", None)
    process.run(COUNT)
    before = pid_of(process)
    assert isinstance(process.run(task), Failure)
    assert isinstance(process.run(COUNT), list)
    assert pid_of(process) != before


OWN = """
import os, stat
from contextlib import suppress

import torch


class Mute(Exception):
    def __str__(self):
        raise ValueError


def into_the_pipe(content):
    for each in map(int, os.listdir("/proc/self/fd")):
        with suppress(OSError):
            if stat.S_ISSOCK(os.fstat(each).st_mode):
                os.write(each, content)
    os._exit(3)


class Network(torch.nn.Linear):
    calls = 0

    def forward(self, numbers):
        Network.calls += 1
        {does}
        return super().forward(numbers)


def network(batch_size):
    return Network(3, 2), torch.ones(batch_size, 3)
"""


@pytest.fixture
def own(process, monkeypatch, tmp_path):
    """A model of one's own whose network does something in its call."""

    def made(does):
        name = f"own_{tmp_path.name}"  # another module in each test: this process keeps what it has imported
        (tmp_path / f"{name}.py").write_text(OWN.format(does=does))
        (model,) = catalog.find([f"{name}:network"])
        return model

    monkeypatch.syspath_prepend(tmp_path)
    begin_anew(process)
    return made


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        ("raise Mute", "Mute: its text cannot be read"),
        ("raise ValueError('half a letter: \\ud800')", "ValueError: half a letter: \N{REPLACEMENT CHARACTER}"),
        ("raise ValueError(10**7 * 'x')", f"ValueError: {487 * 'x'}…"),
    ],
)
def test_whatever_a_model_raises_is_an_outcome(process, own, does, reason):
    failure = process.run(inference_task(own(does), 1, "fp32", "eager", 0))
    assert failure == Failure("error", reason)
    assert isinstance(process.run(COUNT), list)


@pytest.mark.parametrize("content", [b"\0\0\0\4junk", b"a library's own words\n", b"\0\0\0\0", b"\xff\xff\xff\0"])
def test_bytes_that_are_no_message_are_an_outcome_and_the_next_task_runs(process, own, content):
    failure = process.run(inference_task(own(f"into_the_pipe({content!r})"), 1, "fp32", "eager", 0))
    assert failure.status == "error"
    assert isinstance(process.run(COUNT), list)


def test_the_copy_that_a_model_forks_does_no_task_and_answers_none(process, own, tmp_path):
    pid = tmp_path / "pid"
    fork = f"(Network.calls == 1) and (os.fork() or open({str(pid)!r}, 'w').write(str(os.getpid())))"
    assert len(process.run(WorkloadTask(own(fork), (1,), "fp32", None))) == 1
    counts = [process.run(COUNT) for _ in range(2)]
    assert [count.workload.model for (count,) in counts] == ["squeezenet1_0"] * 2
    wait_until(lambda: pid.exists() and pid.read_text() and has_ended(int(pid.read_text())))


def test_a_process_that_dies_between_two_tasks_is_started_again(process):
    process.run(COUNT)
    os.kill(pid_of(process), signal.SIGKILL)
    process._isolated.process.join()
    (count,) = process.run(COUNT)
    assert count.workload.status == "ok"


def test_a_call_without_a_sign_of_life_is_a_timeout(process, monkeypatch):
    process.run(COUNT)
    monkeypatch.setattr(process, "_call_limit_s", 0.0)
    assert process.run(inference_task(SQUEEZENET, 64, "fp32", "eager", 0)) == Failure(
        "timeout", "one call took longer than 0 s"
    )


@pytest.mark.parametrize(("asked", "limit_s"), [((), 60.0), (("--call-limit", "5m"), 300.0)])
def test_how_long_a_call_may_take_is_what_was_asked_for(asked, limit_s):
    process = Worker("cpu", 1, make_sampling(parser().parse_args(list(asked))))
    assert process._call_limit_s == limit_s
    process.close()


def test_the_end_of_the_budget_gives_the_task_up(process):
    process.run(COUNT)
    with pytest.raises(BudgetSpent):
        process.run(inference_task(SQUEEZENET, 64, "fp32", "eager", 0), deadline=time.monotonic() + 0.2)


class Beating:
    """A connection over which signs of life come and never an outcome; waiting for one moves the hands of a clock."""

    def __init__(self, every_s):
        self.now = 0.0
        self._every_s = every_s

    def send(self, _task):
        pass

    def poll(self, timeout):
        self.now += min(timeout, self._every_s)
        return self._every_s <= timeout

    def recv_bytes(self, _most):
        return pickle.dumps(None)

    def close(self):
        pass


@pytest.mark.parametrize(
    ("every_s", "spent_s"),
    [
        (7.0, 1000.0),  # 142 beats, the last at 994 s, and the budget ends at 1000
        (59.0, 1000.0),
        (61.0, 60.0),  # silent for longer than a call may take
    ],
)
def test_a_task_is_given_up_at_its_budgets_end_and_not_at_the_next_sign_of_life(monkeypatch, every_s, spent_s):
    connection, ended = Beating(every_s), []
    process = Worker("cpu", 1, Sampling())
    alive = SimpleNamespace(exitcode=None, kill=lambda: ended.append(connection.now), join=lambda: None, pid=None)
    process._isolated, process._previous = IsolatedProcess(alive, connection), COUNT
    monkeypatch.setattr(worker, "time", SimpleNamespace(monotonic=lambda: connection.now))
    if spent_s == 60.0:
        assert process.run(COUNT, deadline=1000.0).status == "timeout"
    else:
        with pytest.raises(BudgetSpent):
            process.run(COUNT, deadline=1000.0)
    assert ended == [spent_s]
    process.close()


def test_threads_of_the_process_speak_one_after_another():
    speaking, most = [], []

    def send(message):
        speaking.append(message)
        most.append(len(speaking))
        time.sleep(0.001)
        speaking.pop()

    channel = Channel(SimpleNamespace(send=send))
    threads = [threading.Thread(target=lambda: [channel.put_nowait() for _ in range(20)]) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(most), max(most)) == (60, 1)


def test_a_log_that_was_deleted_is_made_again(process):
    process._log.unlink()
    begin_anew(process)
    assert isinstance(process.run(COUNT), list)
    assert process._log.exists()


def test_what_the_process_logs_comes_to_its_parent_and_only_where_it_is_wanted(caplog):
    quick = inference_task(SQUEEZENET, 1, "fp32", "eager", 0)
    for level, names in ((logging.INFO, {"measure.run.worker", "measure.timing.sampling"}), (logging.WARNING, set())):
        with caplog.at_level(level, "measure"):
            process = Worker("cpu", 1, QUICK)
            assert process.run(quick).samples
            process.close()
        assert {record.name for record in caplog.records} == names
        caplog.clear()


HANGING = """
import os, sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from measure.machine import devices
from measure.models import catalog
from measure.run import worker
from measure.run.sections import WorkloadTask
from measure.timing.sampling import Sampling


def hang(*_):
    Path(sys.argv[1]).write_text(f"{os.getpid()}\\n")
    time.sleep(600)


WorkloadTask.run = hang  # in the worker too: it runs this file as well
devices.Cpu.prepare = lambda *_: None

if __name__ == "__main__":
    task = WorkloadTask(catalog.find(["alexnet"])[0], (1,), "fp32", None)
    worker.Worker("cpu", 1, Sampling()).run(task)
"""


def test_cells_on_a_gpu_share_a_process_by_model_precision_variant_and_round():
    first = inference_task(SQUEEZENET, 1, "fp32", "eager", 0)
    (alexnet,) = catalog.find(["alexnet"])
    for second in (changed(first, batch=64), training_task(SQUEEZENET, 32, "fp32", "eager", 0)):
        assert not needs_fresh(first, second, "cuda")
        for kind in ("cpu", "mps"):  # a process begins at once there, and what is in its memory counts for more
            assert needs_fresh(first, second, kind)
    others = [
        changed(first, 1),
        changed(first, precision="fp16"),
        changed(first, variant="channels_last"),
        inference_task(alexnet, 1, "fp32", "eager", 0),
        profile_task(SQUEEZENET, 1, "fp32", "eager", "inference"),
        COUNT,
    ]
    assert all(needs_fresh(first, other, "cuda") for other in others)


@pytest.mark.parametrize("variant", ["compile", "channels_last+cudnn_benchmark"])
def test_what_a_first_call_sets_up_for_one_batch_size_is_no_other_ones(variant):
    first = inference_task(SQUEEZENET, 1, "fp32", variant, 0)
    assert needs_fresh(first, changed(first, batch=64), "cuda")


def test_counts_share_a_process_and_so_do_the_roofs_of_a_block():
    roofs = [RoofTask("stream_read", "fp64", 2**30, "sustained", number) for number in (0, 0, 1)]
    for kind in ("cpu", "cuda"):
        assert needs_fresh(None, COUNT, kind)
        assert not needs_fresh(COUNT, COUNT, kind)
        assert needs_fresh(COUNT, roofs[0], kind)
        assert not needs_fresh(roofs[0], roofs[1], kind)
        assert needs_fresh(roofs[1], roofs[2], kind)


def test_a_worker_ends_with_its_parent_even_within_a_call(tmp_path):
    script, within = tmp_path / "hanging.py", tmp_path / "pid"
    script.write_text(HANGING)
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    root = ROOT
    with subprocess.Popen([sys.executable, script, within, root], env=environment) as parent:
        wait_until(lambda: within.exists() and within.read_text().endswith("\n"))
        pid = int(within.read_text())
        above = psutil.Process(pid).ppid()  # what it is forked from, where it is
        assert not has_ended(pid)
        parent.kill()
    wait_until(lambda: has_ended(pid) and (above == parent.pid or has_ended(above)))


def test_a_device_that_cannot_be_set_up_is_one_sentence():
    process = Worker("cuda:99", 1, Sampling())
    with pytest.raises(UserError, match="there is no cuda:99 on this machine"):
        process.run(COUNT)
    process.close()


def test_each_round_of_a_cell_has_a_process_of_its_own(process):
    quick = inference_task(SQUEEZENET, 1, "fp32", "eager", 0)
    process.run(COUNT)
    shared = pid_of(process)
    process.run(quick)
    first = pid_of(process)
    process.run(dataclasses.replace(quick, round=1))
    assert len({shared, first, pid_of(process)}) == 3


def test_a_training_step_comes_back_with_its_stages(process):
    outcome = process.run(training_task(SQUEEZENET, 1, "fp32", "eager", 0))
    assert list(outcome.stages) == ["forward", "backward", "update"]
    assert min(min(timing.latencies_s) for timing in (outcome, *outcome.stages.values())) > 0
    assert outcome.peak_byte > 2 * 4 * 1_248_424  # weights and momentum
    shared = pid_of(process)
    process.run(COUNT)
    assert pid_of(process) != shared


def test_a_network_that_cannot_be_trained_is_an_outcome(process):
    # A detector asks for the boxes of objects in train mode.
    (detector,) = catalog.find(["torchvision:ssdlite320_mobilenet_v3_large"])
    failure = process.run(training_task(detector, 1, "fp32", "eager", 0))
    assert failure.status == "error"
    assert "targets" in failure.reason


def test_a_profile_has_a_process_of_its_own_and_its_operators_come_back(process):
    task = profile_task(SQUEEZENET, 1, "fp32", "eager", "inference")
    process.run(changed(task, variant="compile"))
    process.run(COUNT)
    before = pid_of(process)
    profiled = process.run(task)
    assert pid_of(process) != before
    own = [each for each in profiled.operators if each.operator == "conv2d"]
    assert len({each.path for each in own}) == len(own) == 26  # SqueezeNet's convolutions
