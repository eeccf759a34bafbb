"""Tells whether a table is written while its folder is locked."""

import fcntl
from functools import partial
from pathlib import Path

import pytest

from measure.cache import table
from measure.cache.table import NAME


def is_held(folder: Path) -> bool:
    """Return whether anybody holds the folder's lock, this process included."""
    path = folder / NAME
    if not path.exists():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def watch_writes(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Return the names of the tables that are written from now on, with whether each write was under a lock."""
    seen: dict[str, bool] = {}

    def watched(write, path, *arguments):
        seen[path.name] = seen.get(path.name, True) and is_held(path.parent)
        return write(path, *arguments)

    for name in ("write", "append"):
        monkeypatch.setattr(table, name, partial(watched, getattr(table, name)))
    return seen
