"""The Quarto engine: the `quarto` command, where there is one."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from measure.errors import UserError
from report.engine.project import read_project

OLDEST_VERSION = (1, 9)
"""The one that the sources were checked with."""


def find_quarto() -> str | None:
    """Return the `quarto` command on the PATH, or beside the running Python."""
    return shutil.which("quarto") or shutil.which("quarto", path=str(Path(sys.executable).parent))


def outdated(quarto: str) -> str | None:
    """Say in a sentence why this `quarto` cannot render the paper; return None where it can.

    One that does not tell its version is no better: the wheel `quarto-cli` is a shell around a download.
    """
    run = subprocess.run([quarto, "--version"], capture_output=True, text=True, check=False)
    said = re.match(r"(\d+)\.(\d+)", run.stdout.strip())
    if said and (int(said[1]), int(said[2])) >= OLDEST_VERSION:
        return None
    is_what = f"is version {run.stdout.strip()}" if said else "does not tell its version"
    return f"{quarto} {is_what}, and the paper needs {'.'.join(map(str, OLDEST_VERSION))} or later"


def render_with_quarto(
    quarto: str, root: Path, formats: list[str], data: Path, out: Path, progress: Callable[[str], None]
) -> list[Path]:
    """Render the project in `root`, its cells run by this Python, and return the files in `out`.

    Quarto renders every format at once: with one alone it would empty its output folder of the others.
    Raise UserError with Quarto's own words where it fails.
    """
    project = read_project(root.resolve())
    progress(f"rendering {project.document} with {quarto}")
    environment = {**os.environ, "QUARTO_PYTHON": sys.executable, "RIDGEPOINT_DATA": str(data)}
    run = subprocess.run(
        [quarto, "render", str(project.root)],
        cwd=project.root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode:
        raise UserError(f"quarto failed with exit code {run.returncode}:\n{run.stdout.strip()}")
    written = []
    for name in formats:
        source = project.output_directory / project.output_name(name)
        if not source.is_file():
            raise UserError(f"quarto wrote no {source}; is the format in _quarto.yml?")
        target = out / source.name
        if target.resolve() != source.resolve():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
        written.append(target)
    return written
