"""The paper: a PDF set by Typst."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from string import printable
from typing import Any

import typst

from measure.errors import UserError
from report.engine import columns
from report.engine.blocks import Picture, with_pictures
from report.engine.pandoc import Element, div, plain, plain_text, raw_block, raw_inline, transform
from report.engine.project import Project, read_text
from report.engine.source import Places

FULL_WIDTH = 656
"""Pixels of a picture that takes the whole line; one that is wider is made smaller."""

BOX = "□"
"""Stands for a character that no font has."""

NAMED = 10
"""So many of those are named at most."""

DRAWING = re.compile(r'\bimage\("([^"\\]+\.svg)"')
"""A drawing in a Typst source."""

FLAG = re.compile(r"--?[a-z][\w-]*", re.ASCII)
"""A command's flag, which Typst would break after its hyphen (for Quarto: ``hyphens.lua``)."""

WIDTH = re.compile(r'^[^>]*?<svg\b[^>]*?(?<![\w-])width="([\d.]+)(?:px)?"')


def paper_blocks(blocks: list[Element], project: Project, places: Places) -> list[Element]:
    """Return the document's blocks with calls of the template's functions for what pandoc does not write."""

    def picture(image: Picture) -> Element:
        # JSON's strings are Typst's, as far as paths and sentences go.
        path, alternative = (json.dumps(text, ensure_ascii=False) for text in (image.path, image.alternative))
        width = image.width or _share_of_line(project.root / image.path)
        return raw_inline("typst", f"#box(image({path}, width: {width}, alt: {alternative}))")

    blocks = transform(blocks, _placed)
    return list(transform(with_pictures(blocks, project.root, places, picture), _called))


def _share_of_line(picture: Path) -> str:
    """Return the width of a picture that has none given: all have one scale, so that their letters have one size."""
    width = WIDTH.search(read_text(picture)) if picture.suffix == ".svg" else None
    return f"{min(100, 100 * float(width[1]) / FULL_WIDTH):.4g}%" if width else "auto"


def _placed(element: Element) -> list[Element] | None:
    """Let a figure stand at the top or bottom of a page; the sentence in place of one stays in the text.

    The sentence in a table's place has its caption above it, as Quarto and tables have.
    """
    if element["t"] != "Figure":
        return None
    if element["c"][0][0].startswith("tbl-"):
        option = "kind: table"
    elif _holds_picture(element):
        option = "placement: auto"
    else:
        return None
    return [raw_block("typst", f"#[#set figure({option})"), element, raw_block("typst", "]")]


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
        call = f'#numbered-equation("{number["c"][1][0]["c"]}", {_spoken(formula)})['
        return [raw_inline("typst", call), formula, raw_inline("typst", f" <{identifier}>]")]
    if element["t"] == "Str" and FLAG.fullmatch(element["c"]):
        unbroken = element["c"].replace("-", r"\-")
        return [raw_inline("typst", f"#box[{unbroken}]")]
    if element["t"] == "Math":
        return [raw_inline("typst", f"#spoken({_spoken(element)})["), element, raw_inline("typst", "]")]
    return None


def _spoken(formula: Element) -> str:
    """Return a formula's alternative text, its TeX, as a string of Typst."""
    return json.dumps(" ".join(formula["c"][1].split()), ensure_ascii=False)


def with_column_widths(table: list[Any]) -> list[Any]:
    """Return the content of a Table, with relative widths where it has none and its longest lines do not fit.

    Typst gives the columns of a table that is too wide equal shares, and words that do not fit then run into the
    next column.
    """
    rows = [row for _, row in _rows(table)]
    if any(width["t"] != "ColWidthDefault" for _, width in table[2]):
        return table
    if any(cell[2:4] != [1, 1] for row in rows for cell in row):
        return table
    texts = [[plain_text(row[number][4]) for row in rows] for number in range(len(table[2]))]
    if columns.fit(texts):
        return table
    widths = columns.widths(texts, heads=len(table[3][1]))
    shares = [{"t": "ColWidth", "c": width / sum(widths)} for width in widths]
    specifications = [[alignment, share] for (alignment, _), share in zip(table[2], shares, strict=True)]
    return [*table[:2], specifications, *table[3:]]


