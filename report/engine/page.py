"""The web page: one HTML file with everything in it."""

import base64
import hashlib
import html
import re
from pathlib import Path
from urllib.parse import quote

from report.engine.project import Project, read_text
from report.engine.source import Places
from report.engine.tree import Change, Element, picture, raw

RESERVED = [("'", "&#39;"), ('"', "'"), *((character, f"%{ord(character):X}") for character in "%#<>&")]
"""What has a meaning in an address or in a page, and what stands for it in a picture."""
NOT_ASCII = re.compile("[^ -~]")
SIZE = re.compile(r'(?<=\s)(?:width|height)="[\d.]+"')
RAW_BLOCK = re.compile(r"^```\{=html\}\n(.+?)\n```$", re.MULTILINE | re.DOTALL)
MARK = re.compile(r"<!--withheld (\d+)-->")
SCRIPT = re.compile(r"<script\b(?![^>]*\btype=\"application/)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)
SCRIPTS = ("page.js", "sections.js", "tables.js", "search.js")
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'"
)
"""Of everything but scripts: nothing is fetched. Styles stand in the page and in its pictures."""


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

    def restored(self, page: str) -> str:
        """Return HTML with the texts in the places of their marks; heads of tables say that they are columns'."""
        return MARK.sub(lambda mark: self._texts[int(mark[1])], re.sub("<th(?=[ >])", '<th scope="col"', page))

    def policy(self) -> str:
        """Return the page's content security policy: no script runs but those in the texts."""
        scripts = [script for text in self._texts for script in SCRIPT.findall(text)]
        hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
        allowed = " ".join(f"'sha256-{each}'" for each in hashes)
        return f"{POLICY}; script-src {allowed}"


def page_changes(project: Project, places: Places, withheld: Withheld) -> dict[str, Change]:
    """Return what the page needs instead of elements: pictures inside, wide content in boxes that scroll."""

    def image(element: Element) -> list[Element]:
        path, alternative = picture(element, project, places)
        text = read_text(project.root / path)
        size = "".join(f" {side}" for side in SIZE.findall(text.partition(">")[0]))
        # Lazy, for the scripts wait until the page is read, which takes half as long again with all pictures
        shown = f'<img loading="lazy"{size} src="{_address(text)}" alt="{html.escape(alternative)}">'
        return [raw("html", withheld.mark(shown), "RawInline")]

    def listing(element: Element) -> list[Element]:
        # In one colour: pandoc takes half a second for the syntax of all languages
        (identifier, _, _), text = element["c"]
        return [{"t": "CodeBlock", "c": [[identifier, [], []], text]}]

    def heading(element: Element) -> list[Element]:
        # The title is the page's only heading of the first level
        level, *content = element["c"]
        return [{"t": "Header", "c": [min(level + 1, 6), *content]}]

    def figure(element: Element) -> list[Element]:
        attributes, caption, content = element["c"]
        box = [raw("html", '<div class="scroll">'), *content, raw("html", "</div>")]
        return [{"t": "Figure", "c": [attributes, caption, box]}]

    def table(element: Element) -> list[Element]:
        # The caption stays in place while the table below it scrolls, so it cannot be part of the table.
        (identifier, _, _), (_, caption), *content = element["c"]
        label = html.escape(identifier)
        named = f'aria-labelledby="{label}-caption"' if label else 'aria-label="Table"'
        opening = f'<figure class="table" id="{label}"><figcaption id="{label}-caption">'
        before = raw("html", opening if label else '<figure class="table"><figcaption>')
        between = raw("html", f'</figcaption><div class="scroll" role="region" tabindex="0" {named}>')
        bare = {"t": "Table", "c": [["", [], []], [None, []], *content]}
        return [before, *caption, between, bare, raw("html", "</div></figure>")]

    def folded(element: Element) -> list[Element] | None:
        (identifier, classes, _), content = element["c"]
        if "folded" not in classes:
            return None
        title, body = content
        label = f' id="{html.escape(identifier)}"' if identifier else ""
        opening = raw("html", f'<details class="{" ".join(classes)}"{label}><summary class="title">')
        return [opening, *title["c"][1], raw("html", "</summary>"), body, raw("html", "</details>")]

    return {
        "Image": image, "CodeBlock": listing, "Header": heading, "Figure": figure, "Table": table, "Div": folded,
    }  # fmt: skip


def _address(drawing: str) -> str:
    """Return an SVG as an address: as text, a fifth shorter than base64, and fit for quotes."""
    for character, instead in RESERVED:
        drawing = drawing.replace(character, instead)
    escaped = NOT_ASCII.sub(lambda found: quote(found[0]), drawing)
    return f"data:image/svg+xml;charset=utf-8,{escaped}"


def page_arguments(project: Project, paper: str | None, withheld: Withheld) -> list[str]:
    """Return pandoc's arguments for the page; `paper` is the PDF's name where there is one beside it.

    Withhold its headers and its scripts.
    """
    resources = Path(__file__).parent / "resources"
    options = project.format("html")
    styles = [read_text(project.root / path) for path in project.files(options.get("css"))]
    texts = [*(f"<style>\n{style}</style>" for style in styles), *project.header_texts("html")]
    headers = "\n".join(map(withheld.mark, texts))
    script = withheld.mark("".join(f"<script>\n{read_text(resources / name)}</script>\n" for name in SCRIPTS))
    variables = {"header-includes": headers, "script": script, "policy": withheld.policy()}
    variables |= {"paper": paper} if paper else {}
    arguments = ["--to=html5", "--mathml", "--section-divs", "--wrap=preserve", f"--template={resources / 'page.html'}"]
    if options.get("toc"):
        variables["toc-title"] = options.get("toc-title", "Contents")
        arguments += ["--toc", f"--toc-depth={options.get('toc-depth', 3) + 1}"]
    return [*arguments, *(f"--variable={name}:{value}" for name, value in variables.items())]
