"""The web page: one HTML file with everything in it."""

import base64
import hashlib
import html
import mimetypes
import re
from pathlib import Path
from typing import Any

from report.engine.blocks import Picture, with_pictures
from report.engine.pandoc import Element, attributes, raw_block, raw_inline, transform
from report.engine.project import Project, read_text
from report.engine.source import Places

# What has a meaning in an address or in a page.
RESERVED = re.compile("[%#<>&]|[^ -~]")
RAW_BLOCK = re.compile(r"^```\{=html\}\n(.+?)\n```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!--withheld (\d+)-->")
HEAD_CELL = re.compile(r"<th(?=[ >])")
SCRIPT = re.compile(r"<script\b(?![^>]*\btype=\"application/)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)

SCRIPTS = ("page.js", "sections.js", "tables.js", "search.js")

# Of everything but scripts: nothing is fetched. Styles stand in the page and in its pictures.
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'"
)


class Withheld:
    """Texts that pandoc need not read: a mark, a comment of HTML, passes through it for each, which is quicker.

    All are the project's own: raw blocks, headers, pictures. No text of a table gets among them.
    """

    def __init__(self) -> None:
        self._texts: list[str] = []

    def mark(self, text: str) -> str:
        """Return the mark that stands for a text from now on."""
        self._texts.append(text)
        return f"<!--withheld {len(self._texts) - 1}-->"

    def without_raw_blocks(self, markdown: str) -> str:
        """Return Markdown with a mark, and as many lines as before, in each block of raw HTML."""

        def marked(block: re.Match[str]) -> str:
            lines = "\n" * block[1].count("\n")
            return f"```{{=html}}\n{self.mark(block[1])}{lines}\n```"

        return RAW_BLOCK.sub(marked, markdown)

    def restored(self, html: str) -> str:
        """Return HTML with the texts in the places of their marks."""
        return MARK.sub(lambda mark: self._texts[int(mark[1])], html)

    def policy(self) -> str:
        """Return the page's content security policy: no script runs but those in the texts."""
        scripts = [script for text in self._texts for script in SCRIPT.findall(text)]
        hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
        allowed = " ".join(f"'sha256-{each}'" for each in hashes)
        return f"{POLICY}; script-src {allowed}"


def page_blocks(blocks: list[Element], project: Project, places: Places, withheld: Withheld) -> list[Element]:
    """Return the document's blocks as the page needs them: pictures inside, wide content in boxes that scroll."""

    def picture(image: Picture) -> Element:
        style = f' style="width:{image.width}"' if image.width else ""
        alternative = html.escape(image.alternative)
        address = _address(project.root / image.path)
        # Lazy, for the scripts wait until the page is read, which takes half as long again with all pictures
        return raw_inline("html", withheld.mark(f'<img loading="lazy" src="{address}" alt="{alternative}"{style}>'))

    return list(transform(with_pictures(blocks, project.root, places, picture), _boxed))


def with_scopes(page: str) -> str:
    """Return HTML whose tables say of each cell of a head that it is a column's."""
    return HEAD_CELL.sub('<th scope="col"', page)


def _address(picture: Path) -> str:
    """Return a picture's content as an address: an SVG as text, a fifth shorter than base64, and fit for quotes."""
    kind = mimetypes.guess_type(picture.name)[0] or "application/octet-stream"
    if kind == "image/svg+xml":
        text = read_text(picture).replace("'", "&#39;").replace('"', "'")
        return f"data:{kind};charset=utf-8,{RESERVED.sub(_percent, text)}"
    return f"data:{kind};base64,{base64.b64encode(picture.read_bytes()).decode()}"


def _percent(character: re.Match[str]) -> str:
    return "".join(f"%{byte:02X}" for byte in character[0].encode())


def _boxed(block: Element) -> list[Element] | None:
    if block["t"] == "Header":  # the title is the page's only heading of the first level
        level, *rest = block["c"]
        return [{"t": "Header", "c": [min(level + 1, 6), *rest]}]
    if block["t"] == "Figure":
        attribute, caption, content = block["c"]
        if attribute[0].startswith("tbl-"):  # a sentence in a table's place
            return _captioned_above(attribute[0], caption[1], content)
        box = [raw_block("html", '<div class="scroll">'), *content, raw_block("html", "</div>")]
        return [{"t": "Figure", "c": [attribute, caption, box]}]
    if block["t"] == "Div" and "folded" in block["c"][0][1]:
        (identifier, classes, _), (title, body) = block["c"]
        opening = f'<details class="{" ".join(classes)}" id="{html.escape(identifier)}"><summary class="title">'
        opening = opening.replace(' id=""', "")
        closing = raw_block("html", "</details>")
        return [raw_block("html", opening), *title["c"][1], raw_block("html", "</summary>"), body, closing]
    if block["t"] == "Table":
        return _table(block["c"])
    if block["t"] == "Code" and block["c"][0] == attributes() and "-" in block["c"][1]:
        return [raw_inline("html", f"<code>{' '.join(map(_unbroken, block['c'][1].split(' ')))}</code>")]
    return None


def _unbroken(word: str) -> str:
    """Return a word of a command, in a span where a line would break after its hyphen (for Quarto: ``hyphens.lua``)."""
    text = html.escape(word, quote=False)
    return f"<span>{text}</span>" if "-" in word else text


def _table(table: list[Any]) -> list[Element]:
    # The caption stays in place while the table below it scrolls, so it cannot be part of the table.
    bare = {"t": "Table", "c": [attributes(), [None, []], *table[2:]]}
    return _captioned_above(table[0][0], table[1][1], [bare])


def _captioned_above(identifier: str, caption: list[Element], content: list[Element]) -> list[Element]:
    label = html.escape(identifier)
    named = f'aria-labelledby="{label}-caption"' if label else 'aria-label="Table"'
    before = [raw_block("html", f'<figure class="table" id="{label}">' if label else '<figure class="table">')]
    if caption:
        name = f' id="{label}-caption"' if label else ""
        before += [raw_block("html", f"<figcaption{name}>"), *caption, raw_block("html", "</figcaption>")]
    before.append(raw_block("html", f'<div class="scroll" role="region" tabindex="0" {named}>'))
    return [*before, *content, raw_block("html", "</div></figure>")]


def page_arguments(project: Project, temporary: Path, paper: str | None, withheld: Withheld) -> list[str]:
    """Return pandoc's arguments for the page; `paper` is the PDF's name where there is one beside it.

    Withhold its headers and its scripts, the last texts that are.
    """
    resources = Path(__file__).parent / "resources"
    options = project.format("html")
    styles = [read_text(project.root / path) for path in project.files(options.get("css"))]
    header = temporary / "header.html"
    texts = [*(f"<style>\n{style}</style>" for style in styles), *project.header_texts("html")]
    header.write_text("\n".join(map(withheld.mark, texts)), "utf-8")
    script = withheld.mark("".join(f"<script>\n{read_text(resources / name)}</script>\n" for name in SCRIPTS))
    arguments = ["--to=html5", "--mathml", "--section-divs", "--wrap=preserve"]
    arguments += [f"--template={resources / 'page.html'}", f"--include-in-header={header}"]
    arguments += [f"--variable=script:{script}", f"--variable=policy:{withheld.policy()}"]
    if options.get("toc", False):
        arguments += ["--toc", f"--toc-depth={options.get('toc-depth', 3) + 1}"]
        arguments.append(f"--variable=toc-title:{options.get('toc-title', 'Contents')}")
    if paper:
        arguments.append(f"--variable=paper:{paper}")
    return arguments
