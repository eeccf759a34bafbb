"""One isolated process that does tasks one after another, and its parent's handle on it.

Whatever happens in it (no memory, a crash, a hang) is an outcome here, and the next task finds a fresh process.
"""

import logging
import logging.handlers
import os
import pickle
import signal
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from measure.errors import UserError, in_short, text_of
from measure.machine import devices
from measure.models.isolated import END_LIMIT_S, MOST_MESSAGE_BYTE, START_LIMIT_S, end_with_parent
from measure.run.processes import Fork, Processes, oom_kills
from measure.run.task import KILLED, Failure, Task
from measure.timing.sampling import Sampling

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Beat:
    """A sign of life."""


@dataclass(frozen=True)
class Answer:
    """The outcome of the task that the parent sent with this number."""

    number: int
    outcome: Any


class Stopped(Exception):  # noqa: N818 - an ending, not an error
    """A run has to end within a task, which has no outcome then and is left to be done."""


class BudgetSpent(Stopped):
    """The time that the user gave ran out."""


WANT_OF_MEMORY = (
    "out of memory", "can't allocate memory", "not enough memory", "cannot allocate memory",
    "status_alloc_failed", "unable to find an engine",
)  # fmt: skip
"""What libraries say where memory runs out; the last two are cuBLAS's and cuDNN's, which find no room to work in."""


def classify(problem: BaseException) -> Failure:
    """Return the status and reason of an exception, by what the libraries are known to say."""
    reason = in_short(problem)
    text = text_of(problem).lower()
    if isinstance(problem, MemoryError) or any(words in text for words in WANT_OF_MEMORY):
        return Failure("oom", reason)
    unsupported = ("not implemented for", "not supported", "unsupported")
    if isinstance(problem, NotImplementedError) or any(words in text for words in unsupported):
        return Failure("unsupported", reason)
    return Failure("error", reason)


class ToParent(logging.handlers.QueueHandler):
    """Sends what this process logs to its parent, which decides what to do with it."""

    def enqueue(self, record: logging.LogRecord) -> None:
        self.queue.send(record)  # type: ignore[attr-defined]


