"""The Quarto engine: the `quarto` command, if it is installed."""

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

OLDEST_VERSION = (1, 9)  # the sources were checked with it
WRITERS = {"html": "html", "pdf": "typst"}  # Quarto's names of the formats


def find_quarto() -> str | None:
    """Return the `quarto` command on the PATH, or next to the running Python."""
    return shutil.which("quarto") or shutil.which("quarto", path=str(Path(sys.executable).parent))


def outdated(quarto: str) -> str | None:
    """Return the reason why this `quarto` cannot render the paper, None if it can.

    The wheel `quarto-cli` has no version before its download.
    """
    run = subprocess.run([quarto, "--version"], capture_output=True, text=True, check=False)
    version = re.match(r"(\d+)\.(\d+)", run.stdout.strip())
    if version and (int(version[1]), int(version[2])) >= OLDEST_VERSION:
        return None
    problem = f"is version {run.stdout.strip()}" if version else "does not tell its version"
    return f"{quarto} {problem}, and the paper needs {'.'.join(map(str, OLDEST_VERSION))} or later"


def render_with_quarto(
    quarto: str, root: Path, formats: list[str], data: Path, out: Path, progress: Callable[[str], None]
) -> list[Path]:
    """Render the project in `root` in these formats, with this Python for the cells; return the files in `out`.

    Quarto runs the cells of all chapters; `missing.lua` removes the chapters that are not chosen. If Quarto fails,
    print its own words on standard error and raise UserError.
    """
    project = read_project(root.resolve())
    progress(f"rendering {project.document} with {quarto}")
    only = ["--to", WRITERS[formats[0]]] if len(formats) == 1 else []
    environment = {**os.environ, "QUARTO_PYTHON": sys.executable, "ROOFWRIGHT_DATA": str(data)}
    times = [at for name in machine_names(data) for at in MachineFolder(data, name).measured_at().values()]
    with suppress(ValueError):  # no machine, or not a time
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
        output = re.sub(r"\x1b\[[0-9;]*m", "", run.stdout).replace("\\n", "\n")
        reason = re.search(r"(?ms)^[^\n]*(FATAL|ERROR).*", output)
        print((reason[0] if reason else output).strip(), file=sys.stderr)
        raise UserError(f"quarto failed with exit code {run.returncode}, for the reason printed above")
    names = [project.output_name(name) for name in formats]
    names += [f"{Path(name).stem}.html" for name in project.others if "html" in formats]
    folder = project.root / project.output_folder
    shutil.rmtree(folder / PICTURES, ignore_errors=True)  # Quarto leaves it next to the page
    for name in names:
        if not (folder / name).is_file():
            raise UserError(f"quarto wrote no {folder / name}; is the format in _quarto.yml?")
        if out.resolve() != folder.resolve():
            write_file(out / name, (folder / name).read_bytes())
    return [out / name for name in names]
