"""Starts the processes that run tasks: forks of a fork server on Linux, fresh processes elsewhere.

Importing torch and a library of models takes seconds, a fork milliseconds. The fork server uses no device and runs no
operator: neither a driver's state nor a library's threads survive a fork.
"""

import gc
import multiprocessing
import os
import pickle
import platform
import re
import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.machine.processor import content_of
from measure.models.libraries import import_package

if TYPE_CHECKING:
    from measure.run.tasks import Task

FORKS = platform.system() == "Linux"  # Windows cannot fork, and macOS's libraries do not survive it
START_LIMIT_S, END_LIMIT_S = 300.0, 10.0  # for importing torch from a slow disk, and to end after the pipe has closed
ENDS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} if FORKS else set[signal.Signals]()
"""The signals that end a measurement as Ctrl-C does."""

SPAWN = multiprocessing.get_context("spawn")
MOST_MESSAGE_BYTE = 2**27  # more than any message has; a text in the pipe, read as a length, has more


def origin(task: "Task") -> tuple[int, frozenset[tuple[str, str]]]:
    """Return a task's block and variables. Processes of tasks with equal ones are forked from one server."""
    return max(task.block, 0), frozenset(task.variables.items())  # counts and roofs share the import of round 1


class EndedError(Exception):
    """A process ended, with the exit code ``code``; None if it closed its pipe and lived on."""

    def __init__(self, code: int | None) -> None:
        how = f"ended its process {f'by signal {-code}' if code and code < 0 else f'with exit code {code}'}"
        super().__init__("closed the pipe of its process, or wrote into it" if code is None else how)
        self.code = code


@dataclass(frozen=True)
class IsolatedProcess:
    process: "BaseProcess | Fork"
    connection: Connection

    def send(self, message: Any) -> None:
        with suppress(ConnectionError):  # ``receive`` notices a process that has just ended
            self.connection.send(message)

    def receive(self, limit_s: float) -> Any:
        """Return the next message. End the process and raise TimeoutError or EndedError if there is none."""
        problem: Exception = TimeoutError()
        ends = time.monotonic() + limit_s
        try:
            while not self.connection.poll() and (left_s := ends - time.monotonic()) > 0:
                wait([self.connection, self.process.sentinel], left_s)
                if self.process.exitcode is not None and not self.connection.poll():
                    raise EOFError  # a child that it left behind may hold the pipe open
            if self.connection.poll():
                return pickle.loads(self.connection.recv_bytes(MOST_MESSAGE_BYTE))
        except Exception:  # it closed the pipe, or a user's code wrote anything into it
            self.process.join(END_LIMIT_S)
            problem = EndedError(self.process.exitcode)
        self.end()
        raise problem

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.connection.close()


class Processes:
    """Starts a worker's processes, one after another. Their output goes into the file ``log``.

    Forks of one server have their libraries, stacks and first heaps at the same random addresses, but an interval
    between rounds assumes independent draws. So each block of a plan, and each set of environment variables, has its
    own server, and no two rounds of a cell share a draw.
    """

    def __init__(self, log: Path, main: Callable[..., None], *arguments: Any) -> None:
        self._log, self._main = log, (main, *arguments)
        self._servers: dict[tuple[int, Any], IsolatedProcess] = {}

    def begin(self, task: "Task") -> IsolatedProcess:
        """Start a process for a task, with its environment variables. The process before it has ended."""
        if not FORKS:
            return self._spawn(task, *self._main)
        key = origin(task)
        if any(block != key[0] for block, _ in self._servers):
            self.close()
        if key not in self._servers or self._servers[key].process.exitcode is not None:
            self._servers[key] = self._spawn(task, _serve_forks, *self._main)
        server = self._servers[key]
        ours, theirs = SPAWN.Pipe()
        with suppress(ConnectionError):  # a server that has just ended shows in the fork's exit code
            server.connection.send(task.libraries)
            send_handle(server.connection, theirs.fileno(), server.process.pid)
        theirs.close()
        return IsolatedProcess(Fork(server), ours)

    def _spawn(self, task: "Task", *main: Any) -> IsolatedProcess:
        ours, theirs = SPAWN.Pipe()
        process = SPAWN.Process(target=_leave_terminal, args=(theirs, self._log, *main), daemon=True)
        before = dict(os.environ)
        os.environ.update(task.variables)
        if FORKS:  # a signal before the process has all that it needs would end it with a traceback
            resource_tracker.ensure_running()  # which ends with Ctrl-C unblocked if it has to start
            signal.pthread_sigmask(signal.SIG_BLOCK, ENDS)
        try:
            process.start()
        finally:
            if FORKS:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        os.environ.clear()
        os.environ.update(before)
        theirs.close()
        return IsolatedProcess(process, ours)

    def close(self) -> None:
        for server in self._servers.values():
            server.end()
        self._servers.clear()


