"""Every text of the cache that may be anything comes out as text, wherever the paper shows it."""

import base64
import gzip
import json
import re
import xml.etree.ElementTree as ET

import pypandoc
import pypdfium2
import pytest
import typst
from altair.utils.schemapi import debug_mode
from helpers.chapters import SHARED, calls
from helpers.hostile import RECORDS, TEXT, covered, free_columns, hostile_data
from helpers.pages import Page
from helpers.papers import REFERENCES

from report.charts import drawing
from report.charts.drawing import picture
from report.engine.embedded import render_embedded
from report.markdown import Markup, escape, washed
from report.paper import paper

pytestmark = pytest.mark.long
MARK = "alert(1)"
HARMLESS = {"type": "application/gzip", "class": "chart"}
READ_AS_CODE = {
    "expr", "filter", "calculate", "test", "labelExpr", "signal", "href", "url", "field", "fields", "update", "as"
}  # fmt: skip
"""What a chart's specification has expressions, names of columns and addresses in, where it has texts there."""

RAW = re.compile(r"scripts|chooser")
"""What is HTML of our own: of a cache it holds packed data alone."""

DRAWN = {"svg", "g", "path", "line", "rect", "text", "tspan", "defs", "clipPath", "linearGradient", "stop"}


TYPOGRAPHY = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "\u200b": None})


def straight(text):
    """On one line, with the quotation marks and dots that pandoc and Typst join or curl as they were, and no breaks."""
    return " ".join(text.translate(TYPOGRAPHY).split())


FLAT = straight(washed(TEXT))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return hostile_data(tmp_path_factory.mktemp("hostile") / "data")


@pytest.fixture(scope="module")
def shown(data, tmp_path_factory):
    """The Markdown of all that the chapters show, figures and the rest apart."""
    with pytest.MonkeyPatch.context() as patch, debug_mode(False):
        patch.chdir(tmp_path_factory.mktemp("shown"))
        patch.setattr(drawing, "begin", lambda *_: None)
        loaded = paper.load(data, REFERENCES)
        results = [eval(call, dict(SHARED, data=loaded)) for call in calls() if not RAW.search(call)]
    texts = [
        result._repr_markdown_() if isinstance(result, str) else result._repr_mimebundle_()["text/markdown"]
        for result in results
        if not isinstance(result, Markup)  # our own, from no table
    ]
    return [text for text in texts if "fig-alt" in text], [text for text in texts if "fig-alt" not in text]


def test_every_column_of_every_record_is_covered(data):
    every = {(record, name) for record in RECORDS for name in free_columns(record)}
    assert every - covered(data) == set()


def test_texts_and_tables_show_it_as_text_in_html(shown):
    _, texts = shown
    markdown = "\n\n".join(texts)
    page = Page(pypandoc.convert_text(markdown, "html", format="markdown", extra_args=["--wrap=none"])).root
    # So many times it was written, and so many times it is read.
    assert straight(page.text()).count(FLAT) == markdown.replace("\u200b", "").count(escape(TEXT)) > 100
    for name in ("script", "img", "del", "pre", "sup", "a"):
        assert page.all(name) == []
    divs = [node for node in page.all("div") if node.attributes.get("class") != "gap"]
    assert not [node for node in divs + page.all("em") if MARK in node.text()]
    assert not [node for node in page.all("code") if MARK in node.text() or not node.text().startswith("python ")]
    # Of cards the whole name is set in bold
    assert not [node for node in page.all("strong") if MARK in node.text() and FLAT not in straight(node.text())]
    assert not [node for node in page.all("span") if MARK in node.text() and node.has(".math")]


def test_texts_and_tables_show_it_as_text_in_typst(shown, tmp_path):
    _, texts = shown
    markdown = "\n\n".join(texts)
    options = ["--citeproc", f"--bibliography={REFERENCES}", "--wrap=none"]
    written = pypandoc.convert_text(markdown, "typst", format="markdown", extra_args=options)
    wide = "#set page(width: 30000pt, height: auto)\n#set text(hyphenate: false)\n"
    compiler = typst.Compiler(root=str(tmp_path), ignore_system_fonts=True)
    pages = pypdfium2.PdfDocument(compiler.compile((wide + written).encode(), format="pdf"))
    printed = "".join(page.get_textpage().get_text_bounded() for page in pages)
    dense = "".join(straight(printed).split())
    assert dense.count("".join(FLAT.split())) == markdown.replace("\u200b", "").count(escape(TEXT))


