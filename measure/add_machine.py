"""The command ``python -m measure add-machine FOLDER|ZIP``: checks another person's measurements and adds them."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from measure.adding import handed_in, placing, plausibility
from measure.adding.handed_in import HandedIn
from measure.cache.folders import FILES, MachineFolder, Workloads
from measure.cache.models import MEASURED_SHAPES
from measure.cache.records import Environment, HardwareCounterProfile, Profile, Run
from measure.cache.workload_records import Workload
from measure.cli.flags import CommandLine
from measure.errors import UserError
from measure.machine.environment import folder_name
from measure.run.arguments import check_folder_name
from measure.run.destination import check_folder, data_flag

NAMED = 5
"""How many names a line holds; of the others it gives the number."""


def parser() -> CommandLine:
    flags = CommandLine(
        prog="python -m measure add-machine",
        description="Check the folder of a machine that somebody else measured, or a zip of it, and add it to the "
        "cache. Earlier measurements of the same machine are kept. Files that are not tables are left out, and nothing "
        "is added if a row cannot have been measured.",
    )
    flags.add_argument(
        "source", metavar="FOLDER|ZIP", type=Path, help="the machine's folder from data/machines, or a zip of it"
    )
    flags.add_argument(
        "--machine",
        metavar="NAME",
        help="the folder to add it as (default: that of the same machine, else the name that it comes with)",
    )
    flags.add_argument("--replace", action="store_true", help="replace the folder of that name")
    flags.add_argument("--data", type=Path, default=Path("data"), help="the cache's folder (default: %(default)s)")
    return flags


def main(argv: Sequence[str]) -> int:
    """Exit code 0. Raises UserError for bad input, with nothing added."""
    asked = parser().parse_args(argv)
    check_folder(asked.data, "--data")
    if asked.machine is not None:
        check_folder_name(asked.machine)
    counted = Workloads(asked.data).models()
    with handed_in.opened(asked.source) as given:
        with given.named():
            plausibility.check(given.folder, counted, datetime.now(UTC))
            tables = MachineFolder(asked.data, "", given.folder).tables()
        newest = max(tables[Environment], key=lambda row: row.recorded_at)
        name = asked.machine or _name(asked.data, given, newest)
        check_folder(MachineFolder(asked.data, name).folder, "--machine")
        added = placing.put(asked.data, name, tables, asked.replace)
    _report(asked.data, name, newest, added, given.left_out)
    not_counted = _not_counted(tables, counted)
    missing = {(model, batch) for model, batch, shape in not_counted if shape == MEASURED_SHAPES.get(model, shape)}
    earlier = {f"{model} at {shape}" for model, batch, shape in not_counted if (model, batch) not in missing}
    if earlier:
        named = _listed(sorted(earlier))
        print(f"Not counted here, at inputs of an earlier version, and so without FLOP and bytes: {named}")
    if missing:
        models, batches = sorted({model for model, _ in missing}), sorted({batch for _, batch in missing})
        print(f"Not counted here, and so without FLOP and bytes: {_listed(models)}. To count them:")
        print(
            f"  python -m measure --sections workload --models {' '.join(map(shlex.quote, models))} "
            f"--batch-sizes {' '.join(map(str, batches))}{data_flag(asked.data)}"
        )
    print(f"Next: python -m report{data_flag(asked.data)}")
    return 0


def _name(data: Path, given: HandedIn, environment: Environment) -> str:
    """Choose the folder to add a machine as, where the user does not."""
    name = placing.home(data, given.name, environment.hardware_id) or folder_name(environment)
    try:
        check_folder_name(name)
    except UserError:
        raise UserError(f"{given.origin}: {name[:80]!r} is not a folder name; choose one with --machine") from None
    return name


def _report(
    data: Path, name: str, environment: Environment, added: Mapping[type, int], left_out: Sequence[str]
) -> None:
    place = MachineFolder(data, name).folder
    parts = [f"{count} in {FILES[record]}" for record, count in added.items() if count]
    if parts:
        print(f"Added {environment.name} to {place}; rows: {', '.join(parts)}")
    else:
        print(f"{place} holds all of this already; nothing was added")
    if left_out:
        print(f"Left out, not tables of a machine: {_listed([repr(path) for path in left_out])}")


def _not_counted(tables: Mapping[type, Sequence[Any]], counted: Iterable[Workload]) -> set[tuple[str, int, str | None]]:
    """Return the models, batch sizes and input shapes, where known, that were measured but not counted."""
    rows = [row for record in (Run, Profile, HardwareCounterProfile) for row in tables[record]]
    known = {(row.model, row.batch, shape) for row in counted for shape in (row.input_shape, None)}
    return {(row.model, row.batch, row.input_shape) for row in rows} - known


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
