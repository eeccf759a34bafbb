"""What a render ends with: where the paper is, what it says in short, and what to do next."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.records import Environment
from report.headline import headline
from report.paper import options
from roofwright.command_line import data_flag


def lines(written: Sequence[Path], data: Path) -> list[str]:
    """Return where the files are, with the page's address, the headline of the machine measured last, and what next."""
    said = [f"{path}  {path.stat().st_size / 1e6:.1f} MB" for path in written]
    said += [f"Open {path.resolve().as_uri()}" for path in written if path.suffix == ".html"]
    folders = [MachineFolder(data, name) for name in options.machines(data) or machine_names(data)]
    environments = [(row, folder) for folder in folders for row in folder.rows(Environment)]
    if not environments:
        return said
    environment, folder = max(environments, key=lambda each: each[0].recorded_at)
    said += ["", *headline(folder, environment, Workloads(data))]
    following = _next(data)
    width = max(len(command) for command, _ in following)
    return [*said, "", "Next:", *(f"  {command:<{width}}  {what}" for command, what in following)]


def _next(data: Path) -> list[tuple[str, str]]:
    """Return three commands that a reader may run next, each with what it does."""
    python, flag = _python(), data_flag(data)
    return [
        (f"{python} -m measure model resnet50{flag}", "what one model waits for, layer by layer"),
        (f"{python} -m measure --budget 20m{flag}", "more models and rounds; render again afterwards"),
        (f"{python} -m measure doctor{flag}", "what would spoil a measurement on this machine"),
    ]


def _python() -> str:
    """Return what runs this Python from the present folder: ``python`` where that is the one on the PATH."""
    there = Path(sys.executable)
    found = shutil.which("python")
    if found and os.path.samefile(found, there) and Path(found).parent == there.parent:
        return "python"
    return str(there.relative_to(Path.cwd())) if there.is_relative_to(Path.cwd()) else str(there)
