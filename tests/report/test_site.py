"""The paper as its readers have it: the page in a browser without a network, and the PDF."""

import re
from io import BytesIO

import numpy as np
import pypdfium2
import pytest
from axe_playwright_python.sync_playwright import Axe
from helpers.pages import AXIS_OVERLAPS, DESKTOP, OVERLAPS, PHONE, Visit
from PIL import Image

pytestmark = pytest.mark.slow


WIDER = """(charts) => charts.map((chart) => [chart.closest("figure").id, chart.closest(".chart-view"), chart])
  .filter(([, view, chart]) => view.clientWidth && chart.getBoundingClientRect().width > view.clientWidth + 1)
  .map(([id]) => id)"""
"""Figures with a chart wider than its place."""


@pytest.fixture(scope="module")
def desktop(browser, site):
    visit = Visit(browser, site / "index.html", DESKTOP)
    yield visit
    visit.context.close()


@pytest.fixture(scope="module")
def phone(browser, site):
    visit = Visit(browser, site / "index.html", PHONE, has_touch=True, is_mobile=True)
    yield visit
    visit.context.close()


CHART = re.compile(r'<script type="application/gzip" class="chart">[^<]*</script>')


@pytest.fixture
def reader(browser, site, tmp_path):
    """Opens a page of one test alone, which makes choices there, with the charts of these figures: all take seconds.

    Where a chart is left out its picture stays.
    """
    opened = []

    def open_page(*figures, viewport=DESKTOP):
        head, *parts = re.split("(?=<figure )", (site / "index.html").read_text("utf-8"))
        kept = [
            part if re.match(r'<figure[^>]* id="([^"]*)"', part)[1] in figures else CHART.sub("", part)
            for part in parts
        ]
        (tmp_path / "index.html").write_text("".join([head, *kept]), "utf-8")
        opened.append(Visit(browser, tmp_path / "index.html", viewport))
        assert opened[-1].wait_for_charts() == len(figures)
        return opened[-1].page

    yield open_page
    for visit in opened:
        visit.context.close()


@pytest.mark.browser
def test_every_figure_is_drawn_and_links_to_its_data(desktop):
    declared = desktop.wait_for_charts()
    charts = desktop.page.locator(".vega-embed svg.marks")
    assert charts.count() == declared >= 8
    for chart in charts.all():  # one without a mark is an empty panel
        assert chart.locator("[class*=mark-] path, [class*=mark-] line, [class*=mark-] text").count() > 10
    assert sum(chart.locator("g.mark-text.role-mark text").count() for chart in charts.all()) > 100
    assert [overlap for chart in charts.all() for overlap in chart.evaluate(OVERLAPS)] == []
    files = desktop.page.eval_on_selector_all(
        ":is([id^=fig-], [id^=suppfig-]) a.chart-data[href^=blob]", "links => links.map(link => link.download)"
    )
    assert len(set(files)) == len(files) == declared
    assert all(re.fullmatch(r"fig-[\w-]+\.csv", file) for file in files)


REMOVE_REPEATED = """() => {
  const alike = [...document.querySelectorAll("svg.marks :is([class*=role-], g) > :nth-child(n + 3)")];
  for (const body of document.querySelectorAll("tbody")) {
    const looks = new Set();
    for (const row of body.rows) {
      const look = [row, ...row.querySelectorAll("*")].map((part) => {
        const style = getComputedStyle(part);
        return [part.tagName, style.color, style.backgroundColor, style.opacity, style.fontSize, style.fontWeight];
      }).join();
      if (looks.has(look)) alike.push(row);
      looks.add(look);
    }
  }
  for (const node of alike) node.remove();
}"""
"""Takes away the rows of tables that look like an earlier one, and all marks of a chart but two of each kind."""


@pytest.mark.browser
@pytest.mark.parametrize("device", ["desktop", "phone"])
def test_labels_keep_apart_and_nothing_scrolls(request, device):
    visit = request.getfixturevalue(device)
    visit.wait_for_charts()
    charts = visit.page.locator(".vega-embed svg.marks")
    assert [pair for chart in charts.all() for pair in chart.evaluate(AXIS_OVERLAPS)] == []
    assert charts.evaluate_all(WIDER) == []
    assert visit.page.evaluate("() => document.documentElement.scrollWidth") <= visit.page.viewport_size["width"]
    assert visit.complaints == []


