"""Pandoc: reads a document, makes its editions by `editions.lua`, and says in which line something is wrong."""

import json
import re
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from measure.errors import UserError
from report.engine.project import Project
from report.engine.source import Places

SCRIPT = Path(__file__).with_name("editions.lua")


def find_pandoc() -> str:
    """Return the path of pandoc: that of the wheel pypandoc_binary, whose import takes long, or else on the PATH."""
    wheel = find_spec("pypandoc")
    folder = Path(wheel.origin).with_name("files") if wheel and wheel.origin else Path()
    found = shutil.which("pandoc", path=str(folder)) or shutil.which("pandoc")
    if not found:
        raise UserError("there is no pandoc; install it with pip install pypandoc_binary")
    return found


def make_editions(job: dict[str, Any], project: Project, places: Places) -> dict[str, Any]:
    """Return what `editions.lua` prints for a job; `places` are those of the job's lines.

    Raise UserError where pandoc stops, and for whatever it warns of: an unknown citation, a formula, an open div.
    """
    # With room for a document's tree, pandoc spends less than a tenth of its time on collecting garbage, not a third.
    command = [find_pandoc(), "lua", str(SCRIPT), "+RTS", "-A64m", "-F6"]
    run = subprocess.run(command, input=json.dumps(job), capture_output=True, encoding="utf-8", cwd=project.root)
    if not run.returncode and not run.stderr:
        return dict(json.loads(run.stdout))
    problem = run.stderr.removeprefix("[WARNING] ").partition("\n[WARNING] ")[0]
    place = project.document
    if ours := re.search("\1(.*?)\1(.*?)\1", problem, re.DOTALL):
        raise places.error(ours[1], ours[2])
    if formula := re.search(r"TeX math\s+(.*?)(, rendering.*)?\n", problem):
        place = places.of(formula[1])
    elif cited := re.search(r"citation (\S+) not found", problem):
        place = places.of(f"@{cited[1]}")
    elif line := re.search(r"\bline (\d+)", problem):
        place = places.lines[min(int(line[1]), len(places.lines)) - 1].place
    raise UserError(f"{place}: {' '.join(problem.split())[:300]}")
