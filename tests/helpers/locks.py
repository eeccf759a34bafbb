"""Tells whether a table is written while its folder is locked."""

import fcntl

import pytest

from measure.cache import table


def watch_writes(monkeypatch: pytest.MonkeyPatch) -> dict[str, bool]:
    """Return the names of the tables that are written from now on, with whether each write was under a lock."""
    seen: dict[str, bool] = {}

    def watched(name):
        write = getattr(table, name)

        def wrapper(path, *arguments):
            with (path.parent / table.NAME).open("a") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    seen[path.name] = False  # nobody holds it, this process included
                except BlockingIOError:
                    seen.setdefault(path.name, True)
            return write(path, *arguments)

        return wrapper

    for name in ("write", "append"):
        monkeypatch.setattr(table, name, watched(name))
    return seen
