"""Inline code, `` `{python} expression` ``: its places in the text and how a value becomes Markdown."""

from __future__ import annotations

import re

from measure.errors import UserError
from report.engine.kernel import CellError, Kernel
from report.engine.source import Line, Prose

INLINE = re.compile(r"(?<!`)`\{python\}[ \t]([^`]+)`")
UNREADABLE = re.compile(r"`\{+(\w+)\}+\s")


def with_values(prose: Prose, kernel: Kernel) -> list[Line]:
    """The lines of `prose` with the value of each inline expression in its place.

    Raises UserError, with file and line, for an expression that fails or whose value has no readable text.
    """
    found = [
        (number, match[1].strip())
        for number, (line, listing) in enumerate(zip(prose.lines, prose.listing, strict=True))
        for match in ([] if listing else INLINE.finditer(line.text))
    ]
    values: dict[int, list[str]] = {}
    for number, expression in found:
        line = prose.lines[number]
        try:
            value = kernel.evaluate([expression])[0]
        except CellError as error:
            raise UserError(f"{line.place}: `{expression}` raises {error}") from error
        values.setdefault(number, []).append(as_markdown(value, expression, line))
    lines = []
    for number, line in enumerate(prose.lines):
        # Every second part is an expression, and its value takes that place.
        parts = [line.text] if prose.listing[number] else INLINE.split(line.text)
        parts[1::2] = values.get(number, [])
        unreadable = UNREADABLE.search("".join(parts[::2]))
        if unreadable:
            raise UserError(
                f"{line.place}: inline code is `{{python}} expression`, on one line and outside listings, "
                f"not {unreadable[0].strip()!r}"
            )
        lines.append(line.beside("".join(parts)))
    return lines


def as_markdown(value: dict[str, str], expression: str, line: Line) -> str:
    """The Markdown that a value stands for, by the rules of Quarto's Jupyter engine.

    A `Markdown` object is Markdown. Anything else is its `repr`; a string's quotes are dropped and what
    Markdown would read as markup in it is escaped. Quarto leaves an empty text as code and doubles the
    backslashes of a `repr`, so texts that are empty or hold a backslash or an invisible character are refused.
    """
    if "text/html" in value:
        raise UserError(f"{line.place}: `{expression}` is HTML, which a PDF cannot show; return Markdown")
    text = value.get("text/markdown", value["text/plain"])
    if "text/markdown" not in value and text[:1] in "'\"" and text[:1] == text[-1:]:
        text = text[1:-1]
        if "\\" in text:
            raise UserError(
                f"{line.place}: the text of `{expression}` holds a backslash, both kinds of quotes or an "
                "invisible character, which Quarto garbles; return IPython.display.Markdown(text)"
            )
        text = re.sub(r"([`*_{}\[\]()>#+,\-.!])", r"\\\1", text)
    if not text:
        raise UserError(f"{line.place}: `{expression}` is an empty text")
    return text
