"""Measurements on their way to another person's cache: ``measure pack``, ``share`` and ``add-machine``."""

import argparse
import hashlib
import json
import re
import shlex
import shutil
import sys
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from itertools import count
from operator import attrgetter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

from measure.cache.folders import ADDED, FILES, MEASURED, Folder, MachineFolder, Workloads, machine_names
from measure.cache.project import ROOT
from measure.cache.table import in_turn, write
from measure.domain.models import ALL_MEASURED, MEASURED_SHAPES, OWN
from measure.domain.records import DataParallelStep, Environment, HardwareCounterProfile, Profile, Run, Sample
from measure.domain.schema import TABLES
from measure.domain.words import stored_as
from measure.domain.workload_records import Workload
from measure.errors import UserError, as_called, chosen, printable, quote
from measure.machine.environment import folder_name
from measure.machine.processor import output_of
from measure.published import contributed, contributed_checks
from measure.published.contributed import SUMS, shareable, sums_of
from measure.verbs.flags import Verbs, add_verb, check_folder, next_step, no_measurements, parse_folder_name
from measure.verbs.terminal import name_first
from roofwright.command_line import data_flag

Tables = Mapping[type, Sequence[Any]]
Cells = set[tuple[str, int, str, str | None]]  # models, batch sizes, stored precisions and, if known, input shapes

FORM = "machine.yml"  # the issue form in .github/ISSUE_TEMPLATE
MOST_BYTE = 25 * 10**6  # of a file that GitHub's issues take
MOST_NAMED = 12  # the most models that a command names one by one
SAME = 0.9  # two machines never share so many samples to the last digit


class TakenError(UserError):
    """A folder holds another machine, or other results of the same cells."""


def add_verbs(verbs: Verbs) -> None:
    packing, sharing = add_verb(verbs, "pack", pack), add_verb(verbs, "share", share)
    for flags in (packing, sharing):
        text = "the zip (default: NAME.zip in the current folder)"
        flags.add_argument("file", nargs="?", metavar="FILE.zip", help=text)
        flags.add_argument("--machine", metavar="NAME", help="the machine's folder (default: the one measured last)")
    text = "who measured, for the line that cites it (default: %(default)s)"
    sharing.add_argument("--author", default="Anonymous", metavar="NAME", help=text)
    add = add_verb(verbs, "add-machine", add_machines).add_argument
    add("sources", nargs="+", metavar="FOLDER|ZIP", help="a machine's folder from data/machines, or a zip")
    text = "the folder to add it as (default: the folder of the same machine, else its own name)"
    add("--machine", type=parse_folder_name, metavar="NAME", help=text)
    add("--replace", action="store_true", help="replace the folder of that name")


def pack(flags: argparse.Namespace) -> int:
    """Put a machine's measurements into a zip, for somebody who adds it with python -m measure add-machine. The zip
    includes the counts of your own models, which nobody else can count, and the SHA-256 of each table, so that
    add-machine can name changed tables. It holds no names of users or hosts: of an exception only the type is in it.
    """
    _pack(flags)
    return 0


def share(flags: argparse.Namespace) -> int:
    """Share a machine's measurements in one step: put them into a zip, check it as add-machine does, and say how to
    send it. Nothing is sent, and neither an account nor a network is needed. The zip holds no names of users or hosts:
    of an exception only the type is in it.
    """
    machine, target = _pack(flags)
    try:
        with contributed.opened(target) as given:
            contributed_checks.check(given.folder, Workloads(flags.data).rows(Workload))
    except UserError as problem:
        raise UserError(
            f"{problem}. The zip stays, but would be refused: forget those rows, or measure them again"
        ) from None
    print("Checked: add-machine takes it.")
    print(*how_to_send(target), "", "To cite it, add this line below references: in a CITATION.cff:", sep="\n")
    print(f"  {citation(machine, target, flags.author)}")
    return 0


def _pack(flags: argparse.Namespace) -> tuple[MachineFolder, Path]:
    """Put the machine that the flags name into a zip, and return both."""
    machine = find_machine(flags.data, flags.machine)
    target = Path(flags.file or f"{machine.name}.zip")
    print(put_into_zip(machine, flags.data, target))
    return machine, target


def find_machine(data: Path, name: str | None) -> MachineFolder:
    """Return the machine of this name, else the one measured last. Raises UserError without measurements."""
    names = machine_names(data)
    if not names:
        raise no_measurements(data)
    # The machine measured last, as in the paper: a clone also holds a machine of the project
    folders = [MachineFolder(data, each) for each in chosen("--machine", [name] if name else names, names)]
    machine = max(folders, key=lambda folder: folder.newest_environment().recorded_at)
    if not any(map(machine.rows, MEASURED)):
        raise UserError(f"{machine.folder}: nothing was measured yet; measure with {as_called('measure')}")
    return machine


