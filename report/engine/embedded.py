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
from report.engine.page import Withheld, page_arguments, page_blocks, with_scopes
from report.engine.pandoc import Element, PandocError, find_pandoc, run_pandoc
from report.engine.paper import compile_paper, paper_arguments, paper_blocks
from report.engine.project import Project, cannot_write, read_project
from report.engine.references import Numbered, with_references
from report.engine.source import Line, Places

METADATA = ("title", "subtitle", "author", "date", "lang", "description", "keywords", "roofwright")
# Without a limit pandoc would turn the long lines of a pipe table into column widths.
READER = ["--from=markdown", "--to=json", "--columns=100000"]


def render_embedded(
    root: Path, formats: list[str], data: Path, out: Path, progress: Callable[[str], None]
) -> list[Path]:
    """Render the project in `root` to `out`, in the formats `html` and `pdf`, from one run of its cells.

    Return the files written. Raise UserError, with file and line where there is one.
    """
    project = read_project(root.resolve())
    for sentence in project.passed_over:
        progress(sentence)
    find_pandoc()  # what is missing is said now, not after all cells have run
    progress(f"running the cells of {project.document}")
    document = _Document(project, execute(project, data))
    paper = project.output_name("pdf") if "pdf" in formats else None
    writers: dict[str, Callable[[], bytes]] = {
        "html": lambda: document.page(paper),
        "pdf": lambda: document.paper(progress),
    }
    # Side by side, for both wait most of the time: for pandoc, and for Typst.
    with ThreadPoolExecutor() as pool:
        begun = []
        for name in formats:
            target = out / project.output_name(name)
            progress(f"writing {target}")
            begun.append((target, pool.submit(writers[name])))
        for target, content in begun:
            _replace(target, content.result())
    return [target for target, _ in begun]


class _Document:
    """A project's document as pandoc reads it, its cells run and its raw HTML withheld."""

    def __init__(self, project: Project, lines: list[Line]) -> None:
        self._project = project
        self._places = Places(lines)
        self._withheld = Withheld()
        with tempfile.TemporaryDirectory() as temporary:
            metadata = Path(temporary) / "metadata.json"
            metadata.write_text(json.dumps(_metadata(project), default=str), "utf-8")
            text = self._withheld.without_raw_blocks("\n".join(line.text for line in lines) + "\n")
            filters = [f"--lua-filter={path}" for path in project.filters]
            self._tree = json.loads(self._pandoc([*READER, f"--metadata-file={metadata}", *filters], text))
        self._tree["blocks"] = with_thin_spaces(self._tree["blocks"])

    def page(self, paper: str | None) -> bytes:
        blocks = page_blocks(self._resolved("html"), self._project, self._places, self._withheld)
        with tempfile.TemporaryDirectory() as temporary:
            arguments = page_arguments(self._project, Path(temporary), paper, self._withheld)
            return self._withheld.restored(with_scopes(self._written(blocks, arguments))).encode()

    def paper(self, note: Callable[[str], None]) -> bytes:
        blocks = paper_blocks(self._resolved("typst"), self._project, self._places)
        with tempfile.TemporaryDirectory() as temporary:
            arguments = paper_arguments(self._project, Path(temporary))
            return compile_paper(self._written(blocks, arguments), self._project, note)

    def _resolved(self, output: str) -> list[Element]:
        blocks = with_callouts(visible_in(output, self._tree["blocks"], self._places), self._places)
        number_sections = bool(self._project.settings.get("number-sections", False))
        return with_references(Numbered(blocks, number_sections, self._places), self._places)

    def _written(self, blocks: list[Element], arguments: list[str]) -> str:
        settings, files = self._project.settings, self._project.files
        bibliography = [f"--bibliography={path}" for path in files(settings.get("bibliography"))]
        style = [f"--csl={path}" for path in files(settings.get("csl"))]
        links = f"--metadata=link-citations:{json.dumps(settings.get('link-citations', True))}"
        citations = ["--citeproc", links, *bibliography, *style]
        text = json.dumps({**self._tree, "blocks": blocks})
        return self._pandoc(["--from=json", *arguments, *citations], text)

    def _pandoc(self, arguments: list[str], text: str) -> str:
        try:
            return run_pandoc(arguments, text, self._project.root)
        except PandocError as error:
            searched = self._places.of(error.piece) if error.piece else self._project.document
            place = self._places.at(error.line) if error.line else searched
            raise UserError(f"{place}: {error}") from error


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
    # Quarto has words for dates.
    if given == "last-modified":
        return date.fromtimestamp(document.stat().st_mtime).isoformat()
    return date.today().isoformat() if given in ("today", "now") else str(given)


def _replace(target: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f".{target.name}.part")
        partial.write_bytes(content)
        os.replace(partial, target)
    except OSError as error:
        raise cannot_write(target, error) from error
