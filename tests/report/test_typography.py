"""The paper as a journal's editor looks at it: what stands where on its pages, whatever the machine's fonts."""

import ctypes
import os
import re
import subprocess
from fnmatch import fnmatch
from itertools import combinations
from pathlib import Path
from urllib.parse import unquote

import pypdfium2
import pytest
from helpers.pages import AXIS_OVERLAPS, DESKTOP, OVERLAPS, Page, Visit

from report.engine.paper import FULL_WIDTH

PAGE_ONLY = ("details", "#fig-chooser")
"""What stands in the page alone."""

MARGIN = {"left": 20, "right": 20, "bottom": 20}
"""Of a page in millimetres (_quarto.yml)."""

POINTS = 72 / 25.4
"""In a millimetre."""


@pytest.fixture(scope="module")
def pdf(site):
    document = pypdfium2.PdfDocument(site / "paper.pdf")
    yield document
    document.close()


@pytest.fixture(scope="module")
def page(site):
    return Page((site / "index.html").read_text(encoding="utf-8")).root


def runs(page):
    """The rectangles (left, bottom, right, top) of a page's pieces of text, in points."""
    text = page.get_textpage()
    return [text.get_rect(number) for number in range(text.count_rects())]


def test_the_paper_is_tagged_and_has_a_language_and_a_title(pdf, site):
    assert pypdfium2.raw.FPDFCatalog_IsTagged(pdf)
    content = (site / "paper.pdf").read_bytes()
    assert re.search(rb"<pdfuaid:part>1</pdfuaid:part>", content)
    assert re.search(rb"/Lang\s*\(en", content)
    assert pdf.get_metadata_value("Title")


def test_every_picture_of_the_paper_has_an_alternative_text(pdf, page):
    told = [image.attributes["alt"] for image in page.all("main")[0].all("img", outside=PAGE_ONLY)]
    assert len(told) > 15
    assert min(map(len, told)) > 40
    assert len(set(told)) == len(told)
    found = [text for number in range(len(pdf)) for text in figures(pdf[number])]
    assert {squeezed(text) for text in found} >= {squeezed(text) for text in told}


def squeezed(text):
    return re.sub(r"\s", "", text)


def figures(page):
    """The alternative texts of a page's structure elements of type Figure."""
    tree = pypdfium2.raw.FPDF_StructTree_GetForPage(page)
    try:
        roots = [
            pypdfium2.raw.FPDF_StructTree_GetChildAtIndex(tree, at)
            for at in range(pypdfium2.raw.FPDF_StructTree_CountChildren(tree))
        ]
        return [text for root in roots for text in alternatives(root)]
    finally:
        pypdfium2.raw.FPDF_StructTree_Close(tree)


def alternatives(element):
    if not element:
        return
    if told(pypdfium2.raw.FPDF_StructElement_GetType, element) == "Figure":
        yield told(pypdfium2.raw.FPDF_StructElement_GetAltText, element)
    for at in range(pypdfium2.raw.FPDF_StructElement_CountChildren(element)):
        yield from alternatives(pypdfium2.raw.FPDF_StructElement_GetChildAtIndex(element, at))


def told(function, element):
    """What a function of pdfium writes into a buffer, in UTF-16."""
    size = function(element, None, 0)
    buffer = ctypes.create_string_buffer(size)
    function(element, buffer, size)
    return buffer.raw[: max(0, size - 2)].decode("utf-16-le")


def test_nothing_runs_over_the_margin(pdf):
    over = []
    for number, page in enumerate(pdf, 1):
        left, right = MARGIN["left"] * POINTS, page.get_width() - MARGIN["right"] * POINTS
        text = page.get_textpage()
        # punctuation may hang over by a hair
        outside = text.get_text_bounded(right=left - 3) + text.get_text_bounded(left=right + 3)
        over += [(number, outside)] if outside.strip() else []
    assert over == []


def test_no_cell_of_a_table_runs_into_the_next(pdf):
    """Two pieces of text on one line of a page do not overlap."""
    clashes = []
    for number, page in enumerate(pdf, 1):
        lines = {}
        for run in runs(page):
            lines.setdefault(round(run[1]), []).append(run)
        for line in lines.values():
            clashes += [
                (number, one, other)
                for one, other in combinations(line, 2)
                if min(one[2], other[2]) - max(one[0], other[0]) > 2 and abs(one[3] - other[3]) < 1
            ]
    assert clashes == []


def test_pages_are_full(pdf):
    """No page is left half empty because a figure had no room on it, but for those at which a chapter ends."""
    chapters = {bookmark.get_dest().get_index() for bookmark in pdf.get_toc() if bookmark.level == 0}
    ends = {first - 1 for first in chapters} | chapters | {len(pdf) - 1}
    half = []
    for number, page in enumerate(pdf):
        lowest = min((run[1] for run in runs(page) if run[1] > MARGIN["bottom"] * POINTS), default=0)
        if lowest > page.get_height() / 2 and number not in ends:
            half.append(number + 1)
    assert half == []


FONT_SETS = {"DejaVu": "DejaVuS*", "Liberation": "Liberation*", "Noto": "NotoS*-[RB][eo][gl]*"}
"""Fonts that a machine may have alone, by what their files' names begin with."""


@pytest.mark.browser
@pytest.mark.parametrize("fonts", FONT_SETS)
def test_charts_need_no_font_of_the_machine(launch, site, fonts, tmp_path):
    listed = subprocess.run(["fc-list", "--format", "%{file}\\n"], capture_output=True, text=True, check=True)
    found = [Path(file) for file in listed.stdout.split("\n") if fnmatch(Path(file).name, FONT_SETS[fonts])]
    if not found:
        pytest.skip(f"no fonts {FONT_SETS[fonts]} on this machine")
    for file in found:
        (tmp_path / file.name).symlink_to(file)
    settings = tmp_path / "fonts.conf"
    settings.write_text(f"<fontconfig><dir>{tmp_path}</dir><cachedir>{tmp_path}</cachedir></fontconfig>")
    chromium = launch(env={**os.environ, "FONTCONFIG_FILE": str(settings)})
    visit = Visit(chromium, site / "index.html", DESKTOP)
    visit.wait_for_charts()
    charts = visit.page.locator(".vega-embed svg.marks").all()
    assert [pair for chart in charts for search in (OVERLAPS, AXIS_OVERLAPS) for pair in chart.evaluate(search)] == []
    chromium.close()


TEXT_WIDTH = (210 - MARGIN["left"] - MARGIN["right"]) * POINTS
"""Of the paper, to which wider pictures shrink."""


def test_no_text_of_a_chart_is_too_small_to_read(page):
    """At least 9 pixels in the page, and 6 points in print."""
    small, texts = [], 0
    for picture in page.all("img"):
        svg = unquote(picture.attributes["src"])
        if not svg.startswith("data:image/svg+xml"):
            continue
        width = float(re.search(r"<svg[^>]*? width=['\"]([\d.]+)", svg)[1])
        sizes = [float(size) for size in re.findall(r"<text [^>]*font-size=['\"]([\d.]+)px['\"][^>]*>[^<\s]", svg)]
        texts += len(sizes)
        least = min(sizes)
        if least < 9 or least * TEXT_WIDTH / max(width, FULL_WIDTH) < 5.95:  # to a tenth of a point
            small.append((picture.attributes["alt"][:60], least, width))
    assert texts > 1000
    assert small == []
