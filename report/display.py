"""Decorators for a chapter's figures and tables, and the scripts of the page."""

import base64
import gzip
import json
from collections.abc import Callable, Sized
from functools import wraps
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import vl_convert

from measure.errors import UserError
from report import facts, failures
from report.charts import drawing
from report.charts.panels import specified
from report.charts.theme import FONTS
from report.engine.project import PICTURES
from report.files import write_file
from report.markdown import escape, quoted
from report.paper import Paper

NO_TABLES = "<!--| quarto-html-table-processing: none -->"
"""Stops Quarto from reading the charts' code as tables."""


LISTED, DRAWN, CLOUD = 100, 30, 1500
"""The most networks in a list of all, in a figure with a row or a name for each, and of points without an interval.

Of more networks, some at even steps represent all (``report.paper.frames.spread``). The caption or the text says so.
"""


class Missing(Exception):  # noqa: N818  a gap in the data is no error
    """A figure or table lacks data. ``command`` measures them, None if nothing does."""

    def __init__(self, command: str | None = None) -> None:
        super().__init__(command or "")
        self.command = command


Found = TypeVar("Found")


def required(found: Found | None, command: str | None = None) -> Found:
    """Return the data of a figure or table. Raises Missing for None and for no rows."""
    if found is None or (isinstance(found, Sized) and not len(found)):
        raise Missing(command)
    return found


class Display:
    """Markdown for Jupyter, with the ``specification`` of a figure's chart."""

    def __init__(self, markdown: str, specification: dict[str, Any] | None = None) -> None:
        self.markdown = markdown
        self.specification = specification

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/markdown": self.markdown}


def displayed(show: Callable[[Any, str], Display]) -> Callable[[Callable[..., Any]], Callable[..., Display]]:
    """Make a decorator for functions with a result to ``show``. Missing data leave a gap, which a filter lists."""

    def decorate(make: Callable[..., Any]) -> Callable[..., Display]:
        function = f"{make.__module__}.{make.__qualname__}"

        @wraps(make)
        def made(*args: Any, **kwargs: Any) -> Display:
            try:
                return show(make(*args, **kwargs), function)
            except Missing as gap:
                attribute = f" command={quoted(gap.command)}" if gap.command else ""
                return Display(f"::: {{.gap{attribute}}}\n:::\n")
            except Exception as failure:
                return Display(escape(failures.sentence(function, failure)))

        return made

    return decorate


_functions: dict[str, str] = {}  # the functions whose figures were shown, by the figures' names


def _show_chart(chart: Any, function: str) -> Display:
    """Show a chart as its SVG picture (drawn by ``scripts``) and, for HTML, its specification, packed.

    Raises UserError if it has no name or description, or another function's figure has the name.
    """
    specification = specified(chart)
    for key in ("name", "description"):
        if key not in specification:
            raise UserError(f"{function}: the figure has no {key}; add .properties({key}=…) to the outermost chart")
    name = specification["name"]
    if _functions.setdefault(name, function) != function:
        raise UserError(f"{function}: {_functions[name]} has a figure named {name!r} too; give each its own name")
    PICTURES.mkdir(exist_ok=True)
    place = PICTURES / f"{name}.svg"
    drawing.begin(specification, place)
    alt_text = quoted(specification["description"])
    element = f'<script type="application/gzip" class="chart">{packed(specification)}</script>'
    return Display(f"![]({place.as_posix()}){{fig-alt={alt_text}}}\n\n```{{=html}}\n{element}\n```\n", specification)


figure = displayed(_show_chart)
"""Decorates a function from a paper to a chart of Altair."""

table = displayed(lambda markdown, _function: Display(markdown))
"""Decorates a function from a paper to Markdown: a table (``report.markdown_table.markdown_table``), or the chooser."""


def packed(content: Any) -> str:
    """Return a specification, a table or facts as gzipped JSON in base64, a sixth of its length; the same each time."""
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False)
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def scripts(paper: Paper) -> Display:
    """Return fonts, facts and the code that draws charts, for the end of the page. Wait for all pictures."""
    drawing.finish()
    code = script().replace("</script", "<\\/script")
    parts = (NO_TABLES, f"<style>{_font_faces()}</style>", _facts(paper), f"<script>{code}</script>")
    return Display("```{{=html}}\n{}\n{}\n{}\n{}\n```\n".format(*parts))


def script() -> str:
    """Return the script that draws charts in a page. Vega is bundled once, since that takes two seconds."""
    bundle = Path("_cache", f"vega-{version('vl-convert-python')}.js")
    if not bundle.exists():
        used = "Object.assign(window, { vegaEmbed, lodashDebounce });"
        write_file(bundle, vl_convert.javascript_bundle(used).encode())
    here = Path(__file__).parent
    files = [here / "charts" / "charts.js", *sorted(here.glob("chapters/*/*.js"))]
    own = "\n".join(file.read_text("utf-8") for file in files)
    return f"{bundle.read_text('utf-8')}\n(() => {{\n{own}}})();"


def facts_of(paper: Paper, *chapters: str) -> Display:
    return Display(f"```{{=html}}\n{_facts(paper, *chapters)}\n```\n")


def _facts(paper: Paper, *chapters: str) -> str:
    found = packed(facts.of_paper(paper, *chapters))
    return f'<script type="application/gzip" id="facts">{found}</script>'


def _font_faces() -> str:
    faces = []
    for style, weight in (("Regular", "normal"), ("Bold", "bold")):
        font = base64.b64encode((FONTS / f"RoofwrightSans-{style}.woff2").read_bytes()).decode()
        source = f'url("data:font/woff2;base64,{font}") format("woff2")'
        faces.append(f'@font-face {{ font-family: "Roofwright Sans"; font-weight: {weight}; src: {source}; }}')
    return "\n".join(faces)