class Voice:
    """What the process sends through, from any of its threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def send(self, message: Any) -> None:
        with self._lock:
            self._connection.send(message)

    def beat(self) -> None:
        self.send(Beat())


def serve(connection: Connection, device_name: str, threads: int, sampling: Sampling, log_level: int) -> None:
    """Be the process's main function: answer each task with an outcome until its parent hangs up.

    What this package logs from ``log_level`` on goes to the parent.
    """
    own, voice = os.getpid(), Voice(connection)
    package_log = logging.getLogger("measure")
    package_log.setLevel(log_level)
    package_log.addHandler(ToParent(voice))  # type: ignore[arg-type]
    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        device = devices.find(device_name)
        device.prepare(threads)
        voice.beat()
        while True:
            number, task = connection.recv()
            try:
                outcome = task.run(device, sampling, voice.beat)
                if task.process(device.kind) is not None:
                    device.release_memory()
            except Exception as problem:  # a model may raise anything, and the next one must still run
                outcome = classify(problem)
            if os.getpid() != own:
                os._exit(0)  # a copy, which the model forked within its call
            voice.send(Answer(number, outcome))
    except (ConnectionError, EOFError):
        pass  # the parent is gone
    except UserError as problem:
        voice.send(problem)
    except Exception as problem:  # a driver may raise anything
        voice.send(UserError(f"--device {device_name}: could not be set up ({in_short(problem)}); name another"))


def needs_fresh(previous: Task | None, task: Task, outcome: Any, device_kind: str) -> bool:
    """Return whether a task needs another process than the one that did ``previous``, if any, with this outcome.

    Two rounds of a cell never share one: what a process draws by lot (where its memory lies) is no part of another's
    time. After a failure the process is left to nobody: some errors of a GPU stay with it, and fail whatever it does
    next.
    """
    shared = task.process(device_kind)
    if previous is None or shared is None or isinstance(outcome, Failure):
        return True
    return shared != previous.process(device_kind)


LEFT_S = 24 * 3600
"""A file that nobody wrote for so long was left by a run that was killed."""


def _log_file() -> Path:
    """Return a new file for what a process writes; those that runs which were killed left are removed."""
    for left in Path(tempfile.gettempdir()).glob("roofwright-*.log"):
        with suppress(OSError):  # another user's, or just removed by another run
            if time.time() - left.stat().st_mtime > LEFT_S:
                left.unlink()
    descriptor, name = tempfile.mkstemp(prefix="roofwright-", suffix=".log")
    os.close(descriptor)
    return Path(name)


class Worker:
    """The parent's handle: starts a process when a task needs a fresh one, and when the last has died."""

    def __init__(self, device_name: str, threads: int, sampling: Sampling) -> None:
        self._device_kind = device_name.partition(":")[0]
        self._call_limit_s = sampling.call_limit_s
        self._log = _log_file()
        log_level = logging.getLogger("measure").getEffectiveLevel()
        self._processes = Processes(serve, (device_name, threads, sampling, log_level), self._log)
        self._process: BaseProcess | Fork | None = None
        self._last: tuple[Task | None, Any] = (None, None)
        self._number = self._oom_kills = 0

    def run(self, task: Task, deadline: float | None = None) -> Any:
        """Return the outcome of a task: its result, or a Failure.

        Raises BudgetSpent when ``time.monotonic()`` passes the deadline, and UserError where the device cannot be set
        up.
        """
        self._oom_kills = oom_kills()
        with suppress(OSError):  # another run deletes logs that nobody has touched for a day
            os.utime(self._log)
        previous, outcome = self._last
        if needs_fresh(previous, task, outcome, self._device_kind) or not (self._process and self._process.is_alive()):
            self.stop()  # one that died between two tasks as well, such as for others' want of memory
        if self._process is None:
            self._start(task, deadline)
        self._number += 1
        with suppress(ConnectionError):  # it may have ended just now, which is read next
            self._connection.send((self._number, task))
        outcome = self._outcome(deadline)
        self._last = task, outcome
        return outcome

    def _outcome(self, deadline: float | None) -> Any:
        """Wait for the answer to the latest task; one to an earlier task is a late one of a process that forked."""
        while True:
            message = self._receive(self._call_limit_s, deadline)
            if isinstance(message, Failure):
                return message
            if isinstance(message, UserError):
                raise message
            if isinstance(message, Answer) and message.number == self._number:
                return message.outcome

    def _start(self, task: Task, deadline: float | None) -> None:
        began = time.monotonic()
        self._process, self._connection = self._processes.begin(task)
        message = self._receive(START_LIMIT_S, deadline)
        if isinstance(message, Beat):
            _log.info("process %s is ready after %.1f s", self._process.pid, time.monotonic() - began)
            return
        self.stop()
        if isinstance(message, UserError):
            raise message
        why = message.reason if isinstance(message, Failure) else f"it said {message!r}"
        raise UserError(f"the measuring process did not start: {why}; see that torch imports")

    def _receive(self, limit_s: float, deadline: float | None) -> Any:
        """Return what the process says next, but for its log; a Failure where that is nothing, or no message."""
        silence_ends = time.monotonic() + limit_s
        ends = min(silence_ends, deadline) if deadline is not None else silence_ends
        while self._connection.poll(max(0.0, ends - time.monotonic())):
            try:
                content = self._connection.recv_bytes(MOST_MESSAGE_BYTE)
            except (EOFError, OSError):  # its end, or no message
                return self._death()
            try:
                message = pickle.loads(content)
            except Exception as problem:  # a model may write into any file, and what it wrote may raise anything
                self.stop()
                return Failure("error", f"what came through the process's pipe cannot be read ({in_short(problem)})")
            if not isinstance(message, logging.LogRecord):
                return message
            logging.getLogger(message.name).handle(message)
        self.stop()
        if ends < silence_ends:
            raise BudgetSpent
        return Failure("timeout", f"one call took longer than {limit_s:g} s")

    def _death(self) -> Failure:
        assert self._process is not None
        self._process.join(END_LIMIT_S)
        if self._process.is_alive():
            self.stop()
            return Failure("error", "the process closed its pipe, or wrote into it what cannot be read")
        code = self._process.exitcode or 0
        _log.info("process %s died with exit code %d", self._process.pid, code)
        self._process = None
        if code == -signal.SIGKILL:
            if oom_kills() == self._oom_kills:
                return KILLED
            return Failure("oom", "the system killed the process (signal 9) for want of memory")
        last = []
        with suppress(OSError):
            last = self._log.read_text(errors="replace").strip().splitlines()[-1:]
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return Failure("error", f"the process ended {how}" + (f": {last[0]}" if last else ""))

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            _log.info("the measuring process is ended")
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def close(self) -> None:
        self.stop()
        self._processes.close()
        self._log.unlink(missing_ok=True)
