"""A reader's choices: under `roofwright` in `_quarto.yml`, or by flags.

The chapters' Python runs in the project's folder under either engine. Flags reach it, and Quarto, by environment
variables.
"""

import os
import shlex
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.domain.records import Run
from measure.domain.workload_records import Workload
from measure.errors import UserError, as_called, matching, unknown
from report.engine.project import SETTINGS_FILE, read_project
from roofwright.command_line import data_flag

if TYPE_CHECKING:
    from report.paper import Paper

HERE = "ROOFWRIGHT_HERE"  # this variable is the folder of the reader's command
AUTHOR = "ROOFWRIGHT_AUTHOR"  # and this the author of the paper, for ``report.title_block``


def machines(data: Path, root: Path = Path()) -> list[str]:
    """Return the folders of the chosen machines in their order; none means all.

    Raises UserError for an unknown machine.
    """
    names, folders = _names("machines", root), machine_names(data)
    if names and not folders:
        raise UserError(
            f"{data} holds no machine, so none can be chosen; measure one first with {as_called('measure')}"
        )
    for name in names:
        if name not in folders:
            raise unknown(f"--machines, or roofwright: machines in {SETTINGS_FILE}", name, folders)
    return list(dict.fromkeys(names))


def choose(kind: str, available: Collection[str], root: Path = Path()) -> set[str]:
    """Return the available ``models`` or ``chips`` that a reader chose by names or globs, by default all.

    Raises UserError for a name or glob without a match.
    """
    names = _names(kind, root)
    for name in names:
        if not matching(available, name):
            raise unknown(f"--{kind}, or roofwright: {kind} in {SETTINGS_FILE}", name, sorted(available))
    return {each for name in names or ["*"] for each in matching(available, name)}


def measure_command(flags: str = "") -> str:
    """Return the command that measures missing data, with the flags for this cache."""
    own, named = _flags(os.environ.get("ROOFWRIGHT_DATA", ""), Path.cwd(), Path(os.environ.get(HERE, Path.cwd())))
    return f"python -m measure{own}{'' if '--models' in flags else named} {flags}".rstrip()


def gpu_command() -> str:
    """Return the command that measures networks on a GPU, kernels and training steps included."""
    return measure_command("--device cuda --sections workload inference training operators")


FEW = 6  # the most models that a command names


@cache
def _flags(data: str, root: Path, here: Path) -> tuple[str, str]:
    """Return the flags of ``python -m measure`` for this cache, and for its models if they are few.

    The project's own cache with the usual models needs neither. No folder above the reader's is named, since a reader
    may publish the paper.
    """
    folder = Path(data)
    if not data or folder.resolve() == (root / "data").resolve():
        return "", ""
    place = folder.relative_to(here) if folder.is_relative_to(here) else "DIR"
    timed = {row.model for name in machine_names(folder) for row in MachineFolder(folder, name).rows(Run)}
    models = sorted(timed | {row.model for row in Workloads(folder).rows(Workload)})
    named = f" --models {shlex.join(models)}" if 0 < len(models) <= FEW else ""
    return data_flag(Path(place)), named


def load_paper(chosen: Sequence[str] | None = None) -> "Paper":
    """Load the paper of the project in this folder with the reader's choices, from ROOFWRIGHT_DATA or its own data.

    ``chosen`` replaces the reader's machines; empty means all. Raises UserError for a choice without a match.
    """
    from report.paper import PROJECTS, load  # late: pandas takes a second, and other functions need none

    data = Path(os.environ.get("ROOFWRIGHT_DATA") or PROJECTS)
    return load(
        data,
        *map(Path, read_project(Path()).files("bibliography")),
        chosen=machines(data) if chosen is None else chosen,
        choose=choose,
        projects=PROJECTS,
    )


def _names(kind: str, root: Path) -> list[str]:
    """Return the names chosen in a project; none in a folder that is not a project."""
    return read_project(root).chosen(kind) if (root / SETTINGS_FILE).is_file() else []
