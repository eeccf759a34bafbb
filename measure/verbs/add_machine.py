"""The command ``python -m measure add-machine FOLDER|ZIP``: checks other people's measurements and adds them.

Puts a machine into the cache: beside the others, joined with its earlier rows, or in another's place.
"""

import argparse
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from measure.cache import handed_in, plausibility
from measure.cache.folders import FILES, MachineFolder, Workloads, machine_names
from measure.cache.handed_in import HandedIn
from measure.cache.records import Environment, HardwareCounterProfile, Profile, Run
from measure.cache.schema import TABLES
from measure.cache.workload_records import Workload
from measure.domain.models import MEASURED_SHAPES
from measure.errors import UserError
from measure.machine.environment import folder_name
from measure.verbs.flags import CommandLine, check_folder, check_folder_name, data_flag

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


NAMED = 5
"""How many names a line holds; of the others it gives the number."""

MOST_ALIKE = 1000
"""So many machines may come by one name; the second is called NAME-2."""


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure add-machine",
        description="Check the folder of a machine that somebody else measured, or a zip of it, and add it to the "
        "cache. Earlier measurements of the same machine are kept. Files that are not tables are left out, and nothing "
        "is added of a machine of which a row cannot have been measured. Of several each becomes a machine of its own, "
        "called as its file or folder is, also where they are of one kind.",
    )
    flags.add_argument(
        "sources",
        metavar="FOLDER|ZIP",
        type=Path,
        nargs="+",
        help="the machine's folder from data/machines, or a zip of it",
    )
    flags.add_argument(
        "--machine",
        metavar="NAME",
        help="the folder to add it as (default: that of the same machine, else the name that it comes with)",
    )
    flags.add_argument("--replace", action="store_true", help="replace the folder of that name")
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    return flags


@dataclass(frozen=True)
class Added:
    """A machine that was added as ``name``: how many rows of each table, and the files that are no tables.

    ``measured`` are the models, batch sizes and, where known, input shapes of its rows, ``counted`` the models whose
    counts came with it.
    """

    name: str
    environment: Environment
    rows: Mapping[type, int]
    left_out: Sequence[str]
    measured: set[tuple[str, int, str | None]]
    counted: Sequence[str]


def main(argv: Sequence[str]) -> int:
    """Return exit code 0. Raises UserError for bad input; of several machines the sound ones are added then."""
    asked = parser().parse_args(argv)
    check_folder(asked.data, "--data")
    if asked.machine is not None:
        if len(asked.sources) > 1:
            raise UserError("--machine: names one machine; give one folder or zip with it")
        check_folder_name(asked.machine)
    counted = Workloads(asked.data).models()
    done, failed = [], []
    for source in asked.sources:
        try:
            added = _add(source, asked, counted)
        except UserError as problem:
            if len(asked.sources) == 1:
                raise
            print(problem, file=sys.stderr)
            failed.append(str(source))
            continue
        _report(asked.data, added)
        done.append(added)
    if done:
        measured = set().union(*(each.measured for each in done))
        _say_not_counted(measured, Workloads(asked.data).models(), asked.data)
        print(f"Next: python -m report{data_flag(asked.data)}")
    if failed:
        raise UserError(f"{len(failed)} of {len(asked.sources)} were not added: {_listed(failed)}; mend and add them")
    return 0


def _add(source: Path, asked: argparse.Namespace, counted: Sequence[Workload]) -> Added:
    """Check the machine in a folder or zip, and put it into the cache."""
    with handed_in.opened(source) as given:
        with given.named():
            brought = plausibility.check_counts(given.folder)
            known = [*counted, *(row for row, _, _ in brought)]
            plausibility.check(given.folder, known)
            tables = MachineFolder(asked.data, "", given.folder).tables()
        new = plausibility.new(brought, Workloads(asked.data).models())
        newest = max(tables[Environment], key=lambda row: row.recorded_at)
        if len(asked.sources) > 1:
            # A zip is called as whose it is; the folders in those of one kind of machine are called the same
            names = _own_names(source.stem if source.is_file() else given.name or source.name)
        else:
            names = iter([asked.machine or _name(asked.data, given, newest)])
        name, rows = _put(asked, names, tables)
    if new:
        Workloads(asked.data).put(new)
    measured = {
        (row.model, row.batch, row.input_shape)
        for record in (Run, Profile, HardwareCounterProfile)
        for row in tables[record]
    }
    return Added(name, newest, rows, given.left_out, measured, sorted({row.model for row, _, _ in new}))


def _put(asked: argparse.Namespace, names: Iterator[str], tables: Tables) -> tuple[str, Mapping[type, int]]:
    """Put a machine under the first of the names that is free, or holds it already."""
    for name in names:
        check_folder_name(name)
        check_folder(MachineFolder(asked.data, name).folder, "--machine")
        try:
            return name, put(asked.data, name, tables, asked.replace)
        except TakenError as problem:
            taken = problem
    raise taken


def _own_names(name: str) -> Iterator[str]:
    """Yield the name that one of several machines comes with, as a folder may be called, and then with numbers."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-._")[:60] or "machine"
    yield plain
    yield from (f"{plain}-{number}" for number in range(2, MOST_ALIKE))


def _name(data: Path, given: HandedIn, environment: Environment) -> str:
    """Choose the folder to add a machine as, where the user does not."""
    name = home(data, given.name, environment.hardware_id) or folder_name(environment)
    try:
        check_folder_name(name)
    except UserError:
        raise UserError(f"{given.origin}: {name[:80]!r} is not a folder name; choose one with --machine") from None
    return name


def _report(data: Path, added: Added) -> None:
    place = MachineFolder(data, added.name).folder
    parts = [f"{count} in {FILES[record]}" for record, count in added.rows.items() if count]
    if parts:
        print(f"Added {added.environment.name} to {place}; rows: {', '.join(parts)}")
    else:
        print(f"{place} holds all of this already; nothing was added")
    if added.counted:
        print(f"Added the counts of models of its owner: {_listed(added.counted)}")
    if added.left_out:
        print(f"Left out, not tables of a machine: {_listed([repr(path) for path in added.left_out])}")


def _say_not_counted(measured: set[tuple[str, int, str | None]], counted: Iterable[Workload], data: Path) -> None:
    """Name the models that were measured but not counted, with the command that counts them."""
    known = {(row.model, row.batch, shape) for row in counted for shape in (row.input_shape, None)}
    not_counted = measured - known
    missing = {(model, batch) for model, batch, shape in not_counted if shape == MEASURED_SHAPES.get(model, shape)}
    reshaped = {f"{model} at {shape}" for model, batch, shape in not_counted if (model, batch) not in missing}
    if reshaped:
        named = _listed(sorted(reshaped))
        print(f"Not counted here at inputs of this shape, and so without FLOP and bytes: {named}")
    if missing:
        models, batches = sorted({model for model, _ in missing}), sorted({batch for _, batch in missing})
        print(f"Not counted here, and so without FLOP and bytes: {_listed(models)}. To count them:")
        print(
            f"  python -m measure --sections workload --models {' '.join(map(shlex.quote, models))} "
            f"--batch-sizes {' '.join(map(str, batches))}{data_flag(data)}"
        )


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
