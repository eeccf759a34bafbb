"""The paper: a PDF set by Typst."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import typst

from measure.errors import UserError
from report.engine.columns import with_column_widths
from report.engine.images import Picture, with_pictures
from report.engine.pandoc import Element, div, plain, raw_block, raw_inline, transform
from report.engine.places import Places
from report.engine.project import Project

FULL_WIDTH = 656
"""Pixels of a picture that takes the whole line; one that is wider is made smaller."""

WIDTH = re.compile(r'^[^>]*?<svg\b[^>]*?(?<![\w-])width="([\d.]+)(?:px)?"')


def paper_blocks(blocks: list[Element], project: Project, places: Places) -> list[Element]:
    """The document's blocks with calls of the template's functions for what pandoc does not write."""

    def picture(image: Picture) -> Element:
        # JSON's strings are Typst's, as far as paths and sentences go.
        path, alternative = (json.dumps(text, ensure_ascii=False) for text in (image.path, image.alternative))
        width = image.width or _share_of_line(project.root / image.path)
        return raw_inline("typst", f"#box(image({path}, width: {width}, alt: {alternative}))")

    blocks = transform(blocks, _floating)
    return list(transform(with_pictures(blocks, project.root, places, picture), _called))


def _share_of_line(picture: Path) -> str:
    """The width of a picture that has none given: all drawn at one scale, so that their letters have one size."""
    width = WIDTH.search(picture.read_text("utf-8")) if picture.suffix == ".svg" else None
    return f"{min(100, 100 * float(width[1]) / FULL_WIDTH):.4g}%" if width else "auto"


def _floating(element: Element) -> list[Element] | None:
    """A figure that may stand at the top or bottom of a page; a sentence in place of one stays in the text."""
    if element["t"] != "Figure" or not _holds_picture(element):
        return None
    return [raw_block("typst", "#[#set figure(placement: auto)"), element, raw_block("typst", "]")]


def _holds_picture(node: Any) -> bool:
    if isinstance(node, dict):
        return node.get("t") == "Image" or _holds_picture(node.get("c"))
    return isinstance(node, list) and any(map(_holds_picture, node))


def _called(element: Element) -> list[Element] | None:
    if element["t"] == "Div" and "callout" in element["c"][0][1]:
        (identifier, classes, _), (title, body) = element["c"]
        opening = raw_inline("typst", f'#callout("{classes[1]}")[')
        label = f" <{identifier}>" if identifier else ""
        heading = plain([opening, *title["c"][1][0]["c"], raw_inline("typst", "][")])
        return [heading, div(body["c"][1]), raw_block("typst", f"]{label}")]
    if element["t"] == "Table":
        return [{"t": "Table", "c": with_column_widths(element["c"])}]
    if element["t"] == "Span" and "equation" in element["c"][0][1]:
        (identifier, _, _), (formula, number) = element["c"]
        text = number["c"][1][0]["c"]
        return [
            raw_inline("typst", f'#numbered-equation("{text}", {_spoken(formula)})['),
            formula,
            raw_inline("typst", f" <{identifier}>]"),
        ]
    if element["t"] == "Math":
        return [raw_inline("typst", f"#spoken({_spoken(element)})["), element, raw_inline("typst", "]")]
    return None


def _spoken(formula: Element) -> str:
    """A formula's alternative text, its TeX, as a string of Typst."""
    return json.dumps(" ".join(formula["c"][1].split()), ensure_ascii=False)


def paper_arguments(project: Project, temporary: Path) -> list[str]:
    """Pandoc's arguments for the Typst source."""
    header = temporary / "header.typ"
    header.write_text("\n".join(project.header_texts("typst")), "utf-8")
    return [
        "--to=typst",
        f"--template={Path(__file__).parent / 'resources' / 'paper.typ'}",
        f"--include-in-header={header}",
        f"--variable=papersize:{project.format('typst').get('papersize', 'a4')}",
    ]


def compile_paper(text: str, project: Project) -> bytes:
    """Return the PDF of a Typst source; fonts are the project's and those in the typst package.

    It is tagged for readers who listen (PDF/UA-1, ISO 14289-1), which Typst refuses to a picture or formula without
    an alternative text.
    """
    try:
        compiler = typst.Compiler(
            root=str(project.root), font_paths=project.font_folders, ignore_system_fonts=True
        )
        pdf = compiler.compile(text.encode(), format="pdf", pdf_standards="ua-1")
    except typst.TypstError as error:
        raise UserError(f"Typst stops: {error.message} {' '.join(error.hints)}".rstrip()) from error
    assert isinstance(pdf, bytes)  # Lists are for images, a page each.
    return pdf
