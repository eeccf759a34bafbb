"""The embedded engine: cells, pandoc and Typst, all from installed wheels, without a network."""

import json
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from report.engine.execution import execute, session
from report.engine.page import Withheld, page_arguments, page_changes
from report.engine.paper import compile_paper, paper_arguments, paper_changes
from report.engine.project import Project, listed, read_project, write_file
from report.engine.source import Line, Places
from report.engine.tree import Change, Element, Numbers, find_pandoc, run_pandoc, transform, visible_in

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
    others = [read_project(project.root, name) for name in project.others if "html" in formats]
    for sentence in project.passed_over:
        progress(sentence)
    find_pandoc()  # what is missing is said now, not after all cells have run
    progress(f"running the cells of {project.document}")
    with session(project, data) as code:
        texts = [(each, execute(each, code)) for each in (project, *others)]
    paper = project.output_name("pdf") if "pdf" in formats else None
    # Side by side, for all wait most of the time: for pandoc, and for Typst.
    with ThreadPoolExecutor() as pool:
        document, *further = pool.map(lambda text: _Document(*text), texts)
        begun = []
        for name in formats:
            write = (lambda: document.page(paper)) if name == "html" else (lambda: document.paper(progress))
            begun.append((out / project.output_name(name), pool.submit(write)))
        begun += [(out / each.project.output_name("html"), pool.submit(each.page, None)) for each in further]
        for target, content in begun:
            progress(f"writing {target}")
            write_file(target, content.result())
    return [target for target, _ in begun]


class _Document:
    """A project's document as pandoc reads it, its cells run and its raw HTML withheld."""

    def __init__(self, project: Project, lines: list[Line]) -> None:
        self.project = project
        self._places = Places(lines)
        self._withheld = Withheld()
        with tempfile.TemporaryDirectory() as temporary:
            metadata = Path(temporary) / "metadata.json"
            metadata.write_text(json.dumps(_metadata(project), default=str), "utf-8")
            text = self._withheld.without_raw_blocks("\n".join(line.text for line in lines) + "\n")
            filters = [f"--lua-filter={path}" for path in project.filters]
            arguments = [*READER, f"--metadata-file={metadata}", *filters]
            self._tree = json.loads(run_pandoc(arguments, text, project, self._places))

    def page(self, paper: str | None) -> bytes:
        blocks = self._resolved("html", page_changes(self.project, self._places, self._withheld))
        with tempfile.TemporaryDirectory() as temporary:
            arguments = page_arguments(self.project, Path(temporary), paper, self._withheld)
            return self._withheld.restored(self._written(blocks, arguments)).encode()

    def paper(self, note: Callable[[str], None]) -> bytes:
        blocks = self._resolved("typst", paper_changes(self.project, self._places))
        with tempfile.TemporaryDirectory() as temporary:
            arguments = paper_arguments(self.project, Path(temporary))
            return compile_paper(self._written(blocks, arguments), self.project, note)

    def _resolved(self, output: str, changes: dict[str, Change]) -> list[Element]:
        numbers = Numbers(bool(self.project.settings.get("number-sections")), self._places)
        blocks = numbers.given(visible_in(output, self._tree["blocks"], self._places))
        return transform(blocks, {**numbers.references, **changes})

    def _written(self, blocks: list[Element], arguments: list[str]) -> str:
        settings, files = self.project.settings, self.project.files
        sources = [f"--bibliography={path}" for path in files(settings.get("bibliography"))]
        sources += [f"--csl={path}" for path in files(settings.get("csl"))]
        links = f"--metadata=link-citations:{json.dumps(settings.get('link-citations', True))}"
        text = json.dumps({**self._tree, "blocks": blocks})
        return run_pandoc(["--from=json", *arguments, "--citeproc", links, *sources], text, self.project, self._places)


def _metadata(project: Project) -> dict[str, Any]:
    metadata = {"title": project.document, "lang": "en"}
    metadata |= {name: project.settings[name] for name in METADATA if name in project.settings}
    metadata.setdefault("description", metadata.get("subtitle", metadata["title"]))
    authors = listed(metadata.get("author"))
    return {**metadata, "author": [{"name": each} if isinstance(each, str) else each for each in authors]}
