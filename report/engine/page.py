"""The web page: one HTML file with everything in it."""

from __future__ import annotations

import base64
import html
import mimetypes
from pathlib import Path
from typing import Any

from report.engine.images import Picture, with_pictures
from report.engine.pandoc import Element, attributes, raw_block, string, transform
from report.engine.places import Places
from report.engine.project import Project


def page_blocks(blocks: list[Element], project: Project, places: Places) -> list[Element]:
    """The document's blocks as the page needs them: pictures inside, wide content in boxes that scroll."""

    def picture(image: Picture) -> Element:
        kind = mimetypes.guess_type(image.path)[0] or "application/octet-stream"
        content = base64.b64encode((project.root / image.path).read_bytes()).decode()
        style = [["style", f"width:{image.width}"]] if image.width else []
        target = [f"data:{kind};base64,{content}", ""]
        return {"t": "Image", "c": [["", [], style], [string(image.alternative)], target]}

    return list(transform(with_pictures(blocks, project.root, places, picture), _boxed))


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
