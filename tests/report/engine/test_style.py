"""What both engines' pages look like beside their own styles."""

import pytest
from helpers.pages import PHONE, Visit
from helpers.places import ROOT

PAGE = """<!doctype html><meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style>
<div class="csl-entry">https://example.org/{long}</div>
<p><math display="block"><mi>{long}</mi></math></p>
<p><span class="math display"><math display="block"><mi>{long}</mi></math></span></p>
<p><span id="eq-one"><math display="block"><mi>{long}</mi></math></span></p>
"""


@pytest.mark.browser
@pytest.mark.parametrize("styled", [True, False])
def test_long_addresses_and_equations_do_not_widen_a_phone_s_page(browser, tmp_path, styled):
    """Without the style they do: what is tested is the style."""
    style = (ROOT / "report/engine/style.css").read_text("utf-8") if styled else ""
    page = tmp_path / "page.html"
    page.write_text(PAGE.format(style=style, long="x" * 200), "utf-8")
    visit = Visit(browser, page, PHONE, has_touch=True, is_mobile=True)
    width = visit.page.evaluate("() => document.documentElement.scrollWidth")
    assert (width <= PHONE["width"]) == styled
    visit.context.close()
