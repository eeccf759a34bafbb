"""Find this project's own files, in a clone or in an installed copy's ``share/roofwright``."""

from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from measure.cache import table
from measure.domain.schema import file_of
from measure.errors import UserError

Record = TypeVar("Record")

DISTRIBUTION = "roofwright"  # the project's name for pip
ROOT = Path(__file__).parents[2]  # the clone, or the folder of installed packages
SETTINGS_FILE = "_quarto.yml"  # makes a folder a project

MACHINES = (
    "amd-epyc-2c-0ad4", "intel-xeon-processor-2c-decf", "nvidia-h100-80gb-hbm3-69d5", "nvidia-h200-03df"
)  # fmt: skip
"""The folders of the machines whose measurements come with the project, in their order in the paper."""


def project_folder() -> Path:
    """Return the folder of the paper's sources. Raises UserError if an installed copy lacks them."""
    if (ROOT / SETTINGS_FILE).is_file():
        return ROOT
    import importlib.metadata  # late: it takes a fifth of the time of --help

    with suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files(DISTRIBUTION) or []:
            if file.name == SETTINGS_FILE:
                return Path(str(file.locate())).resolve().parent
    raise UserError(f"the installation has no {SETTINGS_FILE}; install {DISTRIBUTION} again, or work in a clone")


def own_folder(data: Path, name: str) -> str:
    """Return the folder for somebody's own measurements of a machine: not one whose rows come with the project.

    An equal machine may be anybody's, such as a virtual one of a cloud: their rows would mix.
    """
    is_projects = name in MACHINES and data.resolve() == (project_folder() / "data").resolve()
    return f"{name}-own" if is_projects else name


def read_both(record: type[Record], data: Path) -> list[Record]:
    """Read a table of this project and of a data folder. The folder's rows replace the project's with the same key."""
    rows: list[Record] = []
    for path in dict.fromkeys(file_of(record, folder).resolve() for folder in (project_folder() / "data", data)):
        rows = table.merged(rows, table.read(path, record))
    return rows


def curated_file(record: type, data: Path) -> Path:
    """Return the path of a table that people write: in the data folder, else in this project."""
    own = file_of(record, data)
    return own if own.exists() else file_of(record, project_folder() / "data")
