"""What a reader sets of the paper beside its words: under `roofwright` in `_quarto.yml`, or by flags.

The chapters' Python runs in the project's folder, under either engine, and finds both there: flags reach it, as they
reach Quarto, by environment variables.
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

HERE = "ROOFWRIGHT_HERE"  # this variable names the folder in which the reader runs the command


def machines(data: Path, root: Path = Path()) -> list[str]:
    """Return the folders of the machines that are chosen, in that order; none where all are meant.

    Raises UserError for a name that is no machine's folder in the data folder.
    """
    names, known = _names("machines", root), machine_names(data)
    if names and not known:
        raise UserError(
            f"{data} holds no machine, so none can be chosen; measure one first with {as_called('measure')}"
        )
    for name in names:
        if name not in known:
            raise unknown(f"--machines, or roofwright: machines in {SETTINGS_FILE}", name, known)
    return list(dict.fromkeys(names))


def choose(what: str, known: Collection[str], root: Path = Path()) -> set[str]:
    """Return those of the known ``models`` or ``chips`` that are chosen, by names or globs; all without a choice.

    Raises UserError for a name or a glob that fits none.
    """
    names = _names(what, root)
    for name in names:
        if not matching(known, name):
            raise unknown(f"--{what}, or roofwright: {what} in {SETTINGS_FILE}", name, sorted(known))
    return {each for name in names or ["*"] for each in matching(known, name)}


def measure_command(flags: str = "") -> str:
    """Return the command that measures what a figure or value lacks, with the flags that find this cache."""
    own, named = _flags(os.environ.get("ROOFWRIGHT_DATA", ""), Path.cwd(), Path(os.environ.get(HERE, Path.cwd())))
    return f"python -m measure{own}{'' if '--models' in flags else named} {flags}".rstrip()


FEW = 6  # so many models a command names; of more it measures the list that it has


@cache
def _flags(data: str, root: Path, here: Path) -> tuple[str, str]:
    """Return the flags by which ``python -m measure`` finds this cache, and those that name its models if they are few.

    Neither for the project's own cache, which holds the usual models. The paper may be handed in, so it names no folder
    above the one where the reader stands.
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
    """Load the paper of the project in this folder, from ROOFWRIGHT_DATA or else from its own data, as the reader set.

    ``chosen`` are machines instead of the reader's, all if empty. Raises UserError for a choice that matches nothing.
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


def _names(what: str, root: Path) -> list[str]:
    """Return the names chosen in the project in a folder; none in another, from which someone may read tables too."""
    return read_project(root).chosen(what) if (root / SETTINGS_FILE).is_file() else []
