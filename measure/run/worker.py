"""Runs tasks and own models in isolated processes: lack of memory, a crash or a hang is an outcome; work goes on."""

import dis
import logging
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from logging.handlers import QueueHandler
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from measure.domain.models import Model
from measure.errors import UserError, in_short, text_of
from measure.machine import devices
from measure.models import identity, own_models
from measure.models.own_models import BrokenModelError, RaisedError
from measure.run.processes import FORKS, START_LIMIT_S, EndedError, IsolatedProcess, Processes, oom_kills
from measure.run.tasks import KILLED, Failure, Task
from measure.timing.sampling import Sampling

_log = logging.getLogger(__name__)


class BudgetSpent(Exception):  # noqa: N818 - an ending, not an error
    """The user's budget ran out within a task. The task has no outcome and is left to be done."""


PHRASES = {  # libraries' phrases for each status
    "oom": (
        "out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory",
        "status_alloc_failed",  # cuBLAS and cuDNN
    ),
    "unsupported": ("not implemented for", "not supported", "unsupported", "does not support"),
}  # fmt: skip
FULL = 0.1  # the free share of a GPU's memory below which cuDNN lacks room for a workspace
NO_ENGINE = "unable to find an engine"  # cuDNN's, for want of memory, or of kernels for a type or layout
NO_KERNEL = re.compile(r"Could not run '(?:aten::)?_?([\w:.]+)' with arguments from the '(\w+)' backend")
NO_BACKWARD = re.compile(r"(FlexAttention) does not support backward on (\w+)")


def classify(problem: BaseException) -> Failure:
    """Map an exception to a run status and a reason: by its type, or by its text if torch raised it."""
    text, reason = text_of(problem), in_short(problem)
    if missing := NO_KERNEL.search(text) or NO_BACKWARD.search(text):
        kernel = f"torch has no kernel of {missing[1]} for {missing[2]}"
        reason = f"{kernel}: its FLOP and bytes are counted, its time needs a device that has one"
    lowered = text.lower() if isinstance(problem, RuntimeError) and _is_of_torch(problem) else ""
    for status, kind in (("oom", MemoryError), ("unsupported", NotImplementedError)):
        if isinstance(problem, kind) or any(phrase in lowered for phrase in PHRASES[status]):
            return Failure(status, reason)
    if NO_ENGINE in lowered:
        import torch

        free_byte, whole_byte = torch.cuda.mem_get_info()
        return Failure("oom" if free_byte < FULL * whole_byte else "unsupported", reason)
    return Failure("error", reason)


def _is_of_torch(problem: BaseException) -> bool:
    """Return whether torch raised an exception: of a class of its own, in C++, or by a ``raise`` of its own Python."""
    if type(problem).__module__.partition(".")[0] == "torch":
        return True
    place = problem.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    if place is None:  # from another process
        return True
    is_raised = place.tb_frame.f_code.co_code[place.tb_lasti] == dis.opmap["RAISE_VARARGS"]
    return not is_raised or str(place.tb_frame.f_globals.get("__name__")).startswith(("torch.", "triton."))


class Channel:
    """Sends from any thread of the process: outcomes in tuples, None as a sign of life, log records, UserErrors."""

    def __init__(self, connection: Connection) -> None:
        self._connection, self._lock = connection, threading.Lock()

    def put_nowait(self, message: Any = None) -> None:
        with self._lock:
            self._connection.send(message)


def _end_with(parent: BaseProcess) -> None:
    """Exit when the parent dies, even inside a blocking call. A hung worker would otherwise live forever."""
    parent.join()
    os._exit(1)


def serve(connection: Connection, device_name: str, threads: int, sampling: Sampling, log_level: int) -> None:
    """Be a worker's process: answer each task with an outcome, and send log records, until the parent hangs up."""
    own_pid = os.getpid()
    channel = Channel(connection)
    package_log = logging.getLogger("measure")
    package_log.setLevel(log_level)
    package_log.addHandler(QueueHandler(channel))  # type: ignore[arg-type]
    threading.Thread(target=_end_with, args=(parent_process(),), daemon=True).start()
    try:
        device = devices.find(device_name)
        device.prepare(threads)
        channel.put_nowait((device.facts(),))
        while True:
            task = connection.recv()
            try:
                outcome = task.run(device, sampling, channel.put_nowait)
                if task.process(device.kind) is not None:
                    device.release_memory()
            except Exception as problem:  # a model may raise anything, and the next one must still run
                outcome = classify(problem)
            if os.getpid() != own_pid:
                os._exit(0)  # a copy, which the model forked within its call
            channel.put_nowait((outcome,))
    except (ConnectionError, EOFError):
        pass  # the parent is gone
    except UserError as problem:
        channel.put_nowait(problem)
    except Exception as problem:  # a driver may raise anything
        why = f"could not be set up ({in_short(problem)}); see that torch imports, or name another"
        channel.put_nowait(UserError(f"--device {device_name}: {why}"))


def needs_fresh(previous: Task | None, task: Task, device_kind: str) -> bool:
    """Return whether a task needs another process than ``previous`` had.

    Two rounds of a cell never share one: the random addresses of one round would be in both times.
    """
    shared = task.process(device_kind)
    return previous is None or shared is None or shared != previous.process(device_kind)