class Fork:
    """A forked process, with the part of the interface of ``multiprocessing``'s processes that is used here."""

    def __init__(self, server: IsolatedProcess) -> None:
        self._server = server
        self._numbers: list[int | None] = []  # its process number, then its exit code, as the server reports them

    @property
    def sentinel(self) -> int:
        """A file descriptor that becomes readable when the server reports a number."""
        return self._server.connection.fileno()

    @property
    def pid(self) -> int | None:
        """Wait for the fork and return its number; None if the server was killed first."""
        self.join(count=1)
        return self._numbers[0]

    @property
    def exitcode(self) -> int | None:
        """The exit code, below 0 for a signal; None while the process lives."""
        self.join(0.0)
        return self._numbers[1] if len(self._numbers) > 1 else None

    def join(self, timeout: float | None = None, count: int = 2) -> None:
        """Wait for so many numbers: for the end, or until the server was silent for ``timeout`` seconds."""
        while len(self._numbers) < count:
            try:
                if not self._server.connection.poll(timeout):
                    return
                self._numbers.append(self._server.connection.recv())
            except (EOFError, OSError):  # the server was killed, and nobody waits for its fork any more
                self._server.process.join()
                self._send_kill()
                self._numbers = [*(self._numbers or [None]), self._server.process.exitcode]

    def kill(self) -> None:
        """End the process, or a server that has not forked it yet."""
        if self.exitcode is None:
            if not self._numbers:
                self._server.process.kill()
            self._send_kill()

    def _send_kill(self) -> None:
        if self._numbers and self._numbers[0] is not None:
            with suppress(ProcessLookupError):
                os.kill(self._numbers[0], signal.SIGKILL)
            _end_group(self._numbers[0])


def _end_group(pid: int) -> None:
    """Kill the children that a model left in the group of its process."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


def _serve_forks(orders: Connection, main: Callable[..., None], *arguments: Any) -> None:
    """Be a fork server: import, fork, report the fork's number and later its exit code, until nobody orders."""
    with suppress(ConnectionError, EOFError):  # the parent is gone
        while True:
            for library in orders.recv():
                with suppress(Exception):  # the task reports a missing or broken library
                    import_package(library)
            connection = Connection(recv_handle(orders))
            gc.freeze()  # a collection of these objects would copy their memory in every fork
            pid = os.fork()
            if pid == 0:
                os.setpgid(0, 0)  # its children are of its group, unless they leave it
                orders.close()
                try:
                    main(connection, *arguments)
                except BaseException:  # a model may end its program
                    traceback.print_exc()
                    os._exit(1)
                os._exit(0)
            connection.close()
            orders.send(pid)
            status = os.waitpid(pid, 0)[1]
            _end_group(pid)
            orders.send(os.waitstatus_to_exitcode(status))


def _leave_terminal(connection: Connection, log: Path, main: Callable[..., None], *arguments: Any) -> None:
    """Call ``main`` with its output in a file, which goes when the parent was killed; Ctrl-C is the parent's to handle.

    A group of its own outlives a kill of the parent's group for as long as that takes.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if FORKS:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDS)
        os.setpgid(0, 0)
    try:
        output = os.open(log, os.O_WRONLY | os.O_APPEND)
    except FileNotFoundError:  # the parent was stopped while this process started
        return
    os.dup2(output, 1)
    os.dup2(output, 2)
    main(connection, *arguments)
    with suppress(OSError):  # a file that another process has open cannot go on Windows
        log.unlink()


def oom_kills(vmstat: Path = Path("/proc/vmstat")) -> int:
    """Return how often Linux has killed for want of memory, also within control groups; 0 if it does not say."""
    return sum(map(int, re.findall(r"^oom_kill (\d+)$", content_of(vmstat), re.M)))  # since Linux 4.13
