"""One holder at a time: locks that the system releases when their holder dies."""

import errno
import os
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path

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

    with held(folder / NAME, refusal):
        yield


@contextmanager
def held(path: Path, refusal: Callable[[str], str]) -> Iterator[None]:
    """Hold a file; where another process does, raise UserError with what ``refusal`` says of that process."""
    with _opened(path) as file:
        tries = 1
        while not _taken(path, file):
            file.seek(0)
            holder = file.read().decode(errors="replace").strip()
            if holder or tries == TRIES:
                raise UserError(refusal(holder or "another process"))
            tries += 1
            time.sleep(PAUSE_S)
        _say(file, f"process {os.getpid()} on {platform.node()}, since {now()},")
        try:
            yield
        finally:
            _say(file, "")


@contextmanager
def in_turn(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder that several processes write into, each for a moment: the others wait."""
    with _opened(folder / NAME) as file:
        _taken(folder / NAME, file, wait=True)
        yield


def _opened(path: Path) -> FileIO:
    """Open a file to be locked, which need not be there; not through a link: what that leads to would be emptied.

    Raises UserError where it cannot be opened.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return FileIO(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+")
    except OSError as problem:
        raise _refusal(path, "it is a link" if problem.errno == errno.ELOOP else problem.strerror) from None


def _taken(path: Path, file: FileIO, wait: bool = False) -> bool:
    """Take the file, and return whether nobody else held it. Raises UserError where it cannot be locked at all."""
    import fcntl  # only where something is written: a paper renders on systems without it

    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as problem:
        raise _refusal(path, problem.strerror) from None
    return True


def _say(file: FileIO, text: str) -> None:
    """Write who holds a file into it, as far as a full disk takes it: the lock itself does not depend on it."""
    with suppress(OSError):
        file.truncate(0)  # what a holder left that was killed
        file.seek(0)
        file.write(text.encode())


def _refusal(path: Path, why: str | None) -> UserError:
    return UserError(f"{path}: cannot be locked ({why}); mend that or name another --data")
