"""Failures of figures, tables and values: a sentence in the paper, and a line on the command line.

The chapters' Python runs in a process of its own, under either engine. The lines reach the command line by a file.
"""

import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from measure.cache.scratch import scratch
from measure.errors import UserError

STRICT = "ROOFWRIGHT_STRICT"
"""If this variable is set, a failure ends the render."""

FILE = "ROOFWRIGHT_FAILURES"  # this variable names the file of the lines


class StrictError(UserError):
    """A failure in a strict render."""

    exit_code = 1


def sentence(subject: str, failure: Exception) -> str:
    """Note a failure and return the paper's sentence about it. Raises a UserError itself, and all if ``STRICT``."""
    if isinstance(failure, UserError) or os.environ.get(STRICT):
        raise failure
    problem = " ".join(f"{type(failure).__name__}: {failure}".split()).removesuffix(":")
    return noted_as(f"{subject} failed with {problem}", f"{subject}: {problem} ({_place(failure)}); please report it")


def noted_as(problem: str, line: str) -> str:
    """Note a line for the command line, and return the paper's sentence."""
    if place := os.environ.get(FILE):
        with Path(place).open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{line}\n")
    return f"This could not be computed: {problem}. Everything that depends on it is left out."


def _place(failure: Exception) -> str:
    """Return the last file and line of the report in a failure's traceback."""
    frames = traceback.extract_tb(failure.__traceback__)
    own = [frame for frame in frames if Path(__file__).parent in Path(frame.filename).parents] or frames
    return f"{Path(own[-1].filename).name}, line {own[-1].lineno}" if own else "in another process"


def any_noted() -> bool:
    """Return whether anything failed so far in this command."""
    place = os.environ.get(FILE)
    return bool(place) and Path(str(place)).exists()


@contextmanager
def in_environment(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for this process and its children, and restore them at the end."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values:
            del os.environ[name]
        os.environ.update(before)


@contextmanager
def noted() -> Iterator[list[str]]:
    """Yield a list that has a line for each failure in the block after its end."""
    lines: list[str] = []
    with scratch() as folder:
        place = folder / "failures.txt"
        with in_environment({FILE: str(place)}):
            yield lines
        if place.exists():
            lines += dict.fromkeys(place.read_text("utf-8").splitlines())
