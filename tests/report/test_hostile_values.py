"""Every text of the cache that may be anything comes out as text, wherever the paper shows it."""

import base64
import gzip
import json
import re
import shutil
from dataclasses import replace

import pypdfium2
import pytest
from helpers.pages import Page, render
from helpers.places import ROOT
from helpers.rows import collective, data_parallel_step
from helpers.world import WORLD

from measure.cache.table import read, write
from measure.domain.records import CollectiveMeasurement, DataParallelStep
from measure.domain.schema import MACHINE, TABLES
from measure.domain.trace_records import TRACE, TraceCollective
from measure.domain.workload_records import OURS
from measure.predicting.served_records import KernelCoefficient
from report.markdown import washed
from report.paper.curated import CITING

pytestmark = pytest.mark.slow
TEXT = (
    '<script>alert(1)</script> <img src=x onerror=alert(1)> <!--<script> &lt; &#60; #eval("1") #{1} $x^2$ | =cmd() '
    "*b* _i_ `c` ~~s~~ ^n^ [l](javascript:a) ![p](u.png){width=1} [@lean2016] @fig-on-roof \\alpha \\(y\\) "
    "{{< meta title >}} {=html} `r`{=typst} ... -- '+alert(1)+' \\'+alert(1)\n\n::: note\n\n    code\n\n"
    "a\u2028b\u0085c\ufffed\x1b[31me\n\n1. x"
)
MARK = "alert(1)"
READ_AS_CODE = {
    "expr", "filter", "calculate", "test", "labelExpr", "signal", "href", "url", "field", "fields", "update", "as"
}  # fmt: skip
"""Fields of a specification with expressions, names of columns and addresses where texts are possible."""

TYPOGRAPHY = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "…": "...", "\u200b": None})


def straight(text):
    """Return a text on one line, with the quotation marks and dots as they were, and no breaks."""
    return " ".join(text.translate(TYPOGRAPHY).split())


FLAT = straight(washed(TEXT))


def free_columns(record):
    """The columns of texts that may be anything. Terms of kernels are checked by their kind, when they are read."""
    facts = TABLES[record]
    free = [name for name, column in facts.columns.items() if column.type is str and column.form is None]
    free = [name for name in free if (record, name) != (KernelCoefficient, "term")]
    return [name for name in free if not (facts.by_hand and name in CITING)]


def write_hostile(data):
    """Write the world, and tables that it lacks, with the text behind each that may be anything; return these columns.

    Our own name stays, by which this program is told from others. Where no row has a text, all have this one.
    """
    shutil.copytree(WORLD, data)
    predicted = [
        f"prediction/{name}.csv" for name in ("networks", "kernels", "kernel_errors", "served", "served_errors")
    ]
    for name in ("published/measurements/tokens.csv", *predicted):
        shutil.copy(ROOT / "data" / name, data / name)
    for record, row in ((CollectiveMeasurement, collective()), (DataParallelStep, data_parallel_step())):
        path = data / TABLES[record].path.replace(MACHINE, "machines/example-cpu")
        write(path, record, [replace(row, environment_id="cpu-new", session="s")])
    trace = next(path for path in sorted((data / "traces").iterdir()) if path.is_dir())
    write(trace / "collectives.csv", TraceCollective, [TraceCollective(0, 0, 1, "all_reduce", "0 1", 0, 0.1)])
    spoilt = set()
    for record, about in TABLES.items():
        for path in data.glob(about.path.replace(MACHINE, "machines/*").replace(TRACE, "traces/*")):
            rows = read(path, record)
            for name in free_columns(record) if rows else ():
                old = [getattr(row, name) or "" for row in rows]
                new = [text if text == OURS or (any(old) and not text) else text + TEXT for text in old]
                rows = [replace(row, **{name: text or None}) for row, text in zip(rows, new, strict=True)]
                spoilt.add((record, name))
            write(path, record, rows)
    return spoilt


@pytest.fixture(scope="module")
def rendered(shared):
    def make(folder):
        spoilt = write_hostile(folder / "data")
        assert spoilt == {(record, name) for record in TABLES for name in free_columns(record)}
        render(folder / "data", folder / "project")

    return shared("hostile", make) / "project" / "site"


@pytest.fixture(scope="module")
def page(rendered):
    return Page((rendered / "index.html").read_text("utf-8")).root


def test_the_page_shows_it_as_text(page):
    (main,) = page.all("main")
    assert straight(main.text()).count(FLAT) > 20
    for name in ("img", "del", "pre", "sup", "a", "em", "h1", "h2"):
        assert not [node for node in main.all(name) if MARK in node.text()], name
    assert all(node.attributes["src"].startswith("data:") for node in main.all("img"))
    own = {"application/gzip", "application/json"}
    scripts = [node for node in page.all("script") if MARK in "".join(node.content)]
    assert {node.attributes.get("type") for node in scripts} <= own
    gaps = [node for each in main.all("#gaps") for node in each.all("code")]
    assert len(gaps) > 3
    assert not [node for node in main.all("code") if MARK in node.text() and not node.text().startswith("python ")]


def test_the_pdf_shows_it_as_text(rendered):
    pages = pypdfium2.PdfDocument(rendered / "paper.pdf")
    printed = "".join(sheet.get_textpage().get_text_bounded() for sheet in pages)
    assert "".join(straight(printed).split()).count("".join(FLAT.split())[:25]) > 10


def expressions(node):
    """Yield the texts in a specification that Vega reads as code, apart from data."""
    if isinstance(node, list):
        for item in node:
            yield from expressions(item)
    elif isinstance(node, dict):
        for name, value in node.items():
            if name in READ_AS_CODE:
                yield from (text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str))
            if name not in ("datasets", "values"):
                yield from expressions(value)


def test_figures_show_it_as_text(page):
    specifications = [
        json.loads(gzip.decompress(base64.b64decode("".join(node.content)))) for node in page.all("script.chart")
    ]
    assert len(specifications) > 15
    for specification in specifications:
        assert re.fullmatch(r"[\w-]+", specification["name"])
        assert not [text for text in expressions(specification) if MARK in text]
