"""The paper: a PDF set by Typst."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typst

from measure.errors import UserError
from report.engine import tree
from report.engine.project import Project, read_text
from report.engine.source import Places
from report.engine.tree import Change, Element, plain, plain_text, raw

FULL_WIDTH = 800
"""Pixels of a picture that takes the whole line: all have one scale, so that their letters have one size."""
WIDTH = re.compile(r'^[^>]*?<svg\b[^>]*?(?<![\w-])width="([\d.]+)(?:px)?"')


def paper_changes(project: Project, places: Places) -> dict[str, Change]:
    """Return the calls of the template's functions that the paper needs instead of elements."""

    def image(element: Element) -> list[Element]:
        path, alternative = tree.picture(element, project, places)
        drawn = WIDTH.search(read_text(project.root / path))
        width = f"{min(100, 100 * float(drawn[1]) / FULL_WIDTH):.4g}%" if drawn else "auto"
        return [inline(f"#box(image({_string(path)}, width: {width}, alt: {_string(alternative)}))")]

    def callout(element: Element) -> list[Element] | None:
        (identifier, classes, _), content = element["c"]
        if "callout" not in classes:
            return None
        title, body = content
        heading = plain(inline(f'#callout("{classes[1]}")['), *title["c"][1][0]["c"], inline("]["))
        return [heading, *body["c"][1], raw("typst", f"] <{identifier}>" if identifier else "]")]

    def equation(element: Element) -> list[Element] | None:
        (identifier, classes, _), content = element["c"]
        if "equation" not in classes:
            return None
        formula, number = content
        call = f"#numbered-equation({_string(plain_text(number))}, {_string(formula['c'][1])})["
        return [inline(call), formula, inline(f" <{identifier}>]")]

    def formula(element: Element) -> list[Element]:
        return [inline(f"#spoken({_string(element['c'][1])})["), element, inline("]")]  # read aloud as its TeX

    def table(element: Element) -> list[Element]:
        return [{"t": "Table", "c": with_column_widths(element["c"])}]

    def inline(text: str) -> Element:
        return raw("typst", text, "RawInline")

    return {"Image": image, "Div": callout, "Span": equation, "Math": formula, "Table": table}


def _string(text: str) -> str:
    """Return a text on one line as a string of Typst, which are JSON's as far as paths and sentences go."""
    return json.dumps(" ".join(text.split()), ensure_ascii=False)


def with_column_widths(table: list[Any]) -> list[Any]:
    """Return the content of a Table, with relative widths where its longest lines do not fit.

    Typst gives the columns of a table that is too wide equal shares, and words that do not fit run into the next one.
    """
    rows = [*table[3][1], *(row for _, _, head, body in table[4] for row in [*head, *body])]
    widths = tree.column_widths([[plain_text(row[1][at][4]) for row in rows] for at in range(len(table[2]))])
    if sum(widths) < tree.LINE_CHARACTERS:
        return table
    shares = [{"t": "ColWidth", "c": width / sum(widths)} for width in widths]
    return [*table[:2], [[kind, share] for (kind, _), share in zip(table[2], shares, strict=True)], *table[3:]]


def paper_arguments(project: Project) -> list[str]:
    """Return pandoc's arguments for the Typst source, in which citations are written out."""
    options = project.format("typst")
    variables = {
        "header-includes": "\n".join(project.header_texts("typst")),
        "papersize": options.get("papersize", "a4"),
        "margin": ", ".join(f"{side}: {length}" for side, length in (options.get("margin") or {}).items()),
        "fontsize": options.get("fontsize", "10pt"),
    }
    template = Path(__file__).parent / "resources" / "paper.typ"
    given = [f"--variable={name}:{value}" for name, value in variables.items() if value]
    return ["--to=typst-citations", f"--template={template}", *given]


def compile_paper(text: str, project: Project, note: Callable[[str], None]) -> bytes:
    """Return the PDF of a Typst source; fonts are the project's and those in the typst package.

    It is tagged for readers who listen (PDF/UA-1, ISO 14289-1), which Typst refuses to a character that no font has:
    then it is not, and `note` is told.
    """
    fonts = [str(project.root / folder) for folder in project.files(project.format("typst").get("font-paths"))]
    compiler = typst.Compiler(root=str(project.root), font_paths=fonts, ignore_system_fonts=True)
    try:
        pdf: Any = compiler.compile(text.encode(), format="pdf", pdf_standards="ua-1")
    except typst.TypstError as problem:
        try:
            pdf = compiler.compile(text.encode(), format="pdf")
        except typst.TypstError as error:
            raise UserError(f"Typst stops: {error.message} {' '.join(error.hints)}".strip()) from error
        note(f"the PDF is not tagged: {problem.message}")
    return bytes(pdf)
