"""The paper's figures as files, each by its label: pictures, its specification, and its data as CSV."""

import ast
import csv
import io
import json
from collections.abc import Callable, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

from measure.cache.table import as_text
from measure.errors import UserError, unknown
from report import failures
from report.charts import drawing
from report.charts.drawing import converted, picture
from report.display import Display
from report.engine.project import read_project
from report.engine.source import CodeCell, read_source
from report.files import write_file

WRITERS: dict[str, tuple[str, Callable[[dict[str, Any]], str | bytes]]] = {
    "svg": (".svg", picture),
    "png": (".png", lambda specification: bytes(converted(specification, "png", scale=2))),
    "pdf": (".pdf", lambda specification: bytes(converted(specification, "pdf"))),
    "json": (".vl.json", lambda specification: json.dumps(specification, indent=1, ensure_ascii=False)),
}
"""A file's ending by format, and the function from a figure's specification to its content."""


def write_figures(
    root: Path, labels: Sequence[str], formats: Sequence[str], out: Path, progress: Callable[[str], None]
) -> list[Path]:
    """Write the figures with these labels, or all, of the chosen chapters; return the files.

    ``progress`` gets a line per figure. Raises UserError for an unknown label.
    """
    project = read_project(root.resolve())
    cells = [part for part in read_source(project) if isinstance(part, CodeCell)]
    figures = {cell.options["label"]: cell for cell in cells if "fig-cap" in cell.options}
    if not figures:
        raise UserError("there is no figure in the chapters that are chosen; choose others with --chapters")
    for label in labels:
        if label not in figures:
            raise unknown("--figures", label, figures)
    wanted = {label: figures[label] for label in labels or figures}
    files = {cell.opening.file for cell in wanted.values()}
    out = out.resolve()
    written: list[Path] = []
    with chdir(project.root):  # the cells name files as seen from there
        names: dict[str, Any] = {}
        for cell in cells:
            if (name := cell.options.get("label")) in wanted:
                figure = _run(cell, names)
                drawing.cancel()  # a page's picture
                specification = getattr(figure, "specification", None)
                if specification is None:
                    why = "its data are missing" if isinstance(figure, Display) else "no @display.figure made it"
                    progress(f"{name} is not written: {why}")
                    continue
                progress(f"writing {name}")
                for ending, content in ((".csv", as_csv), *(WRITERS[each] for each in formats)):
                    try:
                        text = content(specification)
                    except ValueError as failure:
                        failures.sentence(f"drawing {name}{ending}", failure)  # reported at the end
                        continue
                    written.append(out / f"{name}{ending}")
                    write_file(written[-1], text.encode() if isinstance(text, str) else text)
            elif not cell.options["include"] or (cell.options["output"] == "asis" and cell.opening.file in files):
                _run(cell, names)  # it prepares all chapters, or one with a figure to write
    return written


def _run(cell: CodeCell, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last line, if it has one."""
    file = cell.opening.file
    try:
        code = ast.parse(cell.code, file)
        last = code.body.pop() if code.body else ast.Pass()
        value = last.value if isinstance(last, ast.Expr) else None
        if not value:
            code.body.append(last)
        exec(compile(code, file, "exec"), names)
        return eval(compile(ast.Expression(value), file, "eval"), names) if value else None
    except UserError:
        raise
    except Exception as error:
        raise cell.opening.error(f"{type(error).__name__}: {error}") from error


def as_csv(specified: dict[str, Any]) -> str:
    """Return the tables of a specification, one below the other. Cells are empty if a table lacks the column."""
    records = [
        table["about"] | {table["columns"].get(name, name): value for name, value in row.items()}
        for table in specified["usermeta"]["tables"]
        for row in specified["datasets"][table["data"]]
    ]
    headings = list(dict.fromkeys(heading for record in records for heading in record))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(as_text, headings))
    writer.writerows([_cell(record.get(heading)) for heading in headings] for record in records)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Format a value of a dataset as JavaScript does."""
    return json.dumps(value) if isinstance(value, (bool, list, dict)) else as_text(value)
