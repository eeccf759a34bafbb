"""Add the measurements of another person's machine to the cache: ``measure add-machine``."""

import argparse
import re
import shlex
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any

from measure.cache.folders import ADDED, FILES, Folder, MachineFolder, Workloads, machine_names
from measure.cache.records import Environment, HardwareCounterProfile, Profile, Run, Sample
from measure.cache.schema import TABLES
from measure.cache.table import in_turn
from measure.cache.workload_records import Workload
from measure.domain.models import ALL_MEASURED, MEASURED_SHAPES
from measure.errors import UserError, as_called, printable, quote
from measure.machine.environment import folder_name
from measure.published import contributed, contributed_checks
from measure.published.contributed import shareable
from measure.verbs.flags import Verbs, add_verb, check_folder, parse_folder_name
from measure.verbs.terminal import name_first
from roofwright.command_line import data_flag

Tables = Mapping[type, Sequence[Any]]
Cells = set[tuple[str, int, str | None]]  # models, batch sizes and, if known, input shapes


MOST_NAMED = 12  # the most models that a command names one by one
SAME = 0.9  # two machines never share so many samples to the last digit


class TakenError(UserError):
    """A folder holds another machine, or other results of the same cells."""


def add_verbs(verbs: Verbs) -> None:
    """Declare add-machine."""
    text = (
        "Check the folder of a machine that somebody else measured, or a zip of it, and add it to the cache. Earlier "
        "measurements of the same machine stay. Files that are not tables are left out. Nothing is added if a row "
        "cannot have been measured. Several folders or zips become one machine each, named after the file or folder, "
        "even if they are of one kind."
    )
    flags = add_verb(verbs, "add-machine", main, text)
    add = flags.add_argument
    add("sources", nargs="+", metavar="FOLDER|ZIP", help="a machine's folder from data/machines, or a zip")
    text = "the folder to add it as (default: the folder of the same machine, else its own name)"
    add("--machine", type=parse_folder_name, metavar="NAME", help=text)
    add("--replace", action="store_true", help="replace the folder of that name")


