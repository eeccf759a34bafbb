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
from report.engine.source import Line

SCRIPT = Path(__file__).with_name("editions.lua")


def find_pandoc() -> str:
    """Return the path of pandoc: that of the wheel pypandoc_binary, whose import takes long, or else on the PATH."""
    wheel = find_spec("pypandoc")
    folder = Path(wheel.origin).with_name("files") if wheel and wheel.origin else Path()
    found = shutil.which("pandoc", path=str(folder)) or shutil.which("pandoc")
    if not found:
        raise UserError("there is no pandoc; install it with pip install pypandoc_binary")
    return found


def make_editions(job: dict[str, Any], project: Project, lines: list[Line]) -> dict[str, Any]:
    """Return what `editions.lua` prints for a job, whose text stands in these lines.

    Raise UserError where pandoc stops, and for whatever it warns of: an unknown citation, a formula, an open div.
    """
    # With room for a document's tree, pandoc spends less than a tenth of its time on collecting garbage, not a third.
    command = [find_pandoc(), "lua", str(SCRIPT), "+RTS", "-A256m"]
    run = subprocess.run(command, input=json.dumps(job), capture_output=True, encoding="utf-8", cwd=project.root)
    if not run.returncode and not run.stderr:
        return dict(json.loads(run.stdout))
    problem = run.stderr.removeprefix("[WARNING] ").partition("\n[WARNING] ")[0]
    words = ""
    if ours := re.search("\1(.*?)\1(.*?)\1", problem, re.DOTALL):
        words, problem = ours.groups()
    elif theirs := re.search(r"TeX math\s+(.*?)(?:, rendering.*)?\n|(?<=citation) (\S+) not found", problem):
        words = theirs[1] or f"@{theirs[2]}"
    elif number := re.search(r"\bline (\d+)", problem):
        lines = lines[: int(number[1])][-1:]
    raise UserError(f"{_place(words, lines)}: {' '.join(problem.split())[:300]}")


def _place(words: str, lines: list[Line]) -> str:
    """Return `file:line` of the last line that holds the words as whole ones; if none does, of the first line."""
    whole = re.compile(rf"(?<![\w-]){re.escape(words)}(?![\w-])")
    holding = [line for line in lines if words and not line.text.startswith("<script") and whole.search(line.text)]
    return (holding or lines)[-1 if holding else 0].place
