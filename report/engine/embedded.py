"""The embedded engine: cells, pandoc and Typst, all from installed wheels, without a network."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from report.engine.execution import Memory, execute, session
from report.engine.page import Withheld, page_arguments, page_changes
from report.engine.paper import compile_paper, paper_arguments, paper_changes
from report.engine.project import Project, listed, read_project, write_file
from report.engine.source import Line, Places
from report.engine.tree import Change, Element, Numbers, box, find_pandoc, plain, run_pandoc, transform, visible_in

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
    memory = Memory(project, data)
    with session(project, data, memory) as code:
        texts = [(each, execute(each, code), memory) for each in (project, *others)]
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
    memory.save()
    return [target for target, _ in begun]


class _Document:
    """A project's document as pandoc reads it, its cells run and its raw HTML withheld."""

    def __init__(self, project: Project, lines: list[Line], memory: Memory) -> None:
        self.project, self._memory = project, memory
        self._places = Places(lines)
        self._withheld = Withheld()
        text = self._withheld.without_raw_blocks("\n".join(line.text for line in lines))
        metadata = json.dumps(_metadata(project), default=str)  # at the end, where they move no line
        filters = [f"--lua-filter={path}" for path in project.filters]
        self._tree = json.loads(self._pandoc([*READER, *filters], f"{text}\n\n---\n{metadata}\n---\n"))

    def page(self, paper: str | None) -> bytes:
        arguments = page_arguments(self.project, paper, self._withheld)
        changes = page_changes(self.project, self._places, self._withheld)
        return self._withheld.restored(self._written("html", changes, arguments)).encode()

    def paper(self, note: Callable[[str], None]) -> bytes:
        changes = paper_changes(self.project, self._places)
        return compile_paper(self._written("typst", changes, paper_arguments(self.project)), self.project, note)

    def _pandoc(self, arguments: list[str], text: str) -> str:
        def run() -> str:
            return run_pandoc(arguments, text, self.project, self._places)

        return self._memory.recall(run, *arguments, text)

    def _written(self, output: str, changes: dict[str, Change], arguments: list[str]) -> str:
        numbers = Numbers(bool(self.project.settings.get("number-sections")), self._places)
        blocks = numbers.given(visible_in(output, self._tree["blocks"], self._places))
        blocks = transform(blocks, {**numbers.references, **changes})
        if numbers.citations:
            references = self._fill(numbers.citations)
            is_place = [block["t"] == "Div" and block["c"][0][0] == "refs" for block in blocks]
            at = is_place.index(True) if any(is_place) else len(blocks)
            blocks[at : at + 1] = [references]
        return self._pandoc(["--from=json", *arguments], json.dumps({**self._tree, "blocks": blocks}))

    def _fill(self, citations: list[tuple[Element, Element]]) -> Element:
        """Fill in how sources are cited, and return the list of references.

        Pandoc gets citations alone: among all text it takes half its time for them, and they seldom change.
        """
        sources = [f"--bibliography={path}" for path in self.project.files(self.project.settings.get("bibliography"))]
        links = f"--metadata=link-citations:{json.dumps(self.project.settings.get('link-citations', True))}"
        given = [*(plain(citation) for citation, _ in citations), box("Div", [], "refs")]
        text = self._pandoc(
            ["--from=json", "--to=json", "--citeproc", links, *sources], json.dumps({**self._tree, "blocks": given})
        )
        *written, references = json.loads(text)["blocks"]
        for (_, open_element), block in zip(citations, written, strict=True):
            open_element.update(block["c"][0])
        return dict(references)


def _metadata(project: Project) -> dict[str, Any]:
    metadata = {"title": project.document, "lang": "en"}
    metadata |= {name: project.settings[name] for name in METADATA if name in project.settings}
    metadata.setdefault("description", metadata.get("subtitle", metadata["title"]))
    authors = listed(metadata.get("author"))
    return {**metadata, "author": [{"name": each} if isinstance(each, str) else each for each in authors]}