def main(flags: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input; sound machines among several are added first."""
    if flags.machine is not None and len(flags.sources) > 1:
        raise UserError("--machine: names one machine; give one folder or zip with it")
    measured: Cells = set()
    failed, names = [], set()
    with in_turn(flags.data / "machines"):  # or two of them would take one name, or add one machine twice
        for unfinished in (flags.data / "machines").glob(f"*/{ADDED}"):
            with MachineFolder(flags.data, unfinished.parent.name).locked():
                """Taking the lock finishes what a killed process left."""
        latencies = {name: _latencies(MachineFolder(flags.data, name)) for name in machine_names(flags.data)}
        for source in flags.sources:
            try:
                name, cells = _add(Path(source), flags)
            except UserError as problem:
                if len(flags.sources) == 1:
                    raise
                print(printable(str(problem)), file=sys.stderr)
                failed.append(source)
            else:
                measured |= cells
                names.add(name)
                latencies[name] = _latencies(MachineFolder(flags.data, name))
    for alike in _copies(latencies, names):
        print(f"Mind: these machines have nearly the same samples, so some may be copies: {name_first(alike)}")
    if names:
        _print_uncounted(measured, flags.data)
        print(f"Next: {as_called('report')}{data_flag(flags.data)}")
    if failed:
        number = f"{len(failed)} of {len(flags.sources)}"
        raise UserError(f"{number} were not added: {name_first(failed)}; correct and add them")
    return 0


def _latencies(folder: Folder) -> Counter[float]:
    return Counter(folder.columns(Sample, only=["latency_s"])["latency_s"])


def _copies(latencies: Mapping[str, Counter[float]], new: Set[str]) -> list[list[str]]:
    """Group machines whose samples are nearly all equal; return the groups that have a new machine.

    ``latencies`` are the samples of each machine. Each is compared with the first of the groups that share a sample.
    """
    groups: list[list[str]] = []
    holders: dict[float, list[int]] = defaultdict(list)  # the groups by the latencies of their first machine
    for name in sorted(latencies, key=new.__contains__):
        own, shared = latencies[name], Counter[int]()
        for latency, number in own.items():
            for group in holders[latency]:
                shared[group] += min(number, latencies[groups[group][0]][latency])
        likest = max(shared, key=shared.__getitem__, default=None)
        if likest is not None and shared[likest] > SAME * own.total():
            groups[likest].append(name)
        else:
            for latency in own:
                holders[latency].append(len(groups))
            groups.append([name])
    return [group for group in groups if len(group) > 1 and not new.isdisjoint(group)]


def _add(source: Path, flags: argparse.Namespace) -> tuple[str, Cells]:
    """Check the machine in a folder or zip, and add it. Return its name here and the cells that it measured."""
    workloads = Workloads(flags.data)
    with contributed.opened(source) as given:
        new = contributed_checks.check(given.folder, workloads.rows(Workload))
        tables = Folder(given.folder).tables()
        newest = max(tables[Environment], key=attrgetter("recorded_at"))
        if len(flags.sources) == 1:
            name = flags.machine or home(flags.data, given.name, newest.hardware_id) or folder_name(newest)
        else:
            # A zip carries its owner's name; the folders inside, of one kind of machine, have equal names
            own = source.stem if source.is_file() else given.name or source.name
            own = unicodedata.normalize("NFC", own)  # zips from macOS take letters and their accents apart
            name = own = re.sub(r"[^\w.-]+", "-", own).strip("-._")[:60] or "machine"
        parse_folder_name(name)
    for number in count(2):
        place = MachineFolder(flags.data, name).folder
        check_folder(place, "--machine")
        try:
            added = put(flags.data, name, tables, flags.replace)
            break
        except TakenError:
            if len(flags.sources) == 1:
                raise
            name = f"{own}-{number}"
    if new:
        workloads.put(new)
    if rows := ", ".join(f"{number} in {FILES[record]}" for record, number in added.items() if number):
        print(f"Added {newest.name} to {place}; rows: {rows}")
    else:
        print(f"{place} holds all of this already; nothing was added")
    if new:
        print(f"Added the counts of models of its owner: {name_first(sorted({row.model for row, _, _ in new}))}")
    if given.changed:
        changed = name_first([*map(quote, given.changed)])
        print(f"Mind: changed since {as_called('measure pack')} made {source}: {changed}")
    if given.left_out:
        print(f"Left out, not tables of a machine: {name_first([*map(quote, given.left_out)])}")
    tried = (row for record in (Run, Profile, HardwareCounterProfile) for row in tables[record])
    return name, {(row.model, row.batch, row.input_shape) for row in tried}


def home(data: Path, name: str | None, hardware_id: str) -> str | None:
    """Return the folder that already holds this machine, ``name`` if several do or none."""
    folders = [MachineFolder(data, known) for known in machine_names(data)]
    holders = [each.name for each in folders if hardware_id in {row.hardware_id for row in each.rows(Environment)}]
    return name if name in holders or not holders else holders[0]


def put(data: Path, name: str, tables: Tables, replace: bool) -> dict[type, int]:
    """Put tables into ``machines/name``, whole or not at all, and return the number of added rows by record.

    Earlier rows stay, unless ``replace`` is set. Raises UserError if ``_merge`` does, or if another process writes.
    """
    target = MachineFolder(data, name)
    with target.locked():
        known = {record: [] for record in tables} if replace else target.tables()
        together = _merge(target.folder, known, tables)
        added = {record: len(rows) - len(known[record]) for record, rows in together.items()}
        if replace or any(added.values()):
            target.replace(together)
    return added


def _merge(place: Path, known: Tables, new: Tables) -> Tables:
    """Add new rows to the known ones. Raises TakenError if they are of two machines, or differ on a cell."""
    hardware = {row.hardware_id for row in known[Environment]}
    if hardware and hardware != {row.hardware_id for row in new[Environment]}:
        remedy = "name another folder with --machine NAME, or use --replace to put this one in its place"
        raise TakenError(f"{place}: holds another machine ({quote(known[Environment][0].name)}); {remedy}")
    together = {}
    for record, rows in new.items():
        key = attrgetter(*TABLES[record].key)
        by_key = {key(row): row for row in known[record]}
        differing = [row for row in rows if shareable(by_key.get(key(row), row)) != shareable(row)]
        if differing and record is not Environment:  # another folder may have seen an environment at another time
            example = " ".join(str(getattr(differing[0], column)) for column in TABLES[record].key[1:])
            clash = f"has other results for {len(differing)} of the same rows, such as {example!r}"
            remedy = "use --replace to replace the old folder, or keep both with --machine NAME"
            raise TakenError(f"{place / FILES[record]}: {clash}; {remedy}")
        together[record] = [*known[record], *(row for row in rows if key(row) not in by_key)]
    return together


def _print_uncounted(measured: Cells, data: Path) -> None:
    """Name the models that were measured but not counted, with the command that counts them."""
    rows = Workloads(data).rows(Workload)
    uncounted = measured - {(row.model, row.batch, shape) for row in rows for shape in (row.input_shape, None)}
    usual = {(model, batch) for model, batch, shape in uncounted if shape == MEASURED_SHAPES.get(model, shape)}
    reshaped = sorted({f"{model} at {shape}" for model, batch, shape in uncounted if (model, batch) not in usual})
    if reshaped:
        print(f"Not counted here at inputs of this shape, and so without FLOP and bytes: {name_first(reshaped)}")
    if usual:
        models, batches = (sorted(set(column)) for column in zip(*usual, strict=True))
        # A command of a thousand names cannot be copied, and some systems refuse it
        named = ALL_MEASURED if len(models) > MOST_NAMED else " ".join(map(shlex.quote, models))
        asked = f"--models {named} --batch-sizes {' '.join(map(str, batches))}"
        print(f"Not counted here, and so without FLOP and bytes: {name_first(models)}. To count them:")
        print(f"  {as_called('measure')} --sections workload {printable(asked)}{data_flag(data)}")
