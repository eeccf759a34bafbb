"""One holder at a time: locks that the system releases when their holder dies."""

import os
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from measure.environment import now
from measure.errors import UserError

NAME = ".lock"
"""The file that is locked, and that says by whom; without a holder its text means nothing."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder's lock. Raises UserError that names the process which holds it already."""

    def refusal(holder: str) -> str:
        return f"{folder}: {holder} is measuring into this folder; wait for it or name another --machine"

    folder.mkdir(parents=True, exist_ok=True)
    with held(folder / NAME, refusal):
        yield


@contextmanager
def held(path: Path, refusal: Callable[[str], str]) -> Iterator[None]:
    """Holds a file; where another process does, raises UserError with what ``refusal`` says of that process."""
    import fcntl  # only where something is written: a paper renders on systems without it

    try:
        file = path.open("a+")
    except PermissionError:
        raise UserError(refusal("a process of another user")) from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise UserError(refusal(file.read().strip() or "another process")) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}, since {now()},")
        file.flush()
        yield


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Holds the lock of a folder that several processes write into, each for a moment: the others wait."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
