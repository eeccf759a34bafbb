"""The Quarto engine: the `quarto` command, where there is one."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from measure.cache.folders import MachineFolder, machine_names
from measure.cache.records import Environment
from measure.errors import UserError
from report.engine.chapters import is_left_out, left_out, without_code
from report.engine.project import SETTINGS_FILE, Project, read_project, read_text
from report.engine.source import included

OLDEST_VERSION = (1, 9)
"""The one that the sources were checked with."""

WRITERS = {"html": "html", "pdf": "typst"}
"""Quarto's names of the formats."""

PICTURES = "_figures"
"""A folder that Quarto leaves beside the page, whose pictures the page and the paper hold."""


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
    """Render the project in `root` in these formats, its cells run by this Python, and return the files in `out`.

    Raise UserError with Quarto's own words where it fails.
    """
    project = read_project(root.resolve())
    progress(f"rendering {project.document} with {quarto}")
    with _selected(project) as rendered:
        only = ["--to", WRITERS[formats[0]]] if len(formats) == 1 else []
        run = subprocess.run(
            [quarto, "render", str(rendered.root), *only],
            cwd=rendered.root,
            env=_environment(data),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if run.returncode:
            raise UserError(f"quarto failed with exit code {run.returncode}:\n{run.stdout.strip()}")
        return [_collected(rendered, name, out) for name in formats]


@contextmanager
def _selected(project: Project) -> Iterator[Project]:
    """Yield the project; where chapters are left out, one beside it whose document holds none of their code.

    Quarto runs all cells before `missing.lua` takes out chapters. What is not the document is linked to.
    """
    names = left_out(project)
    if not names:
        yield project
        return
    lines = read_text(project.root / project.document).split("\n")
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary).resolve()
        own = {SETTINGS_FILE, project.document, project.output_directory.name}
        for item in project.root.iterdir():
            if item.name not in own and not item.name.startswith("."):
                (root / item.name).symlink_to(item)
        shutil.copy2(project.root / SETTINGS_FILE, root)
        texts: list[str] = []
        for line in lines:
            file = included(line)
            texts += without_code(project, file) if file and is_left_out(file, names) else [line]
        (root / project.document).write_text("\n".join(texts), "utf-8")
        yield read_project(root)


def _environment(data: Path) -> dict[str, str]:
    """Return the variables that Quarto sees; the date of its files is that of the newest machine in the data."""
    environment = {**os.environ, "QUARTO_PYTHON": sys.executable, "ROOFWRIGHT_DATA": str(data)}
    times = [row.recorded_at for name in machine_names(data) for row in MachineFolder(data, name).rows(Environment)]
    with suppress(ValueError):  # no machine, or a text that is no time
        newest = datetime.fromisoformat(max(times))
        environment.setdefault("SOURCE_DATE_EPOCH", f"{newest.timestamp():.0f}")
    return environment


def _collected(project: Project, name: str, out: Path) -> Path:
    """Return the file in one format, copied to `out` if it is not there."""
    source = project.output_directory / project.output_name(name)
    if not source.is_file():
        raise UserError(f"quarto wrote no {source}; is the format in _quarto.yml?")
    shutil.rmtree(project.output_directory / PICTURES, ignore_errors=True)
    target = out / source.name
    if target.resolve() != source.resolve():
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target)
    return target
