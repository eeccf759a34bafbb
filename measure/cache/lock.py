"""One holder at a time: locks that the system releases when their holder dies."""

import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from measure.errors import UserError
from measure.utc import now

NAME = ".lock"
"""The file that is locked, and that says by whom; without a holder its text means nothing."""

TRIES, PAUSE_S = 100, 0.01
"""Who has just begun to hold a file says so a moment later: a file without text is looked at again, so often."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the folder's lock. Raises UserError that names the process which holds it already."""

    def refusal(holder: str) -> str:
        return f"{folder}: {holder} is measuring into this folder; wait for it or name another --machine"

    folder.mkdir(parents=True, exist_ok=True)
    with held(folder / NAME, refusal):
        yield


@contextmanager
def held(path: Path, refusal: Callable[[str], str]) -> Iterator[None]:
    """Hold a file; where another process does, raise UserError with what ``refusal`` says of that process."""
    try:
        file = path.open("a+")
    except PermissionError:
        raise UserError(refusal("a process of another user")) from None
    with file:
        tries = 1
        while not _taken(file):
            file.seek(0)
            holder = file.read().strip()
            if holder or tries == TRIES:
                raise UserError(refusal(holder or "another process"))
            tries += 1
            time.sleep(PAUSE_S)
        file.truncate(0)  # what a holder left that was killed
        file.write(f"process {os.getpid()} on {platform.node()}, since {now()},")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def _taken(file: TextIO) -> bool:
    """Take the file, and return whether nobody else held it."""
    import fcntl  # only where something is written: a paper renders on systems without it

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that several processes write into, each for a moment: the others wait."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
