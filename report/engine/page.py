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
"""What has a meaning in an address or in a page, and what stands for it in a picture."""
NOT_ASCII = re.compile("[^ -~]")
SIZE = re.compile(r'(?<=\s)(?:width|height)="[\d.]+"')
PICTURE = re.compile(r'<img src="([^"]+)"')
RAW_BLOCK = re.compile(r"^```\{=html\}\n(.+?)\n```$", re.MULTILINE | re.DOTALL)
MARK, MARKED = "<!--withheld {}-->", re.compile(r"<!--withheld (\d+)-->")
SCRIPT = re.compile(r"<script\b(?![^>]*\btype=\"application/)[^>]*>(.*?)</script>", re.DOTALL | re.IGNORECASE)
POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; font-src data:; style-src 'unsafe-inline'"
)
"""Of everything but scripts: nothing is fetched. Styles stand in the page and in its pictures."""


def withhold(markdown: str, texts: list[str]) -> str:
    """Return Markdown with a mark, and as many lines as before, in each block of raw HTML, which is added to `texts`.

    Pandoc need not read it: a mark, a comment of HTML, passes through it, which is quicker. All are the project's own,
    raw blocks and headers. No text of a table gets among them.
    """

    def marked(block: re.Match[str]) -> str:
        texts.append(block[1])
        lines = "\n" * block[1].count("\n")
        return f"```{{=html}}\n{MARK.format(len(texts) - 1)}{lines}\n```"

    return RAW_BLOCK.sub(marked, markdown)


def whole_page(page: str, texts: list[str], root: Path) -> str:
    """Return HTML with the texts in the places of their marks, pictures inside, and columns' heads that say so."""

    def picture(image: re.Match[str]) -> str:
        path = root / image[1]
        if path.suffix != ".svg":
            content = base64.b64encode(path.read_bytes()).decode()
            return f'<img loading="lazy" src="data:{guess_type(path.name)[0]};base64,{content}"'
        drawing = read_text(path)
        size = "".join(f" {side}" for side in SIZE.findall(drawing.partition(">")[0]))
        # Lazy, for the scripts wait until the page is read, which takes half as long again with all pictures
        return f'<img loading="lazy"{size} src="{_address(drawing)}"'

    page = PICTURE.sub(picture, re.sub("<th(?=[ >])", '<th scope="col"', page))
    page = page.replace('<img loading="lazy"', "<img", 1)  # the first is painted with the text, before any chart
    return MARKED.sub(lambda mark: texts[int(mark[1])], page)


def policy(texts: list[str]) -> str:
    """Return the page's content security policy: no script runs but those in these texts."""
    scripts = [script for text in texts for script in SCRIPT.findall(text)]
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return f"{POLICY}; script-src {allowed}"


def _address(drawing: str) -> str:
    """Return an SVG as an address: as text, a fifth shorter than base64, and fit for quotes."""
    for character, instead in RESERVED:
        drawing = drawing.replace(character, instead)
    escaped = NOT_ASCII.sub(lambda found: quote(found[0]), drawing)
    return f"data:image/svg+xml;charset=utf-8,{escaped}"


def page_edition(project: Project, paper: str | None, texts: list[str]) -> dict[str, Any]:
    """Return what `editions.lua` needs for the page; `paper` is the PDF's name where there is one beside it.

    Its headers are added to `texts`, which are withheld.
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
