"""Where things are, and a copy of the project."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

TESTS = Path(__file__).parents[1]
ROOT = TESTS.parent
GOLDEN = TESTS / "golden"
"""The expected output of commands, by case."""

FILTER = "report/engine/missing.lua"
BADGES = "report/engine/badges.lua"
LOOKS = "report/engine/looks.lua"
"""The chapters' filters, as `_quarto.yml` names them."""


def copy_project(folder: Path, without: Sequence[str] = ()) -> Path:
    """Copy the files under git as they are now, except below some folders; return the copy's folder."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(tuple(without)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder
