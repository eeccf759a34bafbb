"""The embedded engine: cells, pandoc and Typst, all from installed wheels, without a network."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from report.engine.execution import Memory, execute
from report.engine.page import Withheld, page_edition
from report.engine.pandoc import find_pandoc, make_editions
from report.engine.paper import compile_paper, paper_edition
from report.engine.project import OWN, Project, listed, read_project, write_file
from report.engine.source import Line

METADATA = ("title", "subtitle", "abstract", "date", "lang", "description", "keywords")


def render_embedded(
    root: Path, formats: list[str], data: Path, out: Path, progress: Callable[[str], None]
) -> list[Path]:
    """Render the project in `root` to `out`, in the formats `html` and `pdf`, from one run of its cells.

    Return the files written. Raise UserError, with file and line where there is one.
    """
    project = read_project(root.resolve())
    projects = [project, *(read_project(project.root, name) for name in project.others if "html" in formats)]
    for sentence in project.passed_over:
        progress(sentence)
    find_pandoc()  # what is missing is said now, not after all cells have run
    progress(f"running the cells of {project.document}")
    memory = Memory(project, data)
    texts = execute(projects, data, memory)

    def write(document: Project, lines: list[Line]) -> list[Path]:
        files = contents(document, lines, formats if document is project else ["html"], memory, progress)
        for name, content in files.items():
            progress(f"writing {out / name}")
            write_file(out / name, content)
        return [out / name for name in files]

    with ThreadPoolExecutor() as pool:  # side by side, for all wait most of the time for pandoc
        written = [path for files in pool.map(write, projects, texts) for path in files]
    memory.save()
    return written


def contents(
    project: Project, lines: list[Line], formats: list[str], memory: Memory, progress: Callable[[str], None]
) -> dict[str, bytes]:
    """Return a document's files by name, made from one reading of its lines, whose cells are run."""
    withheld, settings, names = Withheld(), project.settings, {each: project.output_name(each) for each in formats}
    text = withheld.without_raw_blocks("\n".join(line.text for line in lines))
    metadata = {"title": project.document, "lang": "en"}
    metadata |= {name: settings[name] for name in METADATA if name in settings}
    metadata.setdefault("description", metadata.get("subtitle", metadata["title"]))
    authors = [{"name": each} if isinstance(each, str) else each for each in listed(settings.get("author"))]
    own = {name.removeprefix(OWN): value for name, value in settings.items() if name.startswith(OWN)}
    editions = {}
    if "html" in formats:
        editions["html"] = page_edition(project, names.get("pdf"), withheld)
    if "pdf" in formats:
        editions["typst"] = paper_edition(project)
    job = {
        # Metadata stand at the end, where they move no line.
        "text": f"{text}\n\n---\n{json.dumps(metadata | {'author': authors, 'roofwright': own}, default=str)}\n---\n",
        "filters": project.files("filters"),
        "numbered": bool(settings.get("number-sections")),
        "bibliography": project.files("bibliography"),
        "links": settings.get("link-citations", True),
        "editions": editions,
    }
    key, last = memory.key(json.dumps(job)), memory.key("citations", project.document)
    made = {"editions": memory.known.get(key), "citations": memory.known.get(last, {})}
    if not made["editions"]:
        made = make_editions({**job, "citations": made["citations"]}, project, lines)
    memory.kept |= {key: made["editions"], last: made["citations"]}
    files: dict[str, bytes] = {}
    if page := made["editions"].get("html"):
        files[names["html"]] = withheld.restored(page, project).encode()
    if paper := made["editions"].get("typst"):
        files[names["pdf"]] = compile_paper(paper, project, progress)
    return files