@pytest.mark.browser
@pytest.mark.parametrize(("viewport", "scheme"), [(DESKTOP, "dark"), (PHONE, "light")])
def test_no_rule_of_accessibility_is_broken(reader, viewport, scheme):
    """By axe-core (Deque), with rules from WCAG 2.2: with a chart without controls, and two with all kinds of them.

    What looks alike is read once, since reading it takes most of the time.
    """
    page = reader("fig-overview", "suppfig-training-kernels", "suppfig-training-strip", viewport=viewport)
    page.emulate_media(color_scheme=scheme)
    page.evaluate("() => document.querySelectorAll('details').forEach(each => { each.open = true; })")
    page.evaluate(REMOVE_REPEATED)
    broken = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    assert [(rule["id"], [node["html"] for node in rule["nodes"]][:3]) for rule in broken] == []


@pytest.mark.browser
def test_no_chart_is_wider_than_a_page_of_medium_width(browser, site):
    visit = Visit(browser, site / "index.html", {"width": 1024, "height": 800})
    visit.wait_for_charts()
    assert visit.page.locator(".vega-embed svg.marks").evaluate_all(WIDER) == []
    visit.context.close()


@pytest.mark.browser
def test_a_narrow_page_has_every_line_of_a_figure(desktop, phone):
    found = []
    for visit in (desktop, phone):
        visit.wait_for_charts()
        lines = """charts => charts.map((chart) => [chart.closest("figure").id,
          chart.querySelectorAll("g.mark-line.role-mark path, g.mark-symbol path").length])"""
        found.append(visit.page.locator(".vega-embed svg.marks").evaluate_all(lines))
    assert found[0] == found[1]


@pytest.mark.browser
def test_a_scrolling_picture_takes_the_focus_until_its_chart(reader):
    drawn = "fig-gap"
    page = reader(drawn, viewport=PHONE)
    visible = "[...document.querySelectorAll('figure p')].filter((box) => !box.closest('details'))"
    stops = f"() => {visible}.filter((box) => box.tabIndex === 0)"
    scrolls = stops.replace("box.tabIndex === 0", "box.scrollWidth > box.clientWidth")
    page.wait_for_function(f"() => ({stops})().length > 5 && ({stops})().length === ({scrolls})().length")
    assert drawn not in page.evaluate(f"() => ({stops})().map((box) => box.closest('figure').id)")


@pytest.mark.browser
def test_an_axis_without_a_name_has_no_numbers_when_narrow(phone):
    """The labels of a network's layers, in their order, are shares."""
    phone.wait_for_charts()
    phone.page.evaluate("() => document.querySelectorAll('details.more').forEach(each => { each.open = true; })")
    labels = phone.page.locator("#suppfig-training-strip .role-axis-label text")
    labels.first.wait_for()
    assert {label[-1] for label in labels.all_text_contents()} == {"%"}


@pytest.mark.browser
def test_what_is_folded_has_the_width_of_the_page(desktop):
    """A note in the margin above narrows no section."""
    widths = desktop.page.locator("details.more").evaluate_all("folds => folds.map(fold => fold.clientWidth)")
    assert len({width for width in widths if width}) == 1


@pytest.mark.browser
def test_text_stands_beside_each_note_in_the_margin(desktop):
    holes = """notes => notes.filter((note) => getComputedStyle(note).float === "right").filter((note) => {
      const next = note.nextElementSibling ?? note.closest("section").nextElementSibling;
      const text = next.matches("section") ? next.firstElementChild : next;
      return text.getBoundingClientRect().top > note.getBoundingClientRect().bottom - 20;
    }).map((note) => note.textContent)"""
    assert desktop.page.locator("main :is(.reference, .callout-tip):visible").evaluate_all(holes) == []


@pytest.mark.browser
def test_small_panels_stand_side_by_side_on_a_phone(phone):
    """The title of the figure is wider than a panel."""
    phone.wait_for_charts()
    places = "pies => new Set(pies.map((pie) => Math.round(pie.getBoundingClientRect().left))).size"
    assert phone.page.locator("#fig-pies svg.marks path.background").evaluate_all(places) >= 3


@pytest.mark.browser
def test_figures_keep_their_contrast_in_the_dark(reader):
    page = reader("fig-overview", "fig-puzzle-ratios", "fig-puzzle-life")
    for scheme, (least, most) in {"dark": (0, 65), "light": (190, 255)}.items():
        page.emulate_media(color_scheme=scheme)
        for figure in page.locator(".chart-view").all():
            light = np.asarray(Image.open(BytesIO(figure.screenshot())).convert("L"), dtype=float)
            assert light.max() - light.min() > 150
            assert least < light.mean() < most