def _rows(table: list[Any]) -> list[Any]:
    (_, head), bodies = table[3], table[4]
    return [*head, *(row for _, _, more_head, body in bodies for row in [*more_head, *body])]


def paper_arguments(project: Project, temporary: Path) -> list[str]:
    """Return pandoc's arguments for the Typst source."""
    header = temporary / "header.typ"
    header.write_text("\n".join(project.header_texts("typst")), "utf-8")
    options = project.format("typst")
    sides = options.get("margin") or {}
    variables = {
        "papersize": options.get("papersize", "a4"),
        "margin": ", ".join(f"{side}: {length}" for side, length in sides.items()),
        "fontsize": options.get("fontsize", ""),
    }
    return [
        "--to=typst",
        f"--template={Path(__file__).parent / 'resources' / 'paper.typ'}",
        f"--include-in-header={header}",
        *(f"--variable={name}:{value}" for name, value in variables.items() if value),
    ]


def compile_paper(text: str, project: Project, note: Callable[[str], None]) -> bytes:
    """Return the PDF of a Typst source; fonts are the project's and those in the typst package.

    It is tagged for readers who listen (PDF/UA-1, ISO 14289-1), which Typst refuses to a picture or formula without
    an alternative text, and to a character that no font has: a box takes its place, of which `note` is told.
    """
    compiler = typst.Compiler(root=str(project.root), font_paths=project.font_folders, ignore_system_fonts=True)
    try:
        return _compiled(text, compiler)
    except UserError:
        drawings = [read_text(project.root / path) for path in DRAWING.findall(text)]
        characters = dict.fromkeys("".join([text, *drawings]))
        lacking = [character for character in characters if not _is_drawn(character, compiler)]
        if not lacking:
            raise
    named = ", ".join(f"{character} (U+{ord(character):04X})" for character in lacking[:NAMED])
    named += " and others" if len(lacking) > NAMED else ""
    note(
        f"the PDF shows {BOX} for what no font of the paper has: {named}; "
        "name a folder with a font that has it under typst: font-paths in _quarto.yml"
    )
    return _compiled(_with_boxes(text, lacking, project.root), compiler)


def _with_boxes(text: str, lacking: list[str], root: Path) -> str:
    """Return a Typst source that shows a box in place of some characters, in its drawings, too."""
    boxes = str.maketrans(dict.fromkeys(lacking, BOX))

    def drawing(image: re.Match[str]) -> str:
        content = read_text(root / image[1])
        boxed = content.translate(boxes)
        if boxed == content:
            return image[0]
        return f'image(bytes({json.dumps(boxed, ensure_ascii=False)}), format: "svg"'

    pattern = "".join(f"\\\\x{{{ord(character):x}}}" for character in lacking)
    return f'#show regex("[{pattern}]"): "{BOX}"\n' + DRAWING.sub(drawing, text)


def _compiled(text: str, compiler: typst.Compiler) -> bytes:
    try:
        pdf = compiler.compile(text.encode(), format="pdf", pdf_standards="ua-1")
    except typst.TypstError as error:
        raise UserError(f"Typst stops: {error.message} {' '.join(error.hints)}".rstrip()) from error
    assert isinstance(pdf, bytes)  # Lists are for images, a page each.
    return pdf


def _is_drawn(character: str, compiler: typst.Compiler) -> bool:
    """Return whether some font has a character; those that every font has need no trial."""
    if character in printable:
        return True
    try:
        _compiled(f'#set document(title: "One character")\n#"\\u{{{ord(character):x}}}"', compiler)
    except UserError:
        return False
    return True
