"""Running a document's cells and inline code, and the one Markdown text that prose and outputs make together."""

import json
import re
from itertools import groupby
from pathlib import Path

from measure.errors import UserError
from report.engine.cells import CodeCell, read_cell
from report.engine.chapters import is_left_out, label_div, left_out
from report.engine.jupyter_kernel import CellError, Output
from report.engine.project import Project
from report.engine.remembering import Session, session
from report.engine.source import INLINE, Line, TextBlock, read_source

UNREADABLE = re.compile(r"`\{+(\w+)\}+\s")


def execute(project: Project, data: Path) -> list[Line]:
    """Return the document as Markdown, every line with its place.

    The cells run once, in order, in one Jupyter kernel in the project's root, which finds `data` in the environment
    variable ROOFWRIGHT_DATA; what `remembering` knows is not run again. A figure or table becomes a div with its
    label, whose last paragraph is the caption: Quarto's syntax for one written by hand. Of a chapter that is left out
    no cell is run: it is there for `missing.lua`, which takes it out and knows its labels by then.

    Raise UserError, with file and line, for a cell or an inline expression that fails.
    """
    blocks = [block if isinstance(block, TextBlock) else read_cell(block, project) for block in read_source(project)]
    _check_labels([block for block in blocks if isinstance(block, CodeCell)])
    names = left_out(project)
    lines: list[Line] = []
    with session(project, data) as code:
        for block in blocks:
            if isinstance(block, TextBlock):
                lines += _prose_lines(block, code, names)
            elif not is_left_out(block.opening.file, names):
                lines += _cell_lines(block, code)
            elif "label" in block.options:
                lines += [block.opening.beside(text) for text in label_div(block.options["label"])]
    return lines


def _check_labels(cells: list[CodeCell]) -> None:
    places: dict[str, str] = {}
    for cell in cells:
        label = cell.options.get("label")
        if label in places:
            raise cell.opening.error(f"the label '{label}' is taken by the cell at {places[label]}")
        if label:
            places[label] = cell.opening.place


def _prose_lines(prose: TextBlock, code: Session, names: set[str]) -> list[Line]:
    """Return the lines with their values; those of the chapters `names` as they stand."""
    lines: list[Line] = []
    pairs = zip(prose.lines, prose.listing, strict=True)
    for out, group in groupby(pairs, key=lambda pair: is_left_out(pair[0].file, names)):
        part = list(group)
        lines += [line for line, _ in part] if out else [with_values(*pair, code) for pair in part]
    return lines


def with_values(line: Line, listing: bool, code: Session) -> Line:
    """Return a line with the value of each inline expression in its place, unless it is one of a listing.

    Raise UserError, with file and line, for an expression that fails or whose value has no readable text.
    """
    # Every second part is an expression, and its value takes that place.
    parts = [line.text] if listing else INLINE.split(line.text)
    unreadable = UNREADABLE.search("".join(parts[::2]))
    if unreadable:
        raise line.error(
            f"inline code is `{{python}} expression`, on one line and outside listings, not {unreadable[0].strip()!r}"
        )
    for at in range(1, len(parts), 2):
        expression = parts[at].strip()
        try:
            parts[at] = as_markdown(code.evaluate(expression), expression, line)
        except CellError as error:
            raise line.error(f"`{expression}` raises {error}") from error
    return line.beside("".join(parts))


def as_markdown(value: dict[str, str], expression: str, line: Line) -> str:
    """Return the Markdown that a value stands for, by the rules of Quarto's Jupyter engine.

    A `Markdown` object is Markdown. Anything else is its `repr`; a string's quotes are dropped and what
    Markdown would read as markup in it is escaped. Quarto leaves an empty text as code and doubles the
    backslashes of a `repr`, so texts that are empty or hold a backslash or an invisible character are refused.
    """
    if "text/html" in value:
        raise line.error(f"`{expression}` is HTML, which a PDF cannot show; return Markdown")
    text = value.get("text/markdown", value["text/plain"])
    if "text/markdown" not in value and text[:1] in "'\"" and text[:1] == text[-1:]:
        text = text[1:-1]
        if "\\" in text:
            raise line.error(
                f"the text of `{expression}` holds a backslash, both kinds of quotes or an "
                "invisible character, which Quarto garbles; return IPython.display.Markdown(text)"
            )
        text = re.sub(r"([`*_{}\[\]()>#+,\-.!])", r"\\\1", text)
    if not text:
        raise line.error(f"`{expression}` is an empty text")
    return text


def _cell_lines(cell: CodeCell, code: Session) -> list[Line]:
    outputs: list[Output] = []
    if cell.shows("eval"):
        try:
            outputs = code.run(cell.code, cell.options.get("label"))
        except CellError as error:
            line = cell.first_line + error.line - 1 if error.line else cell.opening.number
            raise UserError(f"{cell.opening.file}:{line}: {error}") from error
    if not cell.shows("include"):
        return []
    texts = ["", *_listing(cell.code.strip("\n"), "{.python}"), ""] if cell.shows("echo") else []
    if cell.shows("output") and cell.shows("eval"):
        texts += _float(cell, [text for output in outputs for text in _output(cell, output)])
    return [cell.opening.beside(line) for text in texts for line in text.split("\n")]


def _float(cell: CodeCell, content: list[str]) -> list[str]:
    if cell.caption is None:
        return content
    attributes = f"#{cell.options['label']}"
    for option in ("fig-alt", "tbl-colwidths"):
        if option in cell.options:
            value = cell.options[option]
            text = value if isinstance(value, str) else json.dumps(value)
            attributes += ' {}="{}"'.format(option, re.sub(r'([\\"])', r"\\\1", text))
    return ["", f"::: {{{attributes}}}", *content, "", " ".join(cell.caption.split()), ":::", ""]


def _output(cell: CodeCell, output: Output) -> list[str]:
    if output.stream == "stderr" and not cell.shows("warning"):
        return []
    if "text/html" in output.data:
        raise cell.opening.error(
            "the cell outputs text/html, for which Quarto loads scripts from a network; "
            "output text/markdown (a picture, a table, or a raw {=html} block)"
        )
    if "text/markdown" in output.data:
        return ["", output.data["text/markdown"], ""]
    if set(output.data) != {"text/plain"}:
        raise cell.opening.error(
            f"the cell outputs {', '.join(sorted(output.data))}; the embedded engine shows text/markdown and text/plain"
        )
    text = output.data["text/plain"]
    if cell.options["output"] == "asis" and output.stream == "stdout":
        return ["", text, ""]
    return ["", *_listing(text.rstrip("\n")), ""]


def _listing(text: str, info: str = "") -> list[str]:
    longest = max((len(ticks) for ticks in re.findall("`{3,}", text)), default=2)
    ticks = "`" * (longest + 1)
    return [f"{ticks} {info}".rstrip(), text, ticks]
