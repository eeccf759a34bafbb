"""Temporary folders. A later call removes the folders of killed processes."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

PREFIX = "roofwright-"


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder for the length of a block. Remove folders that killed processes left."""
    for old in Path(gettempdir()).glob(f"{PREFIX}[0-9]*-*"):
        if Path("/proc").is_dir() and not Path("/proc", old.name.split("-")[1]).exists():
            shutil.rmtree(old, ignore_errors=True)
    with TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as folder:
        yield Path(folder)
