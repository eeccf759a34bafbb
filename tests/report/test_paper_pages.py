"""The paper as it is printed: no page is half empty, and none ends with a heading."""

import numpy as np
import pypdfium2
import pytest

pytestmark = pytest.mark.slow
MARGINS = (18 / 297, 1 - 20 / 297)
"""Of A4's height, the share where the text begins and ends; below it stands the page's number."""


@pytest.fixture(scope="module")
def pages(site):
    return list(pypdfium2.PdfDocument(site / "paper.pdf"))


def test_no_page_is_more_than_a_third_empty(pages):
    """But the last. A row is empty if none of its points is darker than a tint."""
    empty = []
    for page in pages[:-1]:
        points = np.asarray(page.render(scale=1).to_pil().convert("L"))
        top, bottom = (round(share * len(points)) for share in MARGINS)
        rows = np.flatnonzero((points[top:bottom] < 230).any(axis=1))
        gaps = np.diff([0, *rows, bottom - top])
        empty.append(gaps.max() / (bottom - top))
    assert max(empty) <= 1 / 3


def test_no_page_ends_with_a_heading(pages):
    headings = {bookmark.get_title() for bookmark in pages[0].pdf.get_toc()}
    assert len(headings) > 50
    for page in pages:
        *_, last, number = page.get_textpage().get_text_bounded().splitlines()
        assert number.strip().isdigit()
        assert not any(last.strip().endswith(heading) for heading in headings)
