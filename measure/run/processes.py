"""Where a worker's processes come from: on Linux they are forked from a fork server, elsewhere they are spawned.

Importing torch and a library of models takes seconds, a fork milliseconds. The fork server imports, but uses no device
and runs no operator: neither a driver's state nor a library's threads survive a fork.
"""

import gc
import importlib
import multiprocessing
import os
import pickle
import platform
import re
import signal
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.machine.processor import content_of

if TYPE_CHECKING:
    from measure.run.task import Task

FORKS = platform.system() == "Linux"
"""Whether processes are forked: Windows cannot fork, and macOS's libraries do not survive it."""

START_LIMIT_S, END_LIMIT_S = 300.0, 10.0
"""Limits for importing torch, where a disk is slow, and for ending after the pipe has closed."""

MOST_MESSAGE_BYTE = 2**27
"""More than any message has. Text in its place begins with a length above that: a tab is already 9 * 2**24."""

SPAWN = multiprocessing.get_context("spawn")

Origin = tuple[int, frozenset[tuple[str, str]]]


def origin(task: "Task") -> Origin:
    """Return a key: processes of tasks with equal keys, block and variables, are forked from one server.

    Counts and roofs share the server of the first rounds: a further import would take seconds.
    """
    return max(task.block, 0), frozenset(task.variables.items())


def end_with_parent() -> None:
    """Exit when the parent dies, even inside a blocking call. A hung worker would otherwise live forever."""

    def wait() -> None:
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


class UnreadableMessageError(Exception):
    """Something else than a message came through a process's pipe: a user's code may write anywhere."""


class SilenceError(Exception):
    """A process said nothing within its limit."""


class IsolatedProcess:
    """A process and the pipe to it. It runs ``main(connection, *arguments)``."""

    def __init__(self, process: "BaseProcess | Fork", connection: Connection) -> None:
        self.process, self.connection = process, connection

    def is_alive(self) -> bool:
        return self.process.is_alive()

    def send(self, message: Any) -> None:
        with suppress(ConnectionError):  # a process that has just ended is noticed by ``receive``
            self.connection.send(message)

    def receive(self, limit_s: float) -> Any:
        """Return the next message.

        Raises SilenceError after ``limit_s``, UnreadableMessageError, and EOFError or OSError if the pipe has closed.
        """
        if not self.connection.poll(limit_s):
            raise SilenceError
        content = self.connection.recv_bytes(MOST_MESSAGE_BYTE)
        try:
            return pickle.loads(content)
        except Exception as problem:  # what a user's code wrote may raise anything
            raise UnreadableMessageError(problem) from problem

    def exit_code(self) -> int | None:
        """Wait for the end of a process whose pipe has closed; return its exit code, None if it lives on."""
        self.process.join(END_LIMIT_S)
        return self.process.exitcode

    def end(self) -> None:
        """Kill the process, whatever it is doing."""
        self.process.kill()
        self.process.join()
        self.connection.close()


def ending(code: int) -> str:
    """Describe an exit code: ``by signal 11`` or ``with exit code 3``."""
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"


def spawn(main: Callable[..., None], *arguments: Any, variables: dict[str, str] | None = None) -> IsolatedProcess:
    """Start a fresh process with these environment variables."""
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=main, args=(theirs, *arguments), daemon=True)
    before = dict(os.environ)
    os.environ.update(variables or {})
    try:
        process.start()
    finally:
        for name in variables or {}:
            del os.environ[name]
        os.environ.update(before)
    theirs.close()
    return IsolatedProcess(process, ours)


