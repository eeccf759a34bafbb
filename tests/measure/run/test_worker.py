"""The outcomes of exceptions and silence, and the tasks that share a process."""

import pickle
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from helpers.cells import changed, inference_task, profile_task

from measure.models import catalog
from measure.run import processes, worker
from measure.run.processes import IsolatedProcess
from measure.run.tasks import RoofTask, WorkloadTask
from measure.run.worker import BudgetSpent, Channel, Worker, classify, needs_fresh
from measure.verbs.run_flags import make_sampling, parser

ALEXNET, SQUEEZENET = catalog.find(["alexnet", "squeezenet1_0"])
COUNT = WorkloadTask(SQUEEZENET, (1,), "fp32", None)
CELL = inference_task(SQUEEZENET, 1, "fp32", "eager", 0)
LARGE = changed(CELL, batch=64)


@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (MemoryError("no"), "oom"), (RuntimeError("CUDA out of memory. Tried to allocate 2.00 GiB"), "oom"),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"), "oom"),
        (RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"), "oom"),
        (RuntimeError("\"slow_conv2d_cpu\" not implemented for 'Half'"), "unsupported"),
        (NotImplementedError("aten::thing"), "unsupported"),
        (ValueError("first line\nsecond line"), "error"), (RuntimeError(), "error"),
        (ValueError("padding mode 'foo' is not supported"), "error"), (KeyError("out of memory"), "error"),
    ],
)  # fmt: skip
def test_exceptions_become_statuses(problem, status):
    failure = classify(problem)
    assert failure.status == status
    assert failure.reason.startswith(type(problem).__name__)
    assert "\n" not in failure.reason


def raised(call):
    with pytest.raises(Exception) as caught:  # noqa: PT011 - of any kind
        call()
    return classify(caught.value)


def test_a_status_follows_torchs_words_and_not_a_users():
    def refuse():
        raise RuntimeError("padding mode 'foo' is not supported")

    assert raised(refuse).status == "error"
    assert raised(lambda: torch.linalg.qr(torch.rand(2, 2, dtype=torch.half))).status == "unsupported"
    sparse = torch.nn.Embedding(4, 2, sparse=True)
    sparse(torch.tensor([1])).sum().backward()
    assert raised(torch.optim.Adam(sparse.parameters()).step).status == "unsupported"


@pytest.mark.parametrize(("free_byte", "status"), [(2**20, "oom"), (2**33, "unsupported")])
def test_cudnn_lacks_an_engine_for_memory_only_on_a_full_gpu(monkeypatch, free_byte, status):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (free_byte, 2**34))
    assert classify(RuntimeError("GET was unable to find an engine to execute this computation")).status == status


def test_a_kernel_that_a_processor_lacks_gives_its_reason():
    from torch.nn.attention.flex_attention import flex_attention

    ends = "for CPU: its FLOP and bytes are counted, its time needs a device that has one"
    lacks = "Could not run 'aten::_flash_attention_forward' with arguments from the 'CPU' backend. This could be"
    failure = classify(NotImplementedError(lacks))  # as varlen_attn raises it
    assert (failure.status, failure.reason) == ("unsupported", f"torch has no kernel of flash_attention_forward {ends}")
    query = torch.rand(1, 2, 128, 16, requires_grad=True)
    failure = raised(lambda: flex_attention(query, query, query))
    assert (failure.status, failure.reason) == ("unsupported", f"torch has no kernel of FlexAttention {ends}")


ROOFS = [RoofTask("stream_read", "fp64", 2**30, "sustained", number) for number in (0, 0, 1)]
TUNED = changed(CELL, variant="channels_last+cudnn_benchmark")


@pytest.mark.parametrize(
    ("first", "second", "fresh_on"),
    [
        (None, COUNT, "cpu cuda mps"),
        (COUNT, ROOFS[0], "cpu cuda mps"),
        (ROOFS[0], ROOFS[1], ""),
        (ROOFS[1], ROOFS[2], "cpu cuda mps"),  # another round
        # On a GPU a process takes seconds to begin; elsewhere the state of its memory matters more.
        (CELL, LARGE, "cpu mps"),
        (CELL, changed(CELL, 1), "cpu cuda mps"),
        (CELL, changed(CELL, precision="fp16"), "cpu cuda mps"),
        (CELL, inference_task(ALEXNET, 1, "fp32", "eager", 0), "cpu cuda mps"),
        (CELL, profile_task(SQUEEZENET, 1, "fp32", "eager", "inference"), "cpu cuda mps"),
        # A first call sets one batch size up.
        (TUNED, changed(TUNED, batch=64), "cpu cuda mps"),
    ],
)
def test_tasks_that_need_a_fresh_process(first, second, fresh_on):
    assert [kind for kind in ("cpu", "cuda", "mps") if needs_fresh(first, second, kind)] == fresh_on.split()


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


class Beating:
    """A connection over which signs of life come and never an outcome; waiting for one moves the hands of a clock."""

    def __init__(self, every_s):
        self.now, self._every_s, self._has_message = 0.0, every_s, False
        self.send = self.close = lambda *_: None

    def poll(self):
        return self._has_message

    def wait(self, _objects, timeout):
        self.now += min(timeout, self._every_s)
        self._has_message = self._every_s <= timeout

    def recv_bytes(self, _most):
        self._has_message = False
        return pickle.dumps(None)


@pytest.mark.parametrize(
    ("every_s", "limit", "spent_s"),
    [
        (7.0, "60s", 1000.0),  # 142 beats, the last at 994 s, and the budget ends at 1000
        (61.0, "60s", 60.0),  # silent for longer than a call may take
        (61.0, "2m", 1000.0),
    ],
)
def test_a_task_is_given_up_at_the_end_of_its_budget(monkeypatch, every_s, limit, spent_s):
    connection, ended = Beating(every_s), []
    process = Worker("cpu", 1, make_sampling(parser().parse_args(["--call-limit", limit])))
    alive = SimpleNamespace(
        exitcode=None, kill=lambda: ended.append(connection.now), join=lambda: None, pid=None, sentinel=None
    )
    process._isolated, process._previous = IsolatedProcess(alive, connection), COUNT
    for module in (worker, processes):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: connection.now))
    monkeypatch.setattr(processes, "wait", connection.wait)
    with nullcontext() if spent_s == 60.0 else pytest.raises(BudgetSpent):
        assert process.run(COUNT, deadline=1000.0).status == "timeout"
    assert ended == [spent_s]
    process.close()
