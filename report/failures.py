"""What could not be computed: a sentence in its place, so that the paper is rendered, and a line for who renders it.

The chapters' Python runs in a process of its own, under either engine: the lines reach the command line by a file.
"""

import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from measure.cache.scratch import scratch
from measure.errors import UserError

STRICT = "ROOFWRIGHT_STRICT"
"""Where this variable is set, nothing stands in for what could not be computed: the failure ends the render."""

FILE = "ROOFWRIGHT_FAILURES"  # this variable names the file of the lines


class StrictError(UserError):
    """A strict render met what could not be computed."""

    exit_code = 1


def sentence(what: str, failure: Exception) -> str:
    """Return what the paper says in place of something that could not be computed, and note it.

    Raises the failure itself where it is the cache's (UserError) or ``STRICT`` is set.
    """
    if isinstance(failure, UserError) or os.environ.get(STRICT):
        raise failure
    problem = " ".join(f"{type(failure).__name__}: {failure}".split()).removesuffix(":")
    return noted_as(f"{what} failed with {problem}", f"{what}: {problem} ({_place(failure)}); please report it")


def noted_as(what: str, line: str) -> str:
    """Note a line for who renders, and return the paper's sentence."""
    if place := os.environ.get(FILE):
        with Path(place).open("a", encoding="utf-8", errors="replace") as file:
            file.write(f"{line}\n")
    return f"This could not be computed: {what}. What depends on it is left out."


def _place(failure: Exception) -> str:
    """Return the last file and line of the report's own that a failure passed."""
    frames = traceback.extract_tb(failure.__traceback__)
    own = [frame for frame in frames if Path(__file__).parent in Path(frame.filename).parents] or frames
    return f"{Path(own[-1].filename).name}, line {own[-1].lineno}" if own else "in another process"


def any_noted() -> bool:
    """Return whether anything could not be computed, of what a command line that is told of it has run so far."""
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
    """Yield a list that holds, once the block has ended, a line for each thing that could not be computed within it."""
    lines: list[str] = []
    with scratch() as folder:
        place = folder / "failures.txt"
        with in_environment({FILE: str(place)}):
            yield lines
        if place.exists():
            lines += dict.fromkeys(place.read_text("utf-8").splitlines())
