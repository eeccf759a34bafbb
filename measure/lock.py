"""One writer at a time: a lock on a folder that names its holder, and that the system releases when the holder dies."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure.environment import now
from measure.errors import UserError

NAME = ".lock"
"""The file that is locked, and that says by whom; without a holder its text means nothing."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Holds the folder's lock. Raises UserError that names the process which holds it already."""
    import fcntl  # only where something is written: a paper renders on systems without it

    folder.mkdir(parents=True, exist_ok=True)
    with (folder / NAME).open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise UserError(
                f"{folder}: {holder} is measuring into this folder; wait for it or name another --machine"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {platform.node()}, since {now()},")
        file.flush()
        yield
