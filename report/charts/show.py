"""The display of a chapter's cell: a chart as a picture and its specification, or text as Markdown."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

from report import failures
from report.charts import drawing, figure_data
from report.charts.font import FOLDER
from report.text.prose import Prose, escape, quoted

PICTURES = Path("_figures")
"""The folder of the pictures, relative to the project's root, in which the chapters run."""

NO_TABLES = "<!--| quarto-html-table-processing: none -->"
"""Tells Quarto that what looks like a table in the charts' code is none."""


class Display:
    """Markdown for Jupyter."""

    def __init__(self, markdown: str) -> None:
        self.markdown = markdown

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/markdown": self.markdown}


def show(content: Any) -> Display:
    """Show a chart, or a table in Markdown, or the sentence that stands in for what was not measured.

    A chart is printed as its SVG picture (in ``_figures`` once ``scripts`` has returned) and, for HTML, its
    specification, which the script of ``scripts`` turns into an interactive chart. Its name names the picture, its
    description is the alt text. A sentence stands in for a chart that cannot be drawn.
    """
    if isinstance(content, Prose):
        return Display(content.as_block())
    if isinstance(content, str):
        return Display(content)
    try:
        specification = figure_data.specification(content)
    except Exception as failure:
        return Display(escape(failures.sentence(f"drawing {content.name}", failure)))
    PICTURES.mkdir(exist_ok=True)
    place = PICTURES / f"{specification['name']}.svg"
    drawing.begin(specification, place)
    alt_text = quoted(specification["description"])
    element = f'<script type="application/gzip" class="chart">{packed(specification)}</script>'
    return Display(f"![]({place.as_posix()}){{fig-alt={alt_text}}}\n\n```{{=html}}\n{element}\n```\n")


def packed(content: dict[str, Any]) -> str:
    """Return a specification or a table as gzipped JSON in base64, a sixth of its length; the same each time."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


def scripts() -> Display:
    """Return what all charts of the page need, once, at the document's end: their font, and the code that draws them.

    Wait for the pictures of the charts that were shown before.
    """
    code = drawing.finish().replace("</script", "<\\/script")
    return Display(f"```{{=html}}\n{NO_TABLES}\n<style>{_font_faces()}</style>\n<script>{code}</script>\n```\n")


def _font_faces() -> str:
    faces = []
    for style, weight in (("Regular", "normal"), ("Bold", "bold")):
        font = base64.b64encode((FOLDER / f"RoofwrightSans-{style}.woff2").read_bytes()).decode()
        source = f'url("data:font/woff2;base64,{font}") format("woff2")'
        faces.append(f'@font-face {{ font-family: "Roofwright Sans"; font-weight: {weight}; src: {source}; }}')
    return "\n".join(faces)
