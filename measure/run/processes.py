"""Where a worker's processes come from: on Linux they are forks of one that has imported the libraries, else spawned.

To import torch and a library of models takes seconds, a fork milliseconds. The process that is forked is called a
zygote, as Android calls its own. It has used no device and run no operator: neither a driver's state nor the threads of
a library live on in a fork.

How many processes the system has killed because memory ran out.
"""

import gc
import importlib
import multiprocessing
import os
import platform
import re
import signal
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any

from measure.machine.processor import content_of
from measure.run.task import Task
from measure.verbs.terminal import in_environment

FORKS = platform.system() == "Linux"
"""Whether processes are forks here: Windows has none, and the libraries of macOS do not survive one."""

Origin = tuple[int, frozenset[tuple[str, str]]]


def origin(task: Task) -> Origin:
    """Return what tasks have in common whose processes are forks of one zygote: their block, and their variables.

    Counts and roofs share the zygote of the first rounds, which they take nothing from: importing takes seconds.
    """
    return max(task.block, 0), frozenset(task.variables.items())


class Processes:
    """Gives a worker one process after another; each runs ``main`` with a connection and ``arguments``.

    Forks of one zygote have their libraries, stacks and first heaps at the same addresses, which it drew by lot, and an
    interval between rounds takes the draws of rounds to be independent. So each block of a plan, and each set of
    environment variables, has a zygote of its own, and no two rounds of a cell share a draw.

    What a process prints goes into the file ``log``.
    """

    def __init__(self, main: Callable[..., None], arguments: tuple[Any, ...], log: Path) -> None:
        self._main = (log, main, *arguments)
        self._zygotes: dict[Origin, _Zygote] = {}

    def begin(self, task: Task) -> "tuple[BaseProcess | Fork, Connection]":
        """Start a process for a task, with its environment variables; return it, and the connection to it.

        The process before it has ended.
        """
        ours, theirs = multiprocessing.get_context("spawn").Pipe()
        forked = self._zygote(task).fork(theirs, task.libraries) if FORKS else None
        process = forked or _spawn(_run, task, theirs, *self._main)
        theirs.close()
        return process, ours

    def _zygote(self, task: Task) -> "_Zygote":
        mine = origin(task)
        if any(block != mine[0] for block, _ in self._zygotes):
            self.close()
        if mine not in self._zygotes or not self._zygotes[mine].is_alive():
            self._zygotes[mine] = _Zygote(task, self._main)
        return self._zygotes[mine]

    def close(self) -> None:
        """End what further processes would be forked from."""
        for zygote in self._zygotes.values():
            zygote.close()
        self._zygotes.clear()


def _spawn(main: Callable[..., None], task: Task, *arguments: Any) -> BaseProcess:
    process = multiprocessing.get_context("spawn").Process(target=main, args=arguments, daemon=True)
    with in_environment(task.variables):
        process.start()
    return process


class _Zygote:
    """The parent's handle on a process that is forked, one fork after another."""

    def __init__(self, task: Task, main: tuple[Any, ...]) -> None:
        self._orders, theirs = multiprocessing.get_context("spawn").Pipe()
        self._process = _spawn(_fork_on_order, task, theirs, *main)
        theirs.close()

    def is_alive(self) -> bool:
        return self._process.is_alive()

    def fork(self, connection: Connection, libraries: tuple[str, ...]) -> "Fork":
        """Order a fork that has imported these libraries and has a connection."""
        with suppress(ConnectionError):  # it may have ended just now, which the fork's exit code says
            self._orders.send(libraries)
            send_handle(self._orders, connection.fileno(), self._process.pid)
        return Fork(self._process, self._orders)

    def close(self) -> None:
        self._process.kill()
        self._process.join()
        self._orders.close()


class Fork:
    """A process that a zygote forks, with what a worker uses of ``multiprocessing``'s processes."""

    def __init__(self, zygote: BaseProcess, orders: Connection) -> None:
        self._zygote, self._orders = zygote, orders
        self._pid: int | None = None
        self._exitcode: int | None = None

    @property
    def pid(self) -> int | None:
        """Wait until it is forked, and return its number; None where its zygote was killed before."""
        while self._pid is None and self._exitcode is None:
            self._hear(None)
        return self._pid

    @property
    def exitcode(self) -> int | None:
        """Return its exit code, less than 0 for a signal; None until it has ended."""
        self.join(0.0)
        return self._exitcode

    def is_alive(self) -> bool:
        return self.exitcode is None

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended, or until nothing was heard of it for so many seconds."""
        while self._exitcode is None and self._hear(timeout):
            pass

    def kill(self) -> None:
        """End it, or the zygote that has not come to fork it."""
        if self.is_alive():
            if self._pid is None:
                self._zygote.kill()
            self._send_kill()

    def _hear(self, limit_s: float | None) -> bool:
        """Take in what the zygote says next, its fork's number or exit code; return whether it did within the limit."""
        try:
            if not self._orders.poll(limit_s):
                return False
            said = self._orders.recv()
        except (EOFError, OSError):  # it was killed, and nobody waits for its fork any more
            self._zygote.join()
            self._exitcode = self._zygote.exitcode
            self._send_kill()
            return True
        if self._pid is None:
            self._pid = said
        else:
            self._exitcode = said
        return True

    def _send_kill(self) -> None:
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)


def _fork_on_order(orders: Connection, log: Path, main: Callable[..., None], *arguments: Any) -> None:
    """Be a zygote: import what is ordered, fork, say the fork's number and later its exit code, until nobody orders."""
    _leave_terminal(log)
    with suppress(ConnectionError, EOFError):  # the parent is gone
        while True:
            for library in orders.recv():
                with suppress(Exception):  # where it is missing or broken, the task says so
                    importlib.import_module(library)
            connection = Connection(recv_handle(orders))
            gc.freeze()  # collecting what is there already would copy its memory in every fork
            pid = os.fork()
            if pid == 0:
                orders.close()
                _end_after(main, connection, *arguments)
            connection.close()
            orders.send(pid)
            orders.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _end_after(main: Callable[..., None], *arguments: Any) -> None:
    """Call a function and end this process, whatever it raises."""
    code = 1
    try:
        main(*arguments)
        code = 0
    except BaseException:  # a model may end its program
        traceback.print_exc()
    finally:
        os._exit(code)


def _run(connection: Connection, log: Path, main: Callable[..., None], *arguments: Any) -> None:
    """Be a spawned process."""
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
"""Where Linux counts them: on the whole machine (since 4.13), in this control group (of version 2, of version 1)."""


def oom_kills(counters: Iterable[Path] = COUNTERS) -> int:
    """Return the sum of these counters, which tells only whether any has moved; 0 where the system has none."""
    return sum(int(count) for path in counters for count in re.findall(r"^oom_kill (\d+)$", content_of(path), re.M))
