"""Child tables, whose rows belong to the rows of another table: samples to a run, layers to a workload.

The children of a row are written before it: the row commits them. What a killed writer left without its row is
not read, and is replaced when it is measured again.
"""

import itertools
from collections.abc import Collection, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

from measure.cache.table import append, read, read_firsts, write

Child = TypeVar("Child")


class ChildTable(Generic[Child]):
    """One child table. The columns ``key`` name the row that a child belongs to."""

    def __init__(self, path: Path, record: type[Child], key: Sequence[str]) -> None:
        self.path = path
        self._record = record
        self._names = key
        self._key = attrgetter(*key)
        self._owners: set[Any] | None = None

    def _read(self) -> list[Child]:
        return read(self.path, self._record)

    def of(self, rows: Collection[Any]) -> list[Child]:
        """Return the children of these rows of the other table."""
        owners = set(map(self._key, rows))
        return [child for child in self._read() if self._key(child) in owners]

    def has(self, row: Any) -> bool:
        """Return whether a row of the other table has children."""
        return self._key(row) in self._known()

    def _known(self) -> set[Any]:
        if self._owners is None:
            self._owners = set(map(self._key, read_firsts(self.path, self._record, self._names)))
        return self._owners

    def forget(self) -> None:
        """Read the table anew for what comes next: another process may have written into it."""
        self._owners = None

    def leave_out(self, models: Collection[str]) -> None:
        """Remove the children of rows of these models."""
        rows = self._read()
        model = attrgetter("model")
        stay = [row for row in rows if model(row) not in models]
        if len(stay) < len(rows):
            write(self.path, self._record, stay)
        self.forget()

    def put(self, children: Sequence[tuple[Any, Sequence[Child]]]) -> None:
        """Add the children of some rows of the other table, or replace them where they stand."""
        known = self._known()
        again = {self._key(row): rows for row, rows in children if self._key(row) in known}
        new = [child for row, rows in children if self._key(row) not in again for child in rows]
        if again:
            left = dict(again)
            together: list[Child] = []
            for owner, old in itertools.groupby(self._read(), key=self._key):
                together += left.pop(owner, ()) if owner in again else list(old)
            write(self.path, self._record, together)
        append(self.path, self._record, new)
        known |= set(map(self._key, new))
        known -= {owner for owner, rows in again.items() if not rows}
