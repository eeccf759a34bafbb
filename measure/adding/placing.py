"""Puts a machine into the cache: beside the others, joined with its earlier rows, or in another's place."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure.cache.folders import FILES, MachineFolder, machine_names
from measure.cache.records import Environment
from measure.cache.schema import TABLES
from measure.errors import UserError

Tables = Mapping[type, Sequence[Any]]


class TakenError(UserError):
    """A folder holds another machine, or other results of the same cells."""


def home(data: Path, name: str | None, hardware_id: str) -> str | None:
    """Return the folder that already holds this machine, ``name`` where several do."""
    holders = [
        known
        for known in machine_names(data)
        if any(row.hardware_id == hardware_id for row in MachineFolder(data, known).environments())
    ]
    return name if name in holders or not holders else holders[0]


def put(data: Path, name: str, tables: Tables, replace: bool) -> dict[type, int]:
    """Put tables into ``machines/name``, whole or not at all; return how many rows that added, by record.

    Earlier rows of the same machine stay, unless ``replace`` replaces everything there. Raises UserError, and changes
    nothing, where another machine or other results of the same cells are there, or another process writes there.
    """
    target = MachineFolder(data, name)
    alone = target.locked() if target.folder.exists() else nullcontext()
    with alone:
        known = target.tables()
        together = tables if replace else joined(target.folder, known, tables)
        added = {record: len(rows) - len(known[record]) for record, rows in together.items()}
        if replace or any(added.values()):
            _swap(target, together)
    return {record: len(rows) for record, rows in together.items()} if replace else added


def joined(place: Path, known: Tables, new: Tables) -> dict[type, list[Any]]:
    """Join the rows of both. Raises TakenError where they are of two machines, or differ on a cell."""
    hardware = {row.hardware_id for row in known[Environment]}
    if hardware and hardware != {row.hardware_id for row in new[Environment]}:
        raise TakenError(
            f"{place}: holds another machine ({known[Environment][0].name!r}); name another folder with --machine "
            "NAME, or use --replace to put this one in its place"
        )
    for record, rows in new.items():
        if record is Environment:  # the same one, seen first at another time
            continue
        differing = [row for row, other in _beside(known[record], rows) if other not in (None, row)]
        if differing:
            example = " ".join(str(getattr(differing[0], column)) for column in TABLES[record].key[1:])
            raise TakenError(
                f"{place / FILES[record]}: has other results for {len(differing)} of the same rows, such as "
                f"{example!r}; use --replace to replace the old folder, or keep both with --machine NAME"
            )
    return {
        record: [*known[record], *(row for row, other in _beside(known[record], rows) if other is None)]
        for record, rows in new.items()
    }


def _beside(known: Sequence[Any], new: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Pair each new row with the known one that has its key, or None."""
    if not new:
        return []
    key = attrgetter(*TABLES[type(new[0])].key)
    there = {key(row): row for row in known}
    return [(row, there.get(key(row))) for row in new]


def _swap(target: MachineFolder, tables: Tables) -> None:
    """Replace the target by a folder with these tables: readers see the old one or the new one.

    It is written in a folder beside it, which no reader mistakes for a machine's: machines lie one level higher.
    """
    place = target.folder
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".adding-", dir=place.parent) as beside:
            new, old = Path(beside) / place.name, Path(beside) / "replaced"
            MachineFolder(Path(beside), place.name, new).fill(tables)
            try:
                if place.exists():
                    place.rename(old)
                new.rename(place)
            except BaseException:  # Ctrl-C too
                if old.exists() and not place.exists():
                    old.rename(place)
                raise
    except OSError as problem:
        raise UserError(
            f"{place}: could not be written ({problem.strerror}); its old content is intact: fix that and run the "
            "same command again"
        ) from None
