"""Folders that last as long as a render."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir

PREFIX = "roofwright-report-"


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder for the length of a block. Remove those of renders that were killed with all that could do so."""
    for old in Path(gettempdir()).glob(f"{PREFIX}*-*"):
        if Path("/proc").is_dir() and not Path("/proc", old.name.removeprefix(PREFIX).split("-")[0]).exists():
            shutil.rmtree(old, ignore_errors=True)
    with TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as folder:
        yield Path(folder)