def _make_log() -> Path:
    """Make a file for the output of processes. Remove the files of killed runs."""
    for old in Path(tempfile.gettempdir()).glob("roofwright-*-*.log"):
        if FORKS and not Path("/proc", old.name.split("-")[1]).exists():
            with suppress(OSError):  # another user's, or one that has just gone
                old.unlink()
    with tempfile.NamedTemporaryFile(prefix=f"roofwright-{os.getpid()}-", suffix=".log", delete=False) as log:
        return Path(log.name)


class Worker:
    """Runs tasks one after another, in the same process as long as that is allowed and alive."""

    def __init__(self, device_name: str, threads: int, sampling: Sampling) -> None:
        self._device_kind = device_name.partition(":")[0]
        self._call_limit_s = sampling.call_limit_s
        self._log = _make_log()
        log_level = logging.getLogger("measure").getEffectiveLevel()
        self._processes = Processes(self._log, serve, device_name, threads, sampling, log_level)
        self._isolated: IsolatedProcess | None = None
        self._previous: Task | None = None
        self._oom_kills = 0
        self.facts: dict[str, Any] = {}  # ``Device.facts``, from the first process on

    def run(self, task: Task, deadline: float | None = None) -> Any:
        """Return the outcome of a task: its result, or a Failure.

        Raises BudgetSpent when ``time.monotonic()`` passes the deadline, and UserError if the device cannot be set up.
        """
        self._oom_kills = oom_kills()
        is_alive = self._isolated is not None and self._isolated.process.exitcode is None
        if not is_alive or needs_fresh(self._previous, task, self._device_kind):
            self.stop()
            self._isolated = self._processes.begin(task)
            message = self._receive(START_LIMIT_S, deadline)
            if message == KILLED:
                return message  # this task's outcome alone: the next one starts another process
            if isinstance(message, Failure):
                raise UserError(f"the measuring process did not start: {message.reason}; see that torch imports")
            (self.facts,) = message
            _log.info("process %s is ready", self._isolated.process.pid)
        assert self._isolated is not None
        self._isolated.send(task)
        message = None
        while message is None:
            message = self._receive(self._call_limit_s, deadline)
        outcome = message if isinstance(message, Failure) else message[0]
        if isinstance(outcome, Failure):  # some errors of a GPU stay with a process and fail whatever it does next
            self.stop()
        self._previous = task
        return outcome

    def _receive(self, limit_s: float, deadline: float | None) -> Any:
        """Return the next message, or a Failure in place of one. Log records are logged here, a UserError is raised."""
        assert self._isolated is not None
        silence_ends = time.monotonic() + limit_s
        ends = min(silence_ends, deadline) if deadline is not None else silence_ends
        try:
            while True:
                message = self._isolated.receive(max(0.0, ends - time.monotonic()))
                if isinstance(message, UserError):
                    raise message
                if not isinstance(message, logging.LogRecord):
                    return message
                logging.getLogger(message.name).handle(message)
        except TimeoutError:
            self._isolated = None
            if ends < silence_ends:
                raise BudgetSpent from None
            return Failure("timeout", f"one call took longer than {limit_s:g} s")
        except EndedError as problem:
            self._isolated = None
            if problem.code in (-1, -signal.SIGTERM):  # SIGHUP, SIGTERM: by a batch system, or a guard of the memory
                return KILLED
            if problem.code == -9:  # SIGKILL, which Windows does not have
                if oom_kills() == self._oom_kills:
                    return KILLED
                return Failure("oom", "the system killed the process (signal 9) for want of memory")
            last = self._log.read_text(errors="replace").strip().splitlines()[-1:] if self._log.exists() else []
            return Failure("error", ": ".join([f"a call {problem}", *last]))

    def stop(self) -> None:
        if self._isolated is not None:
            self._isolated.end()
            self._isolated = None

    def close(self) -> None:
        try:
            self.stop()
            self._processes.close()
        finally:  # a second Ctrl-C may come
            self._log.unlink(missing_ok=True)


@dataclass(frozen=True)
class FunctionCall(Task):
    """A call of a function, which may run a user's own code."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def run(self, *_: object) -> Any:
        """Return the function's value, or the exception to raise in the parent."""
        try:
            return self.function(*self.arguments)
        except UserError as problem:
            return problem
        except Exception as problem:  # own code may raise anything
            return RaisedError(in_short(problem))


class IsolatedCalls(Worker):
    """Calls functions that run a user's own code, in a process. Each call may take ``limit_s``."""

    def __init__(self, limit_s: float) -> None:
        super().__init__("cpu", 1, Sampling(call_limit_s=limit_s))

    def describe(self, name: str) -> Model:
        return self.call(name, identity.describe, name)

    def match(self, pattern: str) -> list[str]:
        """Return the names of own models that a name or a glob selects."""
        is_glob = any(mark in pattern for mark in "*?[")
        return self.call(pattern, own_models.match, pattern) if is_glob else [pattern]

    def call(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function that runs the code of the own model ``name``, and return its value.

        Raises RaisedError for the function's exceptions, and UserError if it takes too long or ends its process.
        """
        answer = self.run(FunctionCall(function, arguments))
        if answer == KILLED:  # not by its own code, most likely; nothing was begun that could go on without it
            answer = self.run(FunctionCall(function, arguments))
        if isinstance(answer, Failure):
            remedy = "fix it, or give measuring a longer --call-limit"
            raise BrokenModelError(f"--models: {name}: {answer.reason}; {remedy}")
        if isinstance(answer, UserError | RaisedError):
            raise answer
        return answer
