"""Put a machine's measurements into a zip: ``measure pack``."""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

from measure.cache.folders import FILES, MachineFolder, Workloads, machine_names
from measure.cache.records import Profile, RoofMeasurement, Run
from measure.cache.table import write
from measure.cache.workload_records import Workload
from measure.domain.models import OWN
from measure.errors import UserError, as_called, chosen
from measure.published.contributed import SUMS, shareable, sums_of
from measure.verbs.flags import Verbs, add_verb
from measure.verbs.terminal import name_first
from roofwright.command_line import data_flag


def add_verbs(verbs: Verbs) -> None:
    """Declare pack."""
    text = (
        "Put a machine's measurements into a zip, for somebody who adds it with python -m measure add-machine. The zip "
        "includes the counts of your own models, which nobody else can count, and the SHA-256 of each table, by which "
        "add-machine names changed tables. It holds no names of users or hosts: of an exception only the type is in "
        "it."
    )
    flags = add_verb(verbs, "pack", main, text)
    add = flags.add_argument
    add("file", nargs="?", metavar="FILE.zip", help="the zip (default: NAME.zip in the current folder)")
    add("--machine", metavar="NAME", help="the machine's folder (default: the one measured last)")


def main(flags: argparse.Namespace) -> int:
    """Return exit code 0. Raises UserError for bad input, and without measurements."""
    machine = find_machine(flags.data, flags.machine)
    target = Path(flags.file or f"{machine.name}.zip")
    print(put_into_zip(machine, flags.data, target))
    return 0


def find_machine(data: Path, name: str | None) -> MachineFolder:
    """Return the machine of this name, else the one measured last. Raises UserError without measurements."""
    known = machine_names(data)
    names = chosen("--machine", [name] if name else known, known)
    if not known:
        raise UserError(f"--data: no measurements in {data}; run {as_called('measure')}{data_flag(data)} first")
    # The machine measured last, as in the paper: a clone also holds a machine of the project
    folders = [MachineFolder(data, each) for each in names]
    machine = max(folders, key=lambda folder: folder.newest_environment().recorded_at)
    if not any(map(machine.rows, (Run, RoofMeasurement))):
        raise UserError(f"{machine.folder}: nothing was measured yet; measure with {as_called('measure')}")
    return machine


def put_into_zip(machine: MachineFolder, data: Path, target: Path) -> str:
    """Write the zip, whole or not at all, and return a line that says what is in it."""
    measured = {row.model for row in (*machine.rows(Run), *machine.rows(Profile))}
    workloads = Workloads(data)
    counted = [row for row in workloads.rows(Workload) if row.source == OWN and row.model in measured]
    left_out = 0
    try:
        with TemporaryDirectory(prefix=".packing-", dir=target.parent) as temporary:
            partial, own = Path(temporary, "machine.zip"), Workloads(Path(temporary))
            own.put((shareable(row), layers, parts) for row, layers, parts in workloads.of(counted))
            paths = {f"workload/{path.name}": path for path in (own.folder / OWN).glob("*.csv")}
            for record, rows in machine.tables().items():  # not the files: a killed run leaves rows without a round
                given = [*map(shareable, rows)]
                left_out += sum(now != row for now, row in zip(given, rows, strict=True))
                if given:
                    paths[FILES[record]] = Path(temporary, FILES[record])
                    write(paths[FILES[record]], record, given)
            with ZipFile(partial, "w", ZIP_DEFLATED) as archive:
                for name, path in paths.items():
                    archive.write(path, f"{machine.name}/{name}")
                lines = [f"{digest}  {name}\n" for name, digest in sums_of(paths).items()]
                archive.writestr(f"{machine.name}/{SUMS}", "".join(lines))
            partial.replace(target)
    except OSError as problem:
        raise UserError(f"{target} cannot be written ({problem.strerror}); name another file") from None
    models = sorted({row.model for row in counted})
    counts = f", with the counts of {name_first(models)}" if models else ""
    texts = f", without {left_out} texts of exceptions" if left_out else ""
    return f"{target}: {machine.folder}{counts}{texts}, {target.stat().st_size / 1e3:.0f} kB"
