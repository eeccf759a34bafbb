"""Where measurements go: a machine's folder in the cache, checked before anything is measured."""

import os
import re
from pathlib import Path

from measure.cache.folders import MachineFolder
from measure.cache.records import Environment
from measure.errors import UserError
from measure.machine.environment import folder_name


def check_folder_name(name: str) -> None:
    """Raise UserError for what no machine's folder may be called."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise UserError(f"--machine: {name!r} is not a valid folder name; use letters, digits, '.', '_' and '-'")


def check_folder(path: Path, what: str) -> None:
    """Raise UserError where something else than a folder stands at a path, given for ``what``."""
    if path.exists() and not path.is_dir():
        raise UserError(f"{what}: {path} is a file; name a folder")


def machine_folder(data: Path, name: str | None, environment: Environment) -> MachineFolder:
    """Return this machine's folder. Raises UserError where another machine measured into a folder of that name."""
    if name is not None:
        check_folder_name(name)
    folder = MachineFolder(data, name or folder_name(environment))
    check_folder(folder.folder, "--machine")
    others = {row.name for row in folder.environments() if row.hardware_id != environment.hardware_id}
    if others:
        raise UserError(f"--machine: {folder.folder} holds another machine ({others.pop()}); choose another name")
    return folder


def check_writable(data: Path) -> None:
    """Raise UserError before anything is measured that could not be kept."""
    for folder in (data, data / "workload", data / "machines"):
        check_folder(folder, "--data")
    try:
        data.mkdir(parents=True, exist_ok=True)
        probe = data / f".writable-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as problem:
        raise UserError(f"--data: {data} cannot be written ({problem.strerror}); name a folder that can be") from None
