"""What the paper says of a cache, as its chapters ask for it: without a kernel, pandoc or a figure that is drawn."""

import re
from dataclasses import dataclass
from types import SimpleNamespace
from unittest import mock

import report.paper.paper
from report.engine.cells import read_cell

from helpers.places import ROOT
from report.engine.execution import INLINE
from report.engine.project import read_project
from report.engine.source import TextBlock, read_source


@dataclass(frozen=True)
class Told:
    """A text, the chapter that it stands in, and the code that gave it: an inline expression or a cell."""

    chapter: str
    code: str
    text: str


STEPS = r"training\.(time_ratios|reasons|rates|estimates)"
COSTS = r"layers\.(dominant|remainders|pictured|single)"
"""The findings on training steps, and on what their layers cost."""

EVERYTHING = r"findings\.|claims\.|tables\."
"""Sentences and tables; a figure is asked for in its name, for the sentence in its place."""


def told(paper, wanted=EVERYTHING, root=ROOT):
    """The text of each inline expression and cell of the chapters whose code ``wanted`` matches, in their order.

    The chapters' first cell imports what the others call, and loads the paper: the one given instead. A figure that is
    drawn has no text.
    """
    project = read_project(root)
    names, texts = {}, []

    def tell(chapter, code):
        if re.search(wanted, code):
            value = eval(code, names)
            texts.append(Told(chapter, code, str(value) if isinstance(value, str) else ""))

    with mock.patch.object(report.paper.paper, "load", return_value=paper):
        for block in read_source(project):
            if isinstance(block, TextBlock):
                for line, listing in zip(block.lines, block.listing, strict=True):
                    for code in [] if listing else INLINE.findall(line.text):
                        tell(line.file, code.strip())
                continue
            cell = read_cell(block, project)
            if cell.shows("include"):
                tell(cell.opening.file, cell.code.strip())
            else:
                exec(cell.code, names)
                names["show"] = SimpleNamespace(show=lambda content: content)
    return texts
