"""The embedded engine: cells, pandoc and Typst, all from installed wheels, without a network."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from subprocess import PIPE, Popen
from tempfile import TemporaryFile
from typing import Any

import typst

from measure.errors import UserError
from report.engine.execution import Memory, execute
from report.engine.page import page_edition, whole_page, withhold
from report.engine.project import OWN, Project, read_project
from report.engine.source import Line
from report.files import write_file

SCRIPT = Path(__file__).with_name("editions.lua")
TEMPLATE = Path(__file__).parent / "resources" / "paper.typ"


def render_embedded(
    root: Path, formats: list[str], data: Path, out: Path, progress: Callable[[str], None]
) -> list[Path]:
    """Render the project in `root` to `out`, in the formats `html` and `pdf`, from one run of its cells.

    Returns the files. Raises UserError with file and line if there is one.
    """
    project = read_project(root.resolve())
    if not str(project.root).isascii() and sys.getfilesystemencoding() != "utf-8":
        raise UserError(
            f"Python reads names of files as {sys.getfilesystemencoding()} here, which lacks letters of this folder's; "
            "set PYTHONUTF8=1, or move the folder"
        )
    projects = [project, *(read_project(project.root, name) for name in project.others if "html" in formats)]
    for sentence in project.passed_over:
        progress(sentence)
    find_pandoc()  # a missing pandoc fails now, not after all cells have run
    progress(f"running the cells of {project.document}")
    memory = Memory(project, data)
    texts = execute(projects, data, memory)

    def write(document: Project, lines: list[Line]) -> list[Path]:
        files = contents(document, lines, formats if document is project else ["html"], memory, progress)
        for name, content in files.items():
            progress(f"writing {out / name}")
            write_file(out / name, content)
        return [out / name for name in files]

    with ThreadPoolExecutor() as pool:  # in parallel: most of the time goes to pandoc
        written = [path for files in pool.map(write, projects, texts) for path in files]
    memory.save()
    return written


def contents(
    project: Project, lines: list[Line], formats: list[str], memory: Memory, progress: Callable[[str], None]
) -> dict[str, bytes]:
    """Convert a document, as its lines after its cells ran, to files by name."""
    settings, names = project.settings, {each: project.output_name(each) for each in formats}
    withheld: list[str] = []
    text = withhold("\n".join(line.text for line in lines), withheld)
    metadata = {"title": project.document, "lang": "en", "link-citations": True}
    metadata |= {name: value for name, value in settings.items() if "." not in name}
    metadata.setdefault("description", metadata.get("subtitle", metadata["title"]))
    own = {name.removeprefix(OWN): value for name, value in settings.items() if name.startswith(OWN)}
    metadata["roofwright"] = own
    editions = []
    if "pdf" in formats:
        ours = {name.removeprefix("format.typst."): value for name, value in settings.items()}
        variables = {"header-includes": "\n".join(project.header_texts("typst"))}
        variables |= {name: ours[name] for name in ("papersize", "fontsize") if name in ours}
        sides = [f"{name.removeprefix('margin.')}: {ours[name]}" for name in ours if name.startswith("margin.")]
        variables |= {"margin": ", ".join(sides)}
        editions.append({"format": "typst", "template": str(TEMPLATE), "variables": variables})
    if "html" in formats:
        editions.append(page_edition(project, names.get("pdf"), withheld))
    job = {
        # Metadata at the end move no line
        "text": f"{text}\n\n---\n{json.dumps(metadata, default=str)}\n---\n",
        "filters": project.files("filters"),
        "numbered": bool(settings.get("number-sections")),
        "bibliography": project.files("bibliography"),
        "editions": editions,
    }
    key = memory.key(json.dumps(job))
    made, files = memory.new.setdefault(key, {}), dict[str, bytes]()
    with ThreadPoolExecutor() as pool:
        for kind, text in memory.old.get(key, {}).items() or make_editions(job, project, lines):
            made[kind] = text
            if kind == "html":
                files[names["html"]] = whole_page(text, withheld, project.root).encode()
            else:  # Typst works while pandoc writes the page
                paper = pool.submit(compile_paper, text, project, progress)
    return files | ({names["pdf"]: paper.result()} if "pdf" in names else {})


def find_pandoc() -> str:
    """Return the path of pandoc in the wheel pypandoc_binary, which is slow to import, or else on the PATH."""
    wheel = find_spec("pypandoc")
    folder = Path(wheel.origin).with_name("files") if wheel and wheel.origin else Path()
    found = shutil.which("pandoc", path=str(folder)) or shutil.which("pandoc")
    if not found:
        raise UserError("there is no pandoc; install it with pip install pypandoc_binary")
    return found


def make_editions(job: dict[str, Any], project: Project, lines: list[Line]) -> Iterator[tuple[str, str]]:
    """Yield formats and texts that `editions.lua` makes for a job with the text of these lines.

    Raises UserError if pandoc fails or warns of anything: an unknown citation, a formula, an open div.
    """
    # With this much memory pandoc spends less than a tenth of its time on collecting garbage, not a third
    command = [find_pandoc(), "lua", str(SCRIPT), "+RTS", "-A128m", "-O512m"]
    with TemporaryFile("w+", encoding="utf-8") as given, TemporaryFile("w+", encoding="utf-8") as errors:
        json.dump(job, given)
        given.seek(0)
        # Pandoc reads names of files in the locale's encoding, Python always in UTF-8
        place: Any = {"cwd": project.root, "env": os.environ | {"LC_ALL": "C.UTF-8"}}
        with Popen(command, stdin=given, stdout=PIPE, stderr=errors, encoding="utf-8", **place) as run:
            yield from map(json.loads, run.stdout or ())
        errors.seek(0)
        problem = errors.read()
    if not run.returncode and not problem:
        return
    problem = problem.removeprefix("[WARNING] ").partition("\n[WARNING] ")[0].partition("stack traceback:")[0]
    _raise_for_sources(problem)
    place = lines[0]
    if number := re.search(r"\bline (\d+)", problem):
        place = lines[: int(number[1])][-1]
    elif found := re.search(r"TeX math\s+(.*?)(?:, rendering.*)?\n|citation (\S+) not found|'(.*?)'", problem):
        whole = re.compile(rf"(?<!\w){re.escape(found[found.lastindex or 0])}(?![\w-])")
        place = next((line for line in reversed(lines) if whole.search(line.text)), place)
    raise place.error(" ".join(problem.split())[:300])


def check_sources(project: Project) -> None:
    """Raise UserError for a bibliography that pandoc cannot read."""
    command = [find_pandoc(), "--citeproc", *(f"--bibliography={file}" for file in project.files("bibliography"))]
    run = subprocess.run(command, cwd=project.root, input="", capture_output=True, encoding="utf-8", check=False)
    _raise_for_sources(run.stderr)


def _raise_for_sources(problem: str) -> None:
    found = re.search(r"Error reading bibliography file (.+?):\s*\(line (\d+), column \d+\):\s*(.+)", problem, re.S)
    if found:
        why = " ".join(found[3].split())
        raise UserError(f"{found[1]}:{found[2]}: this is not valid BibTeX: {why}; correct the entry here or before")


def compile_paper(text: str, project: Project, note: Callable[[str], None]) -> bytes:
    """Return the PDF of a Typst source, with the project's fonts and Typst's own.

    Typst refuses PDF/UA-1 (ISO 14289-1, for screen readers) if no font has a character. The PDF then follows no
    standard, and `note` gets a sentence.
    """
    fonts = [str(project.root / folder) for folder in project.files("format.typst.font-paths")]
    compiler = typst.Compiler(root=str(project.root), font_paths=fonts, ignore_system_fonts=True)
    standards = project.settings.get("format.typst.pdf-standard", [])
    try:
        pdf: Any = compiler.compile(text.encode(), format="pdf", pdf_standards=standards)
    except typst.TypstError as problem:
        try:
            pdf = compiler.compile(text.encode(), format="pdf")
        except typst.TypstError as error:
            raise UserError(f"Typst stops: {error.message} {' '.join(error.hints)}".strip()) from error
        note(f"the PDF follows no standard: {problem.message}")
    return bytes(pdf)
