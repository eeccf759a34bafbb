"""The paper as a journal's editor looks at it: the places of things on its pages."""

import re
from itertools import combinations
from urllib.parse import unquote

import pypdfium2
import pytest
from helpers.pages import Page

from report.charts.theme import FULL_WIDTH

PAGE_ONLY = ("details", "#fig-chooser", "#suppfig-*")
"""What stands in the page alone."""

MARGIN = {"left": 20, "right": 20}
"""Of a page in millimetres: what the margin of notes leaves white (_quarto.yml, report/engine/style.typ)."""

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


def test_every_picture_of_the_paper_has_an_alternative_text(page, site):
    descriptions = [image.attributes["alt"] for image in page.all("main")[0].all("img", outside=PAGE_ONLY)]
    assert len(descriptions) > 15
    assert min(map(len, descriptions)) > 40
    assert len(set(descriptions)) == len(descriptions)
    content = (site / "paper.pdf").read_bytes()
    assert len(re.findall(rb"/S\s*/Figure", content)) >= len(descriptions)
    begin = [re.match(r"[\w ,.-]*", text)[0][:40] for text in descriptions]
    # A text beyond ASCII is UTF-16 in the PDF, in hexadecimal digits
    written = [(text.encode(), text.encode("utf-16-be").hex().upper().encode()) for text in begin]
    assert [ways for ways in written if not any(way in content for way in ways)] == []


def test_nothing_runs_over_the_margin_or_into_the_next_cell(pdf):
    over, clashes = [], []
    for number, page in enumerate(pdf):
        text = page.get_textpage()
        left, right = MARGIN["left"] * POINTS, page.get_width() - MARGIN["right"] * POINTS
        # punctuation may hang over by a hair
        outside = text.get_text_bounded(right=left - 3) + text.get_text_bounded(left=right + 3)
        outside += text.get_text_bounded(bottom=page.get_height() - 15 * POINTS) + text.get_text_bounded(top=7 * POINTS)
        over += [(number + 1, outside)] if outside.strip() else []
        lines = {}
        for at in range(text.count_rects()):
            box = text.get_rect(at)  # left, bottom, right, top
            lines.setdefault(round(box[1]), []).append(box)
        for one, other in (pair for line in lines.values() for pair in combinations(line, 2)):
            overlap = min(one[2], other[2]) - max(one[0], other[0])
            clashes += [(number + 1, one, other)] if overlap > 2 and abs(one[3] - other[3]) < 1 else []
    assert (over, clashes) == ([], [])


TEXT_WIDTH = (210 - MARGIN["left"] - MARGIN["right"]) * POINTS
"""Of the paper; wider pictures shrink to it."""


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