def put_into_zip(machine: MachineFolder, data: Path, target: Path) -> str:
    """Write the zip, whole or not at all, and return a line about its contents."""
    of_models = Run, Profile, HardwareCounterProfile, DataParallelStep
    measured = {row.model for record in of_models for row in machine.rows(record)}
    workloads = Workloads(data)
    counted = [row for row in workloads.rows(Workload) if row.source == OWN and row.model in measured]
    left_out, partial = 0, target.with_name(f".{target.name}.part")  # the next pack replaces it after a kill
    try:
        with TemporaryDirectory() as temporary:
            own = Workloads(Path(temporary))
            own.put((shareable(row), layers, parts) for row, layers, parts in workloads.of(counted))
            paths = {f"workload/{path.name}": path for path in (own.folder / OWN).glob("*.csv")}
            for record, rows in machine.tables().items():  # not the files: a killed run leaves rows without a round
                given = [*map(shareable, rows)]
                left_out += sum(now != row for now, row in zip(given, rows, strict=True))
                if given:
                    paths[FILES[record]] = Path(temporary, FILES[record])
                    write(paths[FILES[record]], record, given)
            zipped = Path(temporary, "machine.zip")
            with ZipFile(zipped, "w", ZIP_DEFLATED) as archive:
                for name, path in paths.items():
                    archive.write(path, f"{machine.name}/{name}")
                lines = [f"{digest}  {name}\n" for name, digest in sums_of(paths).items()]
                archive.writestr(f"{machine.name}/{SUMS}", "".join(lines))
            shutil.copyfile(zipped, partial)
        partial.replace(target)
    except OSError as problem:
        with suppress(OSError):
            partial.unlink(missing_ok=True)
        raise UserError(f"{target} cannot be written ({problem.strerror}); name another file") from None
    models = sorted({row.model for row in counted})
    counts = f", with the counts of {name_first(models)}" if models else ""
    texts = f", without {left_out} texts of exceptions" if left_out else ""
    return f"{target}: {machine.folder}{counts}{texts}, {target.stat().st_size / 1e3:.0f} kB"


def how_to_send(target: Path) -> list[str]:
    """Return the ways to send a zip, with the address of the project's form if this clone knows it."""
    origin = output_of("git", "-C", str(ROOT), "remote", "get-url", "origin") if (ROOT / ".git").exists() else ""
    found = re.fullmatch(r"(?:https://|git@|ssh://git@)github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?", origin)
    where = "Issues, New issue, Measurements of a machine"
    if found:
        where = f"https://github.com/{found[1]}/issues/new?template={FORM}"
    lines = [f"To send it, open {where} and drop {target} into the form."]
    if target.stat().st_size > MOST_BYTE:
        lines = [f"{target} is too large for an issue (25 MB): send it by another way, or open a pull request."]
    return [*lines, f"Or give the file to anyone with a clone: python -m measure add-machine {target.name}"]


def citation(machine: MachineFolder, zipped: Path, author: str) -> str:
    """Return one entry of ``references`` in a CITATION.cff (version 1.2.0)."""
    runs, newest = machine.rows(Run), machine.newest_environment()
    dates = [row.recorded_at[:10] for row in runs] + [row.recorded_at[:10] for row in machine.rows(Environment)]
    newest_run = max(runs, key=attrgetter("recorded_at"), default=None)
    made_with = [f"Roofwright {newest_run.version}"] if newest_run and newest_run.version else []
    digest = hashlib.sha256(zipped.read_bytes()).hexdigest()
    torch = [f"torch {newest.torch}"] if newest.torch else []  # imported counters come without
    notes = ", ".join([*made_with, *torch, f"{len(runs)} rounds", f"SHA-256 {digest}"])
    entry = {
        "type": "data",
        "title": f"Measurements of {newest.name} ({machine.name})",
        "authors": [{"name": author}],
        "date-released": max(dates),
        "notes": notes,
    }
    return f"- {json.dumps(entry, ensure_ascii=False)}"  # JSON is YAML


def add_machines(flags: argparse.Namespace) -> int:
    """Check the folder of a machine that somebody else measured, or a zip of it, and add it to the cache. Earlier
    measurements of the same machine stay. Files that are not tables are left out. Nothing is added if a row cannot have
    been measured. Several folders or zips become one machine each, named after the file or folder, even if they are of
    one kind.
    """
    if flags.machine is not None and len(flags.sources) > 1:
        raise UserError("--machine: names one machine; give one folder or zip with it")
    measured: Cells = set()
    failed, names = [], set()
    with in_turn(flags.data / "machines"):  # or two of them would take one name, or add one machine twice
        for unfinished in (flags.data / "machines").glob(f"*/{ADDED}"):
            with MachineFolder(flags.data, unfinished.parent.name).locked():
                """The lock finishes the work of a killed process."""
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
        print(f"Warning: these machines have nearly the same samples, so some may be copies: {name_first(alike)}")
    if names:
        _print_uncounted(measured, flags.data)
        print(next_step(flags.data))
    if failed:
        number = f"{len(failed)} of {len(flags.sources)}"
        raise UserError(f"{number} were not added: {name_first(failed)}; correct and add them")
    return 0