@pytest.mark.browser
def test_the_network_of_a_figure_can_be_chosen(reader):
    strips = reader("suppfig-training-strip").locator("#suppfig-training-strip")
    before = strips.locator("svg.marks").first.inner_html()
    names = strips.locator("select[name=network] option").all_text_contents()
    strips.locator("select[name=network]").select_option(names[-1])
    assert len(names) > 5
    assert strips.locator("svg.marks").first.inner_html() != before


MARKS = """async (figure) => {
  for (let frame = 0; frame < 2; frame += 1) await new Promise(requestAnimationFrame);  // a chart is drawn in the next
  const said = (mark) => mark.getAttribute("aria-label").split("; ").map((part) => part.split(": "));
  return [...figure.querySelectorAll("g.mark-symbol.role-mark path")].map((mark) => Object.fromEntries(said(mark)));
}"""
"""Returns the labels of a figure's marks."""


@pytest.mark.browser
def test_a_roofline_can_be_explored_by_keyboard(reader):
    page = reader("suppfig-training-kernels")
    chart = page.locator("#suppfig-training-kernels")

    def told():
        return chart.evaluate(MARKS)

    before = told()
    assert {mark["network"] for mark in before} == {"MobileNet-v2", "ResNet-18"}
    slider = chart.locator("input[name=least]")
    slider.focus()
    for _ in range(10):  # hundredths
        page.keyboard.press("ArrowRight")
    left = told()
    assert 0 < len(left) < len(before)
    assert min(float(mark["share"]) for mark in left) >= 0.1
    page.keyboard.press("Home")
    assert len(told()) == len(before)
    # A cache allows more than memory, so marks reach less of its roof
    level = chart.locator("select[name=level]")
    level.focus()
    page.keyboard.press("Home")
    reached = [[int(mark["of the roof"].rstrip("%")) for mark in each] for each in (before, told())]
    assert all(near <= far for far, near in zip(*reached, strict=True))
    assert reached[0] != reached[1]
    chart.locator("select[name=second]").select_option("VGG-16")
    chart.locator("select[name=only]").select_option("convolution")
    assert {(mark["network"], mark["group"]) for mark in told()} == {
        ("MobileNet-v2", "convolution"), ("VGG-16", "convolution"),
    }  # fmt: skip


@pytest.mark.browser
def test_a_readers_choices_outlive_another_width_of_the_page(reader):
    page = reader("suppfig-training-kernels")
    chart = page.locator("#suppfig-training-kernels")
    chart.locator("select[name=first]").select_option("VGG-16")
    chart.locator("select[name=only]").select_option("convolution")
    chosen = chart.evaluate(MARKS)
    width = chart.locator("svg.marks").bounding_box()["width"]
    page.set_viewport_size(PHONE)
    page.wait_for_function(
        "most => document.querySelector('#suppfig-training-kernels svg.marks')?.getBoundingClientRect().width < most",
        arg=width - 100,
    )
    assert chart.locator("select[name=first]").input_value() == "VGG-16"
    assert chart.evaluate(MARKS) == chosen


@pytest.mark.browser
def test_a_chart_is_drawn_before_the_chooser_unless_folded_away(browser, site):
    context = browser.new_context(viewport=DESKTOP)
    context.add_init_script(
        """addEventListener("DOMContentLoaded", () => new MutationObserver((_, watch) => {
          if (!document.querySelector(".chooser form")) return;
          document.documentElement.dataset.drawnBefore = document.querySelectorAll("svg.marks").length;
          watch.disconnect();
        }).observe(document.querySelector(".chooser"), { childList: true }));"""
    )
    page = context.new_page()
    page.goto((site / "index.html").as_uri())
    page.wait_for_selector("html[data-charts=drawn][data-drawn-before]")
    assert int(page.locator("html").get_attribute("data-drawn-before")) >= 1
    assert page.locator("details.more svg.marks").count() == 0
    page.locator("details.more:has(script.chart) > summary").first.click()
    page.wait_for_selector("details.more svg.marks")
    context.close()


