"""The Quarto engine: the `quarto` command, where there is one."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from measure.cache.folders import MachineFolder, machine_names
from measure.errors import UserError
from report.engine.project import PICTURES, read_project
from report.files import write_file

OLDEST_VERSION = (1, 9)  # the one that the sources were checked with
WRITERS = {"html": "html", "pdf": "typst"}  # Quarto's names of the formats


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

    Quarto runs the cells of all chapters; `missing.lua` takes out those that are not chosen. Where Quarto fails, print
    its own words on standard error and raise UserError.
    """
    project = read_project(root.resolve())
    progress(f"rendering {project.document} with {quarto}")
    only = ["--to", WRITERS[formats[0]]] if len(formats) == 1 else []
    environment = {**os.environ, "QUARTO_PYTHON": sys.executable, "ROOFWRIGHT_DATA": str(data)}
    times = [at for name in machine_names(data) for at in MachineFolder(data, name).measured_at().values()]
    with suppress(ValueError):  # no machine, or a text that is no time
        environment.setdefault("SOURCE_DATE_EPOCH", f"{datetime.fromisoformat(max(times)).timestamp():.0f}")
    target = project.root if "html" in formats else project.root / project.document
    run = subprocess.run(
        [quarto, "render", str(target), *only],
        cwd=project.root,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if run.returncode:
        said = re.sub(r"\x1b\[[0-9;]*m", "", run.stdout).replace("\\n", "\n")
        reason = re.search(r"(?ms)^[^\n]*(FATAL|ERROR).*", said)
        print((reason[0] if reason else said).strip(), file=sys.stderr)
        raise UserError(f"quarto failed with exit code {run.returncode}, for the reason printed above")
    names = [project.output_name(name) for name in formats]
    names += [f"{Path(name).stem}.html" for name in project.others if "html" in formats]
    folder = project.root / project.output_folder
    shutil.rmtree(folder / PICTURES, ignore_errors=True)  # which Quarto leaves beside the page
    for name in names:
        if not (folder / name).is_file():
            raise UserError(f"quarto wrote no {folder / name}; is the format in _quarto.yml?")
        if out.resolve() != folder.resolve():
            write_file(out / name, (folder / name).read_bytes())
    return [out / name for name in names]
