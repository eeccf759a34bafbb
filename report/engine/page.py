"""The web page: one HTML file with everything in it."""

from __future__ import annotations

import base64
import html
import mimetypes
import re
from pathlib import Path
from typing import Any

from report.engine.images import Picture, with_pictures
from report.engine.pandoc import Element, attributes, raw_block, raw_inline, transform
from report.engine.places import Places
from report.engine.project import Project
from report.engine.withheld import Withheld

#: What has a meaning in an address or in a page.
RESERVED = re.compile("[%#<>&]|[^ -~]")


def page_blocks(blocks: list[Element], project: Project, places: Places, withheld: Withheld) -> list[Element]:
    """The document's blocks as the page needs them: pictures inside, wide content in boxes that scroll."""

    def picture(image: Picture) -> Element:
        style = f' style="width:{image.width}"' if image.width else ""
        alternative = html.escape(image.alternative)
        address = _address(project.root / image.path)
        return raw_inline("html", withheld.mark(f'<img src="{address}" alt="{alternative}"{style}>'))

    return list(transform(with_pictures(blocks, project.root, places, picture), _boxed))


def _address(picture: Path) -> str:
    """A picture as an address of its own content: an SVG as text, a fifth shorter than base64, and fit for quotes."""
    kind = mimetypes.guess_type(picture.name)[0] or "application/octet-stream"
    if kind == "image/svg+xml":
        text = picture.read_text("utf-8").replace("'", "&#39;").replace('"', "'")
        return f"data:{kind};charset=utf-8,{RESERVED.sub(_percent, text)}"
    return f"data:{kind};base64,{base64.b64encode(picture.read_bytes()).decode()}"


def _percent(character: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in character[0].encode())


def _boxed(block: Element) -> list[Element] | None:
    if block["t"] == "Figure":
        attribute, caption, content = block["c"]
        box = [raw_block("html", '<div class="scroll">'), *content, raw_block("html", "</div>")]
        return [{"t": "Figure", "c": [attribute, caption, box]}]
    if block["t"] == "Table":
        return _table(block["c"])
    return None


def _table(table: list[Any]) -> list[Element]:
    """The caption stays in place while the table below it scrolls, so it cannot be part of the table."""
    label, caption = html.escape(table[0][0]), table[1][1]
    bare = {"t": "Table", "c": [attributes(), [None, []], *table[2:]]}
    opening, named = '<figure class="table">', 'aria-label="Table"'
    if label:
        opening = f'<figure class="table" id="{label}">'
        named = f'aria-labelledby="{label}-caption"'
    before = [raw_block("html", opening)]
    if caption:
        name = f' id="{label}-caption"' if label else ""
        before += [raw_block("html", f"<figcaption{name}>"), *caption, raw_block("html", "</figcaption>")]
    before.append(raw_block("html", f'<div class="scroll" role="region" tabindex="0" {named}>'))
    return [*before, bare, raw_block("html", "</div></figure>")]


def page_arguments(project: Project, temporary: Path, paper: str | None) -> list[str]:
    """Pandoc's arguments for the page; `paper` is the PDF's name where there is one beside it."""
    resources = Path(__file__).parent / "resources"
    options = project.format("html")
    styles = [(project.root / path).read_text("utf-8") for path in project.files(options.get("css"))]
    header = temporary / "header.html"
    header.write_text(
        "\n".join([*(f"<style>\n{style}</style>" for style in styles), *project.header_texts("html")]),
        "utf-8",
    )
    arguments = [
        "--to=html5",
        "--mathml",
        "--section-divs",
        "--wrap=preserve",
        f"--template={resources / 'page.html'}",
        f"--include-in-header={header}",
    ]
    if options.get("toc", False):
        arguments += ["--toc", f"--toc-depth={options.get('toc-depth', 3)}"]
        arguments.append(f"--variable=toc-title:{options.get('toc-title', 'Contents')}")
    if paper:
        arguments.append(f"--variable=paper:{paper}")
    return arguments