@pytest.mark.browser
@pytest.mark.parametrize("batch", ["1", "64"])
def test_a_chip_is_first_only_where_most_chips_are_ranked(reader, batch):
    page = reader()
    chooser = page.locator(".chooser:has(form)")
    chooser.locator("select[name=batch]").select_option(batch)
    rows = chooser.locator("tbody tr:not([hidden])")
    are_most = 2 * chooser.locator("tbody tr:not([hidden], .unranked)").count() > rows.count()
    first = rows.first.locator("th").inner_text().split("\n")[0].rstrip(" \xa0†=")
    for answer in (chooser.locator("[role=status]"), page.locator(".chooser-line [role=status]")):
        assert (first in answer.inner_text()) == are_most == (batch == "64")


@pytest.mark.browser
def test_a_long_table_shows_its_first_rows_until_asked_for_more(reader):
    page = reader()
    table = page.locator("#tbl-chips")
    visible = table.locator("tbody tr:visible")
    assert visible.count() == 6
    row = table.locator("tbody tr").last
    row.evaluate("row => { row.id ||= 'last-chip'; location.hash = row.id; }")
    row.wait_for()  # a link to a row that is folded away unfolds it
    page.evaluate("location.hash = 'tbl-chips'")
    row.wait_for(state="hidden")
    table.get_by_role("button", name="Show all").click()
    assert visible.count() == table.locator("tbody tr").count() > 9


@pytest.mark.browser
def test_the_page_loads_nothing_and_its_charts_write_no_markup(desktop, site):
    desktop.wait_for_charts()
    elsewhere = [url for url in desktop.requests if not url.startswith(("data:", "blob:"))]
    assert elsewhere == [(site / "index.html").as_uri()]
    # Vega's menu could write a chart's source into a window as markup, names of chips and all.
    actions = desktop.page.locator(".vega-actions").first.locator("a").all_text_contents()
    assert actions == ["Save as SVG", "Save as PNG"]


@pytest.mark.browser
def test_a_tooltip_has_units_for_pointer_and_arrow_keys(reader):
    page = reader("fig-bound-roofs")
    point = page.locator(".vega-embed svg.marks [aria-roledescription='point']").first
    point.scroll_into_view_if_needed()
    point.hover(force=True)
    tooltip = page.locator("#vg-tooltip-element.visible")
    tooltip.wait_for()
    assert re.search(r"\d.*(FLOP|B/s|ms|s\b)", tooltip.inner_text())
    page.mouse.move(0, 0)  # a page that scrolls below a resting pointer would hide it
    tooltip.wait_for(state="hidden")
    view = page.locator(".chart-view").first
    view.focus()
    tooltip = page.locator("#vg-tooltip-element")
    texts = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
        page.locator("#vg-tooltip-element.visible").wait_for()
        texts.append(tooltip.inner_text())
    assert texts[0] == texts[2] != texts[1]
    announced = view.locator("xpath=following-sibling::*[contains(@class, 'chart-said')]")
    assert re.search(r"\d", announced.text_content())
    page.keyboard.press("Escape")
    assert announced.text_content() == ""


@pytest.mark.browser
def test_without_scripts_every_figure_is_a_picture(browser, site):
    visit = Visit(browser, site / "index.html", DESKTOP, java_script_enabled=False)
    figures = visit.page.locator("figure:has(script.chart)")
    pictures = visit.page.locator("figure img, figure > svg, figure p > svg")
    assert visit.page.locator(".chart-data").count() == 0
    assert pictures.count() >= figures.count() > 0
    boxes = [picture.bounding_box() for picture in pictures.all()]
    visible = [box for box in boxes if box and box["width"]]  # the others are folded, as they are with scripts
    assert len(visible) > 20
    assert min(box["width"] for box in visible) > 200
    visit.context.close()


def test_figures_and_tables_are_numbered_without_a_gap(site):
    text = (site / "index.html").read_text(encoding="utf-8")
    assert len(text) <= 5_750_000
    whole = "\n".join(page.get_textpage().get_text_bounded() for page in pypdfium2.PdfDocument(site / "paper.pdf"))
    # pdfium gives these for a glyph without a character: U+FFFD, U+FFFE (also its mark of a hyphen) and U+0000.
    assert not {"\ufffd", "\x00"} & set(whole)
    for kind in ("Figure", "Table"):
        of_page = set(map(int, re.findall(rf"<figcaption[^>]*>\s*{kind}(?:\s|&nbsp;|&#160;)(\d+)", text)))
        of_pdf = set(map(int, re.findall(rf"{kind}\s(\d+):", whole)))
        assert of_page == set(range(1, max(of_page) + 1))
        assert of_pdf == set(range(1, max(of_pdf) + 1))
        assert 5 < len(of_pdf) <= len(of_page)