def unpacked(script):
    assert re.fullmatch(r"[\w+/=]+", script)
    return json.loads(gzip.decompress(base64.b64decode(script)))


def expressions(node):
    """The texts in a specification that Vega reads as code, apart from data."""
    if isinstance(node, list):
        for item in node:
            yield from expressions(item)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name in READ_AS_CODE:
                yield from (text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))
            if name not in ("datasets", "values"):
                yield from expressions(value)


def widths(node):
    """The widths and heights, in pixels, that a specification gives its panels."""
    if isinstance(node, list):
        for item in node:
            yield from widths(item)
    elif isinstance(node, dict):
        yield from (node[name] for name in ("width", "height") if isinstance(node.get(name), int | float))
        for name, value in node.items():
            if name != "datasets":
                yield from widths(value)


def test_figures_show_it_as_text(shown):
    markdowns, _ = shown
    page = Page(pypandoc.convert_text("\n\n".join(markdowns), "html", format="markdown")).root
    scripts, images = page.all("script"), page.all("img")
    assert len(scripts) == len(images) == len(markdowns) > 20
    assert page.text().strip() == ""
    specifications = []
    for script, image in zip(scripts, images, strict=True):
        assert script.attributes == HARMLESS
        specification = unpacked("".join(script.content))
        specifications.append(specification)
        assert MARK not in specification["name"]
        assert all(width > 0 for width in widths(specification))
        assert set(image.attributes) == {"src", "data-fig-alt"}
        assert image.attributes["data-fig-alt"] == re.sub(r"[\x00-\x20]+", " ", specification["description"])
        assert not [text for text in expressions(specification) if MARK in text]
    labelled = 0
    for specification in specifications[::5]:  # drawing takes a second
        drawn = ET.fromstring(picture(specification))
        assert {element.tag.rpartition("}")[2] for element in drawn.iter()} <= DRAWN
        labelled += any(MARK in "".join(text.itertext()) for text in drawn.iter() if text.tag.endswith("text"))
    assert labelled > 3


def test_each_model_has_its_strips(shown):
    """The bars are those of the model whose name, with quotes and all, a panel filters by."""
    (text,) = [text for text in shown[0] if "/training-strip.svg" in text]
    specification = unpacked(re.search(r'class="chart">(.*)</script>', text)[1])
    drawn = ET.fromstring(picture(specification))
    bars = [path for path in drawn.iter() if path.tag.endswith("path") and path.get("fill", "none").startswith("#")]
    assert len(bars) > 10


DOCUMENT = """---
title: Hostile
---

```{{python}}
#| include: false
from pathlib import Path
from report import figures, findings, tables
from report.charts import show
from report.paper import paper
data = paper.load(references=Path({references!r}))
```

{inline}

```{{python}}
#| label: tbl-machines
#| tbl-cap: "Machines"
show.show(tables.machines.machines(data))
```

```{{python}}
#| label: fig-shares
#| fig-cap: "Shares"
show.show(figures.utilisation.attained(data))
```

```{{python}}
show.scripts()
```
"""


def test_a_rendered_paper_shows_it_as_text(data, tmp_path):
    root = tmp_path / "project"
    root.mkdir()
    (root / "_quarto.yml").write_text("project:\n  type: default\nformat:\n  html: {}\n  typst: {}\n")
    inline = "`{python} findings.machines.shown(data)`"
    (root / "index.qmd").write_text(DOCUMENT.format(references=str(REFERENCES), inline=inline))
    html, pdf = render_embedded(root, ["html", "pdf"], data, tmp_path / "out", lambda _: None)
    page = Page(html.read_text("utf-8")).root
    assert straight(page.text()).count(FLAT) > 10
    assert not [script for script in page.all("script") if MARK in "".join(script.content)]
    assert not [node for name in ("em", "del", "code", "pre") for node in page.all(name) if MARK in node.text()]
    printed = "".join(sheet.get_textpage().get_text_bounded() for sheet in pypdfium2.PdfDocument(pdf))
    assert "".join(FLAT.split())[:25] in "".join(straight(printed).split())
