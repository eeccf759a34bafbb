"""The web page: one HTML file with everything in it."""

import base64
import hashlib
import re
from mimetypes import guess_type
from pathlib import Path
from typing import Any
from urllib.parse import quote

from report.engine.project import Project
from report.files import read_text

TEMPLATE = Path(__file__).parent / "resources" / "page.html"
RESERVED = [("'", "&#39;"), ('"', "'"), *((character, f"%{ord(character):X}") for character in "%#<>&")]
"""Characters with a meaning in an address or a page, and their replacements in a picture."""
NOT_ASCII = re.compile("[^ -~]")
SIZE = re.compile(r'(?<=\s)(?:width|height)="[\d.]+"')
PICTURE = re.compile(r'<img src="([^"]+)"')
RAW_BLOCK = re.compile(r"^```\{=html\}\n(.+?)\n```$", re.MULTILINE | re.DOTALL)
MARK, MARKED = "<!--withheld {}-->", re.compile(r"<!--withheld (\d+)-->")
SCRIPT = re.compile(r"<script\b(?![^>]*\btype=\"application/)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'"
)
"""For all but scripts: the page fetches nothing. Styles are in the page and its pictures."""


def withhold(markdown: str, texts: list[str]) -> str:
    """Move the blocks of raw HTML to `texts`; return Markdown with a mark and the same number of lines for each.

    It is faster if pandoc reads only the mark, a comment. All blocks are the project's own; no text of a table is in
    them.
    """

    def marked(block: re.Match[str]) -> str:
        texts.append(block[1])
        lines = "\n" * block[1].count("\n")
        return f"```{{=html}}\n{MARK.format(len(texts) - 1)}{lines}\n```"

    return RAW_BLOCK.sub(marked, markdown)


def whole_page(page: str, texts: list[str], root: Path) -> str:
    """Insert the texts at their marks, embed the pictures, and mark the heads of columns."""

    def picture(image: re.Match[str]) -> str:
        path = root / image[1]
        if path.suffix != ".svg":
            content = base64.b64encode(path.read_bytes()).decode()
            return f'<img loading="lazy" src="data:{guess_type(path.name)[0]};base64,{content}"'
        drawing = read_text(path)
        size = "".join(f" {side}" for side in SIZE.findall(drawing.partition(">")[0]))
        # Lazy: scripts wait for the page, and all pictures would delay it by half
        return f'<img loading="lazy"{size} src="{_address(drawing)}"'

    page = PICTURE.sub(picture, re.sub("<th(?=[ >])", '<th scope="col"', page))
    page = page.replace('<img loading="lazy"', "<img", 1)  # the first is painted with the text
    return MARKED.sub(lambda mark: texts[int(mark[1])], page)


def policy(texts: list[str]) -> str:
    """Return the page's content security policy, which allows only the scripts in these texts."""
    scripts = [script for text in texts for script in SCRIPT.findall(text)]
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return f"{POLICY}; script-src {allowed}"


def _address(drawing: str) -> str:
    """Return an SVG as an address in text, a fifth shorter than base64, that can be quoted."""
    for character, instead in RESERVED:
        drawing = drawing.replace(character, instead)
    escaped = NOT_ASCII.sub(lambda found: quote(found[0]), drawing)
    return f"data:image/svg+xml;charset=utf-8,{escaped}"


def page_edition(project: Project, paper: str | None, texts: list[str]) -> dict[str, Any]:
    """Return the job of `editions.lua` for the page. `paper` is the name of the PDF next to it, if there is one.

    Its headers are added to the withheld `texts`.
    """
    settings, first = project.settings, len(texts)
    texts += [f"<style>\n{read_text(project.root / path)}</style>" for path in project.files("format.html.css")]
    texts += project.header_texts("html")
    headers = "\n".join(MARK.format(at) for at in range(first, len(texts)))
    template = project.root / next(iter(project.files("format.html.template")), TEMPLATE)
    variables = {"header-includes": headers, "policy": policy([*texts, read_text(template)])}
    variables |= {"paper": paper} if paper else {}
    edition = {"format": "html", "template": str(template), "variables": variables}
    if settings.get("format.html.toc"):
        variables["toc-title"] = settings.get("format.html.toc-title", "Contents")
        edition["depth"] = settings.get("format.html.toc-depth", 3)
    return edition
