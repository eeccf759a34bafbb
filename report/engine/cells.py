"""A code cell and its `#|` options."""

import ast
import re
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from measure.errors import UserError
from report.engine.project import Project
from report.engine.settings import Schema, read_settings
from report.engine.source import CodeBlock, Line

OPTION = re.compile(r"^#\s*\| ?")

OPTION_SCHEMA: Schema = {
    "label": str, "fig-cap": str, "fig-alt": str, "tbl-cap": str, "tbl-colwidths": (str, list, bool),
    "include": bool, "echo": bool, "eval": bool, "output": {True, False, "asis"}, "warning": bool,
}  # fmt: skip


@dataclass(frozen=True)
class CodeCell:
    """Python code to run, and how its output enters the document.

    `opening` is the fence's line, `first_line` the number of the code's first line in the same file.
    """

    opening: Line
    first_line: int
    code: str
    options: dict[str, Any]

    def shows(self, option: str) -> bool:
        """Return whether a yes-or-no option is on."""
        return bool(self.options[option])

    @property
    def caption(self) -> str | None:
        """The caption, of a figure or of a table."""
        return self.options.get("fig-cap") or self.options.get("tbl-cap")


def read_cell(block: CodeBlock, project: Project) -> CodeCell:
    """Return the cell that a code block holds.

    Raise UserError, with file and line, for an unknown option, a caption that does not go with the label,
    inline code in an option and code that is not Python.
    """
    opening = block.opening
    options = [line.text for line in takewhile(lambda line: OPTION.match(line.text), block.lines)]
    text = "\n".join(OPTION.sub("", option) for option in options)
    defaults = {"include": True, "eval": True, "output": True}
    defaults |= {name: project.execute(name, True) for name in ("echo", "warning")}
    given = read_settings(text, opening.file, opening.number + 1, OPTION_SCHEMA)
    _check_captions(given, opening)
    code = "\n".join(line.text for line in block.lines[len(options) :])
    cell = CodeCell(opening, opening.number + len(options) + 1, code, {**defaults, **given})
    if cell.shows("eval"):
        try:
            ast.parse(code)
        except SyntaxError as error:
            line = cell.first_line + (error.lineno or 1) - 1
            raise UserError(f"{opening.file}:{line}: SyntaxError: {error.msg}") from error
    return cell


def _check_captions(options: dict[str, Any], opening: Line) -> None:
    label = options.get("label", "")
    for prefix, caption in (("fig", "fig-cap"), ("tbl", "tbl-cap")):
        if label.startswith(f"{prefix}-") != (caption in options):
            raise opening.error(
                f"a label '{prefix}-…' and '{caption}' go together, here the label is {label or 'missing'!r}"
            )
    for key in ("fig-cap", "tbl-cap", "fig-alt"):
        if "`{python}" in str(options.get(key, "")):
            raise opening.error(f"'{key}' cannot hold inline code; options are read as they stand")
    if not re.fullmatch(r"[\w.:-]*", label):
        raise opening.error(f"the label {label!r} may hold letters, digits and - . : _ only")
