"""Running a document's cells, and the one Markdown text that prose and outputs make together."""

from __future__ import annotations

import json
import re
from itertools import groupby
from pathlib import Path

from measure.errors import UserError
from report.engine.cells import Cell, read_cell
from report.engine.chapters import is_left_out, left_out
from report.engine.inline import with_values
from report.engine.kernel import CellError, Kernel, Output
from report.engine.project import Project
from report.engine.source import Line, Prose, read_source


def execute(project: Project, data: Path) -> list[Line]:
    """The document as Markdown, every line with its place.

    The cells run once, in order, in one kernel in the project's root, which finds `data` in the environment
    variable RIDGEPOINT_DATA. A figure or table becomes a div with its label, whose last paragraph is the
    caption: Quarto's own syntax for one written by hand. Of a chapter that is left out no cell is run: it is there
    for `selection.lua`, which takes it out and knows its labels by then.

    Raises UserError, with file and line, for a cell or an inline expression that fails.
    """
    blocks = [
        block if isinstance(block, Prose) else read_cell(block, project) for block in read_source(project)
    ]
    _check_labels([block for block in blocks if isinstance(block, Cell)])
    names = left_out(project)
    lines: list[Line] = []
    with Kernel(project.root, {"RIDGEPOINT_DATA": str(data)}) as kernel:
        for block in blocks:
            if isinstance(block, Prose):
                lines += _prose_lines(block, kernel, names)
            elif is_left_out(block.opening.file, names):
                lines += _label_lines(block)
            else:
                lines += _cell_lines(block, kernel)
    return lines


def _prose_lines(prose: Prose, kernel: Kernel, names: set[str]) -> list[Line]:
    """The lines with their values; those of the chapters `names` as they stand."""
    lines: list[Line] = []
    pairs = zip(prose.lines, prose.listing, strict=True)
    for out, group in groupby(pairs, key=lambda pair: is_left_out(pair[0].file, names)):
        part = list(group)
        own = [line for line, _ in part]
        lines += own if out else with_values(Prose(own, [listing for _, listing in part]), kernel)
    return lines


def _label_lines(cell: Cell) -> list[Line]:
    """What stands for a cell that is not run: its label, by which references to it are known."""
    label = cell.options.get("label")
    return [cell.opening.beside(text) for text in ["", f"::: {{#{label}}}", ":::", ""]] if label else []


def _check_labels(cells: list[Cell]) -> None:
    places: dict[str, str] = {}
    for cell in cells:
        label = cell.options.get("label")
        if label in places:
            raise UserError(
                f"{cell.opening.place}: the label '{label}' is taken by the cell at {places[label]}"
            )
        if label:
            places[label] = cell.opening.place


def _cell_lines(cell: Cell, kernel: Kernel) -> list[Line]:
    outputs: list[Output] = []
    if cell.shows("eval"):
        try:
            outputs = kernel.run(cell.code)
        except CellError as error:
            line = cell.first_line + error.line - 1 if error.line else cell.opening.number
            raise UserError(f"{cell.opening.file}:{line}: {error}") from error
    texts: list[str] = []
    if cell.shows("include"):
        if cell.shows("echo"):
            texts += ["", *_listing(cell.code.strip("\n"), "{.python}"), ""]
        if cell.shows("output") and cell.shows("eval"):
            texts += _float(cell, [text for output in outputs for text in _output(cell, output)])
    return [cell.opening.beside(line) for text in texts for line in text.split("\n")]


def _float(cell: Cell, content: list[str]) -> list[str]:
    if cell.caption is None:
        return content
    attributes = f"#{cell.options['label']}"
    for option in ("fig-alt", "tbl-colwidths"):
        if option in cell.options:
            value = cell.options[option]
            text = value if isinstance(value, str) else json.dumps(value)
            attributes += ' {}="{}"'.format(option, re.sub(r'([\\"])', r"\\\1", text))
    return ["", f"::: {{{attributes}}}", *content, "", " ".join(cell.caption.split()), ":::", ""]


def _output(cell: Cell, output: Output) -> list[str]:
    if output.stream == "stderr" and not cell.shows("warning"):
        return []
    if "text/html" in output.data:
        raise UserError(
            f"{cell.opening.place}: the cell puts out text/html, for which Quarto loads scripts from a network; "
            "put out text/markdown (a picture, a table, or a raw {=html} block)"
        )
    if "text/markdown" in output.data:
        return ["", output.data["text/markdown"], ""]
    if set(output.data) != {"text/plain"}:
        raise UserError(
            f"{cell.opening.place}: the cell puts out {', '.join(sorted(output.data))}; "
            "the embedded engine shows text/markdown and text/plain"
        )
    text = output.data["text/plain"]
    if cell.options["output"] == "asis" and output.stream == "stdout":
        return ["", text, ""]
    return ["", *_listing(text.rstrip("\n")), ""]


def _listing(text: str, info: str = "") -> list[str]:
    longest = max((len(ticks) for ticks in re.findall("`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    return [f"{ticks} {info}".rstrip(), text, ticks]
