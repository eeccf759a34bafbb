"""The command ``python -m measure pack``: what a machine measured, in a zip that another person can add."""

import os
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZIP_DEFLATED, ZipFile

from measure.cache.folders import FILES, Counts, MachineFolder, Workloads, machine_names
from measure.domain.models import OWN
from measure.errors import UserError, unknown
from measure.verbs.flags import CommandLine, check_folder, data_flag


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure pack",
        description="Put what a machine measured into a zip, for somebody who adds it with python -m measure "
        "add-machine. With it go the counts of models of your own, which nobody else can count. It holds no names of "
        "users or hosts.",
    )
    flags.add_argument(
        "file", metavar="FILE.zip", type=Path, nargs="?", help="the zip (default: NAME.zip in the current folder)"
    )
    flags.add_argument("--machine", metavar="NAME", help="the machine's folder (default: the one measured last)")
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    return flags


def main(argv: Sequence[str]) -> int:
    """Return exit code 0. Raises UserError for bad input, and where nothing was measured."""
    asked = parser().parse_args(argv)
    check_folder(asked.data, "--data")
    machine = MachineFolder(asked.data, _chosen(asked.data, asked.machine))
    if not (machine.runs() or machine.roof_measurements()):
        raise UserError(f"{machine.folder}: nothing was measured yet; measure with python -m measure")
    target = asked.file or Path(f"{machine.name}.zip")
    if target.is_dir():
        raise UserError(f"{target} is a folder; name a file that ends in .zip")
    try:
        models = write(machine, Workloads(asked.data), target)
    except OSError as problem:
        raise UserError(f"{target} cannot be written ({problem.strerror}); name another file") from None
    counts = f", with the counts of {', '.join(models)}" if models else ""
    print(f"{target}: {machine.folder}{counts}, {target.stat().st_size / 1e3:.0f} kB")
    return 0


def _chosen(data: Path, name: str | None) -> str:
    known = machine_names(data)
    if name is not None and name not in known:
        raise unknown("--machine", name, known)
    if not known:
        raise UserError(f"--data: {data} holds no machine; measure one with python -m measure{data_flag(data)}")
    # As in the paper the one measured last: with a clone comes a machine of the project
    return name or max(known, key=lambda each: MachineFolder(data, each).newest_environment().recorded_at)


def write(machine: MachineFolder, workloads: Workloads, target: Path) -> list[str]:
    """Write a machine's tables, and the counts of its own models, whole or not at all; return these models."""
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    measured = {row.model for row in (*machine.runs(), *machine.profiles())}
    counted = [row for row in workloads.models() if row.source == OWN and row.model in measured]
    models = sorted({row.model for row in counted})
    try:
        with ZipFile(partial, "w", ZIP_DEFLATED) as archive, TemporaryDirectory() as temporary:
            for record in FILES:
                path = machine.folder / FILES[record]
                if path.is_file():
                    archive.write(path, f"{machine.name}/{FILES[record]}")
            if counted:
                own = Counts(Path(temporary))
                own.put(workloads.of(counted))
                for path in (own.models_path, own.layers_path, own.operators_path):
                    archive.write(path, f"{machine.name}/workload/{path.name}")
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)
    return models
