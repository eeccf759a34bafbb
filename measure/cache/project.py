"""Where this project's own files lie: the sources of the paper, and the tables that are kept by hand.

In a clone they are where everybody edits them. An installed copy has them in ``share/roofwright`` of its environment.

Discovery of the modules of a package, so that a new figure, variant or section is one file and no list names it.
"""

import importlib
import importlib.metadata
import pkgutil
from pathlib import Path

from measure.cache.schema import file_of
from measure.errors import UserError

DISTRIBUTION = "roofwright"
"""The name of this project for pip."""

ROOT = Path(__file__).parents[2]
"""The clone, or the folder of installed packages."""

SETTINGS_FILE = "_quarto.yml"
"""The file that makes a folder a project."""


def project_folder() -> Path:
    """Return the folder of the paper's sources. Raises UserError where an installed copy lacks them."""
    if (ROOT / SETTINGS_FILE).is_file():
        return ROOT
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name == SETTINGS_FILE:
            return Path(str(file.locate())).resolve().parent
    raise UserError(f"the installation has no {SETTINGS_FILE}; install {DISTRIBUTION} again, or work in a clone")


def kept_by_hand(record: type, data: Path) -> Path:
    """Return the path of a table kept by hand: the data folder's own, else this project's."""
    own = file_of(record, data)
    return own if own.exists() else file_of(record, project_folder() / "data")


def import_modules(package: str) -> list[str]:
    """Import every module of a package and return their names, sorted."""
    path = importlib.import_module(package).__path__
    names = sorted(module.name for module in pkgutil.iter_modules(path))
    for name in names:
        importlib.import_module(f"{package}.{name}")
    return names
