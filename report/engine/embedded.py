"""The embedded engine: cells, pandoc and Typst, all from installed wheels, without a network."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from report.engine.execution import Memory, Session, execute
from report.engine.page import Withheld, page_edition
from report.engine.pandoc import find_pandoc, make_editions
from report.engine.paper import compile_paper, paper_edition
from report.engine.project import Project, listed, read_project, write_file
from report.engine.source import Line, Places

METADATA = ("title", "subtitle", "abstract", "author", "date", "lang", "description", "keywords", "roofwright")


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
    with ExitStack() as stack:
        code = Session(project, data, memory, stack)
        texts = [(each, execute(each, code)) for each in (project, *others)]
        code.finish()

    def write(document: Project, lines: list[Line]) -> list[Path]:
        written, asked = [], formats if document is project else ["html"]
        for name, content in contents(document, lines, asked, memory, progress).items():
            target = out / document.output_name(name)
            progress(f"writing {target}")
            write_file(target, content)
            written.append(target)
        return written

    with ThreadPoolExecutor() as pool:  # side by side, for all wait most of the time for pandoc
        files = pool.map(lambda text: write(*text), texts)
        written = [path for each in files for path in each]
    memory.save()
    return written


def contents(
    project: Project, lines: list[Line], formats: list[str], memory: Memory, progress: Callable[[str], None]
) -> dict[str, bytes]:
    """Return a document's files by format, made from one reading of its lines, whose cells are run."""
    withheld = Withheld()
    text = withheld.without_raw_blocks("\n".join(line.text for line in lines))
    metadata = json.dumps(_metadata(project), default=str)  # at the end, where they move no line
    editions = {}
    if "html" in formats:
        editions["html"] = page_edition(project, project.output_name("pdf") if "pdf" in formats else None, withheld)
    if "pdf" in formats:
        editions["typst"] = paper_edition(project)
    job = {
        "text": f"{text}\n\n---\n{metadata}\n---\n",
        "filters": project.filters,
        "numbered": bool(project.settings.get("number-sections")),
        "bibliography": project.files(project.settings.get("bibliography")),
        "links": project.settings.get("link-citations", True),
        "editions": editions,
    }
    key, last = memory.key(json.dumps(job)), memory.key("citations", project.document)
    made = {"editions": memory.known.get(key), "citations": memory.known.get(last, {})}
    if not made["editions"]:
        made = make_editions({**job, "citations": made["citations"]}, project, Places(lines))
    memory.kept |= {key: made["editions"], last: made["citations"]}
    files: dict[str, bytes] = {}
    if page := made["editions"].get("html"):
        files["html"] = withheld.restored(page, project).encode()
    if paper := made["editions"].get("typst"):
        files["pdf"] = compile_paper(paper, project, progress)
    return files


def _metadata(project: Project) -> dict[str, Any]:
    metadata = {"title": project.document, "lang": "en"}
    metadata |= {name: project.settings[name] for name in METADATA if name in project.settings}
    metadata.setdefault("description", metadata.get("subtitle", metadata["title"]))
    authors = listed(metadata.get("author"))
    return {**metadata, "author": [{"name": each} if isinstance(each, str) else each for each in authors]}
