"""The embedded engine: cells, pandoc and Typst, all from installed wheels, without a network."""

import json
import os
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from pathlib import Path
from typing import Any

from measure.errors import UserError
from report.engine.blocks import visible_in, with_callouts, with_thin_spaces
from report.engine.execution import execute
from report.engine.page import Withheld, page_arguments, page_blocks
from report.engine.pandoc import PandocError, find_pandoc, run_pandoc
from report.engine.paper import compile_paper, paper_arguments, paper_blocks
from report.engine.project import Project, read_project
from report.engine.references import numbered, with_references
from report.engine.source import Line, Places

METADATA = ("title", "subtitle", "author", "date", "lang", "description", "keywords", "ridgepoint")
# Without a limit pandoc would turn the long lines of a pipe table into column widths.
READER = ["--from=markdown", "--to=json", "--columns=100000"]


def render_embedded(
    root: Path, formats: list[str], data: Path, out: Path, progress: Callable[[str], None]
) -> list[Path]:
    """Renders the project in `root` to `out`, in the formats `html` and `pdf`, from one run of its cells.

    Returns the files that it wrote. Raises UserError, with file and line where there is one.
    """
    project = read_project(root.resolve())
    find_pandoc()  # what is missing is said now, not after all cells have run
    progress(f"running the cells of {project.document}")
    lines = execute(project, data)
    places = Places(lines)
    withheld = Withheld()
    document = _read(lines, project, places, withheld)
    paper = project.output_name("typst") if "pdf" in formats else None
    writers: dict[str, Callable[[], bytes]] = {
        "html": lambda: _page(document, project, places, withheld, paper),
        "pdf": lambda: _paper(document, project, places),
    }
    # Side by side, for both wait most of the time: for pandoc, and for Typst.
    with ThreadPoolExecutor() as pool:
        begun = []
        for name in formats:
            target = out / project.output_name({"html": "html", "pdf": "typst"}[name])
            progress(f"writing {target}")
            begun.append((target, pool.submit(writers[name])))
        for target, content in begun:
            _replace(target, content.result())
    return [target for target, _ in begun]


def _read(lines: list[Line], project: Project, places: Places, withheld: Withheld) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as temporary:
        metadata = Path(temporary) / "metadata.json"
        metadata.write_text(json.dumps(_metadata(project), default=str), "utf-8")
        text = withheld.without_raw_blocks("\n".join(line.text for line in lines) + "\n")
        filters = [f"--lua-filter={path}" for path in project.filters]
        arguments = [*READER, f"--metadata-file={metadata}", *filters]
        document = json.loads(_pandoc(arguments, text, project, places))
    return {**document, "blocks": with_thin_spaces(document["blocks"])}


def _metadata(project: Project) -> dict[str, Any]:
    metadata = {name: project.settings[name] for name in METADATA if name in project.settings}
    metadata.setdefault("title", project.document)
    metadata.setdefault("lang", "en")
    metadata.setdefault("description", metadata.get("subtitle", metadata["title"]))
    authors = metadata.get("author", [])
    authors = authors if isinstance(authors, list) else [authors]
    metadata["author"] = [{"name": author} if isinstance(author, str) else author for author in authors]
    if "date" in metadata:
        metadata["date"] = _date(metadata["date"], project.root / project.document)
    return metadata


def _date(given: Any, document: Path) -> str:
    """The date, where it is one of Quarto's words for a date."""
    if given == "last-modified":
        return date.fromtimestamp(document.stat().st_mtime).isoformat()
    return date.today().isoformat() if given in ("today", "now") else str(given)


def _resolved(
    document: dict[str, Any], output: str, project: Project, places: Places
) -> list[dict[str, Any]]:
    blocks = with_callouts(visible_in(output, document["blocks"], places), places)
    number_sections = bool(project.settings.get("number-sections", False))
    return with_references(numbered(blocks, number_sections, places), places)


def _page(
    document: dict[str, Any], project: Project, places: Places, withheld: Withheld, paper: str | None
) -> bytes:
    blocks = page_blocks(_resolved(document, "html", project, places), project, places, withheld)
    with tempfile.TemporaryDirectory() as temporary:
        arguments = page_arguments(project, Path(temporary), paper)
        return withheld.restored(_written(document, blocks, arguments, project, places)).encode()


def _paper(document: dict[str, Any], project: Project, places: Places) -> bytes:
    blocks = paper_blocks(_resolved(document, "typst", project, places), project, places)
    with tempfile.TemporaryDirectory() as temporary:
        arguments = paper_arguments(project, Path(temporary))
        return compile_paper(_written(document, blocks, arguments, project, places), project)


def _written(
    document: dict[str, Any],
    blocks: list[dict[str, Any]],
    arguments: list[str],
    project: Project,
    places: Places,
) -> str:
    bibliography = [f"--bibliography={path}" for path in project.files(project.settings.get("bibliography"))]
    style = [f"--csl={path}" for path in project.files(project.settings.get("csl"))]
    citations = ["--citeproc", "--metadata=link-citations:true", *bibliography, *style]
    text = json.dumps({**document, "blocks": blocks})
    return _pandoc(["--from=json", *arguments, *citations], text, project, places)


def _pandoc(arguments: list[str], text: str, project: Project, places: Places) -> str:
    try:
        return run_pandoc(arguments, text, project.root)
    except PandocError as error:
        place = project.document
        if error.line:
            place = places.at(error.line)
        elif error.piece:
            place = places.of(error.piece)
        raise UserError(f"{place}: {error}") from error


def _replace(target: Path, content: bytes) -> None:
    """Writes a file whole or not at all."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.part")
        partial.write_bytes(content)
        os.replace(partial, target)
    except OSError as error:
        raise UserError(
            f"cannot write {target}: {error.strerror}; choose another folder with --out"
        ) from error