class Processes:
    """Starts a worker's processes, one after another. What they print goes into the file ``log``.

    Forks of one server have their libraries, stacks and first heaps at the same random addresses, but an interval
    between rounds assumes independent draws. So each block of a plan, and each set of environment variables, has its
    own server, and no two rounds of a cell share a draw.
    """

    def __init__(self, main: Callable[..., None], arguments: tuple[Any, ...], log: Path) -> None:
        self._main = (log, main, *arguments)
        self._servers: dict[Origin, IsolatedProcess] = {}

    def begin(self, task: "Task") -> IsolatedProcess:
        """Start a process for a task, with the task's environment variables. The process before it has ended."""
        if not FORKS:
            return spawn(_run, *self._main, variables=task.variables)
        ours, theirs = SPAWN.Pipe()
        server = self._server(task)
        with suppress(ConnectionError):  # a server that has just ended shows in the fork's exit code
            server.connection.send(task.libraries)
            send_handle(server.connection, theirs.fileno(), server.process.pid)
        theirs.close()
        return IsolatedProcess(Fork(server.process, server.connection), ours)

    def _server(self, task: "Task") -> IsolatedProcess:
        key = origin(task)
        if any(block != key[0] for block, _ in self._servers):
            self.close()
        if key not in self._servers or not self._servers[key].is_alive():
            self._servers[key] = spawn(_fork_on_order, *self._main, variables=task.variables)
        return self._servers[key]

    def close(self) -> None:
        """End the fork servers."""
        for server in self._servers.values():
            server.end()
        self._servers.clear()


class Fork:
    """A forked process, with the part of the interface of ``multiprocessing``'s processes that is used here."""

    def __init__(self, server: Any, orders: Connection) -> None:
        self._server, self._orders = server, orders
        self._pid: int | None = None
        self._exitcode: int | None = None

    @property
    def pid(self) -> int | None:
        """Wait for the fork and return its number; None if the server was killed first."""
        while self._pid is None and self._exitcode is None:
            self._hear(None)
        return self._pid

    @property
    def exitcode(self) -> int | None:
        """The exit code, below 0 for a signal; None while the process lives."""
        self.join(0.0)
        return self._exitcode

    def is_alive(self) -> bool:
        return self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        """Wait for the end of the process, or until the server was silent for so many seconds."""
        while self._exitcode is None and self._hear(timeout):
            pass

    def kill(self) -> None:
        """End the process, or a server that has not forked it yet."""
        if self.is_alive():
            if self._pid is None:
                self._server.kill()
            self._send_kill()

    def _hear(self, limit_s: float | None) -> bool:
        """Read the server's next message, the fork's number or exit code; return whether one came in time."""
        try:
            if not self._orders.poll(limit_s):
                return False
            number = self._orders.recv()
        except (EOFError, OSError):  # the server was killed, and nobody waits for its fork any more
            self._server.join()
            self._exitcode = self._server.exitcode
            self._send_kill()
            return True
        if self._pid is None:
            self._pid = number
        else:
            self._exitcode = number
        return True

    def _send_kill(self) -> None:
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def _fork_on_order(orders: Connection, log: Path, main: Callable[..., None], *arguments: Any) -> None:
    """Be a fork server: import, fork, report the fork's number and later its exit code, until nobody orders."""
    _leave_terminal(log)
    with suppress(ConnectionError, EOFError):  # the parent is gone
        while True:
            for library in orders.recv():
                with suppress(Exception):  # the task reports a missing or broken library
                    importlib.import_module(library)
            connection = Connection(recv_handle(orders))
            gc.freeze()  # a collection of these objects would copy their memory in every fork
            pid = os.fork()
            if pid == 0:
                orders.close()
                _call_and_exit(main, connection, *arguments)
            connection.close()
            orders.send(pid)
            orders.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _call_and_exit(main: Callable[..., None], *arguments: Any) -> None:
    code = 1
    try:
        main(*arguments)
        code = 0
    except BaseException:  # a model may end its program
        traceback.print_exc()
    finally:
        os._exit(code)


def _run(connection: Connection, log: Path, main: Callable[..., None], *arguments: Any) -> None:
    _leave_terminal(log)
    main(connection, *arguments)


def _leave_terminal(log: Path) -> None:
    """Print into a file from here on, and leave Ctrl-C to the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)


COUNTERS = tuple(
    map(Path, ("/proc/vmstat", "/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"))
)
"""Where Linux counts kills for want of memory: machine (since 4.13), control group version 2, version 1."""


def oom_kills(counters: Iterable[Path] = COUNTERS) -> int:
    """Return the sum of these counters: it tells whether any has moved. 0 if the system has none."""
    return sum(int(count) for path in counters for count in re.findall(r"^oom_kill (\d+)$", content_of(path), re.M))