def _latencies(folder: Folder) -> Counter[float]:
    return Counter(folder.columns(Sample, only=["latency_s"])["latency_s"])


def _copies(latencies: Mapping[str, Counter[float]], new: Set[str]) -> list[list[str]]:
    """Group machines with nearly equal samples; return the groups that have a new machine.

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
        tables, new = contributed_checks.check(given.folder, workloads.rows(Workload))
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
        print(f"Warning: changed since {as_called('measure pack')} made {source}: {changed}")
    if given.left_out:
        print(f"Left out, not tables of a machine: {name_first([*map(quote, given.left_out)])}")
    tried = (row for record in (Run, Profile, HardwareCounterProfile, DataParallelStep) for row in tables[record])
    return name, {(row.model, row.batch, stored_as(row.precision), row.input_shape) for row in tried}


def home(data: Path, name: str | None, hardware_id: str) -> str | None:
    """Return the folder that already holds this machine, ``name`` if several do or none."""
    folders = [MachineFolder(data, each) for each in machine_names(data)]
    holders = [each.name for each in folders if hardware_id in {row.hardware_id for row in each.rows(Environment)}]
    return name if name in holders or not holders else holders[0]


def put(data: Path, name: str, tables: Tables, replace: bool) -> dict[type, int]:
    """Put tables into ``machines/name``, whole or not at all, and return the number of added rows by record.

    Earlier rows stay, unless ``replace`` is set. Raises UserError if ``_merge`` does, or if another process writes.
    """
    target = MachineFolder(data, name)
    with target.locked():
        before = {record: [] for record in tables} if replace else target.tables()
        together = _merge(target.folder, before, tables)
        added = {record: len(rows) - len(before[record]) for record, rows in together.items()}
        if replace or any(added.values()):
            target.replace(together)
    return added


def _merge(place: Path, old: Tables, new: Tables) -> Tables:
    """Add new rows to the old ones. Raises TakenError if they are of two machines, or differ on a cell."""
    hardware = {row.hardware_id for row in old[Environment]}
    if hardware and hardware != {row.hardware_id for row in new[Environment]}:
        remedy = "name another folder with --machine NAME, or use --replace to put this one in its place"
        raise TakenError(f"{place}: holds another machine ({quote(old[Environment][0].name)}); {remedy}")
    together = {}
    for record, rows in new.items():
        key = attrgetter(*TABLES[record].key)
        by_key = {key(row): row for row in old[record]}
        differing = [row for row in rows if shareable(by_key.get(key(row), row)) != shareable(row)]
        if differing and record is not Environment:  # another folder may have seen an environment at another time
            example = " ".join(str(getattr(differing[0], column)) for column in TABLES[record].key[1:])
            clash = f"has other results for {len(differing)} of the same rows, such as {example!r}"
            remedy = "use --replace to replace the old folder, or keep both with --machine NAME"
            raise TakenError(f"{place / FILES[record]}: {clash}; {remedy}")
        together[record] = [*old[record], *(row for row in rows if key(row) not in by_key)]
    return together


def _print_uncounted(measured: Cells, data: Path) -> None:
    """Name the models that were measured but not counted, with the command that counts them."""
    rows = Workloads(data).rows(Workload)
    uncounted = measured - {
        (row.model, row.batch, row.precision, shape) for row in rows for shape in (row.input_shape, None)
    }
    named = {cell[:3] for cell in uncounted if cell[3] == MEASURED_SHAPES.get(cell[0], cell[3])}
    reshaped = sorted({f"{cell[0]} at {cell[3]}" for cell in uncounted if cell[:3] not in named})
    if reshaped:
        print(f"Not counted here at inputs of this shape, and so without FLOP and bytes: {name_first(reshaped)}")
    if named:
        models, batches, precisions = (sorted(set(column)) for column in zip(*named, strict=True))
        # A command of a thousand names cannot be copied, and some systems refuse it
        selected = ALL_MEASURED if len(models) > MOST_NAMED else " ".join(map(shlex.quote, models))
        cells = f"--models {selected} --batch-sizes {' '.join(map(str, batches))} --precisions {' '.join(precisions)}"
        print(f"Not counted here, and so without FLOP and bytes: {name_first(models)}. To count them:")
        print(f"  {as_called('measure')} --sections workload {printable(cells)}{data_flag(data)}")
