"""The command ``python -m measure forget MODEL``: removes models from the cache."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.records import HardwareCounterProfile, Profile, Run
from measure.errors import chosen, unknown
from measure.verbs.flags import CommandLine, check_folder

WORDS = {Run: "rounds", Profile: "profiles", HardwareCounterProfile: "profiles under hardware counters"}
"""What the rows of a table are, as the command says it."""


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure forget",
        description="Remove from the cache what was measured of models on every machine, and what was counted of "
        "them. With --machine only what was measured there goes. Nothing brings it back but measuring again.",
    )
    flags.add_argument("models", nargs="+", metavar="MODEL", help="names, or globs such as 'mine:*'")
    flags.add_argument("--machine", nargs="+", metavar="NAME", help="the machines' folders (default: all, and counts)")
    flags.add_argument("--plan", action="store_true", help="say what would go, and remove nothing")
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    return flags


def main(argv: Sequence[str]) -> int:
    """Return exit code 0. Raises UserError for bad input, before anything is removed."""
    asked = parser().parse_args(argv)
    check_folder(asked.data, "--data")
    known = machine_names(asked.data)
    for name in asked.machine or ():
        if name not in known:
            raise unknown("--machine", name, known)
    folders = [MachineFolder(asked.data, name) for name in asked.machine or known]
    workloads = Workloads(asked.data)
    tried = {folder.folder: folder.tried() for folder in folders}
    counted = [] if asked.machine else workloads.models()
    rows = [row for tables in tried.values() for table in tables.values() for row in table]
    models = chosen("MODEL", asked.models, {row.model for row in (*rows, *counted)})
    for place, tables in tried.items():
        _say(place, models, {WORDS[record]: table for record, table in tables.items()})
    _say(workloads.folder, models, {"counts": counted})
    if asked.plan:
        print(f"Would forget {', '.join(sorted(models))}")
        return 0
    for folder in folders:
        with folder.locked():
            folder.leave_out(models)
    if not asked.machine:
        workloads.leave_out(models)
    print(f"Forgot {', '.join(sorted(models))}")
    return 0


def _say(place: Path, models: Collection[str], tables: Mapping[str, Sequence[Any]]) -> None:
    """Print how many rows of the models each table in a folder holds, if any does."""
    counts = {what: sum(row.model in models for row in rows) for what, rows in tables.items()}
    if parts := [f"{what}: {count}" for what, count in counts.items() if count]:
        print(f"{place}: {', '.join(parts)}")
