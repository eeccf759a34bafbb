"""Shared by the programs that break things: a command whose processes are all found again, a table of outcomes."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Self

import psutil

ROOT = Path(__file__).parents[1]
MARK = "ROOFWRIGHT_FAULT"
"""A variable of the environment that a command's processes share, orphans too."""

HEED = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
"""The background job of a shell ignores Ctrl-C, and so would every process that it starts."""


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
                words, cwd=folder, stdout=out, stderr=error, env=environment, start_new_session=True, preexec_fn=HEED
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.alive():
            process.kill()
        self.process.wait()

    @property
    def out(self) -> str:
        return self._out.read_text(errors="replace").strip()

    @property
    def error(self) -> str:
        return self._error.read_text(errors="replace").strip()

    def ends_within(self, limit_s: float) -> bool:
        try:
            self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return False
        return True

    def alive(self) -> list[psutil.Process]:
        """Return the processes of the command that have not ended, the first included."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:  # of another user, or gone
                continue
        return found

    def check_it_is_gone(self, limit_s: float, logs: str = "") -> None:
        """Raise Failure if a process is alive after this time, or a temporary file of these names is there."""
        ends = time.monotonic() + limit_s
        while True:
            left, files = self.alive(), [*self._out.parent.glob(logs)] if logs else []
            if not left and not files:
                return
            if time.monotonic() > ends:
                raise Failure(f"{len(left)} processes and {len(files)} logs stay after {limit_s:g} s")
            time.sleep(0.05)


def count(tries: Iterable[tuple[str, Callable[[Path], str]]]) -> int:
    """Run tries, each in a new folder, and print a row for each kind. Return how many raised Failure.

    A try returns how it ended. Those of a kind come one after the other.
    """
    print("| kind | tried | ended | failed |\n|---|--:|---|--:|")
    failed = 0
    for kind, group in groupby(tries, key=itemgetter(0)):
        ends, problems = Counter[str](), Counter[str]()
        for _, attempt in group:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    ends[attempt(Path(folder))] += 1
                except Failure as problem:
                    problems[str(problem).replace(folder, "")] += 1
        ended = ", ".join(f"{number} {end}" for end, number in ends.most_common())
        print(f"| {kind} | {ends.total() + problems.total()} | {ended} | {problems.total()} |", flush=True)
        for problem, number in problems.most_common():
            print(f"  {number} times: {problem}", file=sys.stderr, flush=True)
        failed += problems.total()
    return failed
