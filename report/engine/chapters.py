"""The chapters of a document, and those that a selection leaves out.

A chapter is a file that the document includes, and is called by that file's name: `report/chapters/chips.qmd` is chips.
Its heading's label is that name after `sec-`: by it `missing.lua` takes the chapter out of the document.
"""

import re
from pathlib import Path

from measure.errors import UserError, unknown
from report.engine.project import SETTINGS_FILE, Project, read_text
from report.engine.source import INLINE, TextBlock, included, read_source

FILTER = Path("report/engine/missing.lua")
LABEL = re.compile(r"#\s*\|\s*label:\s*['\"]?([\w.:-]+)")


def chapters(project: Project) -> dict[str, str]:
    """Return the file of each chapter by its name, in the document's order."""
    lines = read_text(project.root / project.document).split("\n")[project.body_line - 1 :]
    return {Path(file).stem: file for line in lines if (file := included(line))}


def left_out(project: Project) -> set[str]:
    """Return the names of the chapters that are not chosen; none where no choice was made.

    Raise UserError for a chosen name that is not a chapter, and where none can be left out, because the project has not
    the filter, or this one, because its heading has no label.
    """
    known = chapters(project)
    chosen = project.chosen("chapters")
    for name in chosen:
        if name not in known:
            raise unknown(f"--chapters, or roofwright: chapters in {SETTINGS_FILE}", name, known)
    names = set(known) - set(chosen) if chosen else set()
    if names and FILTER not in map(Path, project.filters):
        raise UserError(f"{SETTINGS_FILE}: to leave chapters out, add {FILTER} to its filters, with at: pre-ast")
    for name in names:
        heading = re.compile(rf"^# [^\n]*\{{#sec-{re.escape(name)}[ }}]", re.MULTILINE)
        if not heading.search(read_text(project.root / known[name])):
            title = f"# Title {{#sec-{name}}}"
            raise UserError(f"{known[name]}:1: to be left out, a chapter needs a line '{title}'")
    return names


def is_left_out(file: str, names: set[str]) -> bool:
    """Return whether a file of the document is a chapter of these."""
    return Path(file).stem in names


def label_div(label: str) -> list[str]:
    """Return the lines that stand for a cell that is not run: by its label references to it are known."""
    return ["", f"::: {{#{label}}}", ":::", ""]


def without_code(project: Project, file: str) -> list[str]:
    """Return the lines of a file of the document, without the code in its text and with the labels of its cells."""
    lines = []
    for block in read_source(project, file):
        if isinstance(block, TextBlock):
            lines += [INLINE.sub("", line.text) for line in block.lines]
        else:
            found = [label for line in block.lines if (label := LABEL.match(line.text))]
            lines += [text for label in found for text in label_div(label[1])]
    return lines
