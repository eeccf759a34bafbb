"""The paper: a PDF set by Typst."""

from __future__ import annotations

import json
from pathlib import Path

import typst

from measure.errors import UserError
from report.engine.columns import with_column_widths
from report.engine.images import Picture, with_pictures
from report.engine.pandoc import Element, div, plain, raw_block, raw_inline, transform
from report.engine.places import Places
from report.engine.project import Project


def paper_blocks(blocks: list[Element], project: Project, places: Places) -> list[Element]:
    """The document's blocks with calls of the template's functions for what pandoc does not write."""

    def picture(image: Picture) -> Element:
        # JSON's strings are Typst's, as far as paths and sentences go.
        path, alternative = (json.dumps(text, ensure_ascii=False) for text in (image.path, image.alternative))
        width = image.width or "auto"
        return raw_inline("typst", f"#box(image({path}, width: {width}, alt: {alternative}))")

    return list(transform(with_pictures(blocks, project.root, places, picture), _called))


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
            raw_inline("typst", f'#numbered-equation("{text}")['),
            formula,
            raw_inline("typst", f" <{identifier}>]"),
        ]
    return None


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


def compile_paper(text: str, root: Path) -> bytes:
    """The PDF of a Typst source whose pictures are relative to `root`; fonts are those in the typst package."""
    try:
        compiler = typst.Compiler(root=str(root), ignore_system_fonts=True)
        pdf = compiler.compile(text.encode(), format="pdf")
    except typst.TypstError as error:
        raise UserError(f"Typst stops: {error.message} {' '.join(error.hints)}".rstrip()) from error
    assert isinstance(pdf, bytes)  # Lists are for images, a page each.
    return pdf
