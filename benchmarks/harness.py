"""Shared by the benchmarks: import paths, a command that loses no process, and a table of outcomes."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from statistics import median
from typing import Self

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout counts, installed or not

from measure.errors import UserError

ROOT = Path(__file__).parents[1]
MARK = "ROOFWRIGHT_FAULT"  # a variable that all processes of a command inherit, orphans too


def median_s(call: Callable[[], object], repeats: int, least_s: float = 0.0) -> float:
    """Return the median time of at least this many calls, over at least this time."""
    taken: list[float] = []
    while len(taken) < repeats or sum(taken) < least_s:
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return median(taken)


class Failure(Exception):  # noqa: N818 - of the program under test
    """A broken promise, in one sentence."""


class Command:
    """A command that leads a process group. Leaving the ``with`` block kills every process that is still alive.

    Temporary files go to ``folder``, and so does the output: ``out`` and ``error``.
    """

    def __init__(self, words: list[str], folder: Path, *modules: Path) -> None:
        self._mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self._out, self._error = folder / "out", folder / "error"
        paths = os.pathsep.join(map(str, (ROOT, *modules)))
        environment = os.environ | {MARK: self._mark, "PYTHONPATH": paths, "TMPDIR": str(folder)}
        with self._out.open("w") as out, self._error.open("w") as error:
            self.process = subprocess.Popen(
                words, cwd=folder, stdout=out, stderr=error, env=environment, start_new_session=True,
                # A background job of a shell ignores Ctrl-C, and so would its children
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
            )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.alive():
            kill(process)
        self.process.wait()

    out = property(lambda self: self._out.read_text(errors="replace").strip())
    error = property(lambda self: self._error.read_text(errors="replace").strip())

    def ends_within(self, limit_s: float) -> bool:
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def alive(self) -> list[psutil.Process]:
        """Return the processes of the command that still run, the first included."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):  # of another user, or gone
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def check_it_is_gone(self, limit_s: float, logs: str = "") -> None:
        """Raise Failure if a process, or a temporary file matching ``logs``, is left after this time."""
        ends = time.monotonic() + limit_s
        while (left := self.alive()) or (logs and any(self._out.parent.glob(logs))):
            if time.monotonic() > ends:
                raise Failure(f"{len(left)} processes{' and logs' if logs else ''} stay after {limit_s:g} s")
            time.sleep(0.05)


def kill(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):  # it ended by itself just now
        process.kill()


def count(tries: Iterable[tuple[str, Callable[[Path], str]]]) -> int:
    """Run tries, each in a new folder, and print a row for each kind. Return how many raised Failure or UserError.

    A try returns how it ended. Tries of the same kind are adjacent.
    """
    print("| kind | tried | ended | failed |\n|---|--:|---|--:|")
    failed = 0
    for kind, group in groupby(tries, key=itemgetter(0)):
        ends, problems = Counter[str](), Counter[str]()
        for _, attempt in group:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    ends[attempt(Path(folder))] += 1
                except (Failure, UserError) as problem:
                    problems[str(problem).replace(folder, "")] += 1
        ended = ", ".join(f"{number} {end}" for end, number in ends.most_common())
        print(f"| {kind} | {ends.total() + problems.total()} | {ended} | {problems.total()} |", flush=True)
        for problem, number in problems.most_common():
            print(f"  {number} times: {problem}", file=sys.stderr, flush=True)
        failed += problems.total()
    return failed
