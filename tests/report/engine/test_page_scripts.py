"""The includes of the page in a browser, on a small page of each engine: folding, sorting, searching, facts."""

import shutil
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import yaml
from axe_playwright_python.sync_playwright import Axe
from helpers.pages import DESKTOP, PHONE, Visit
from helpers.places import FILTER, LOOKS, ROOT, TESTS
from PIL import Image

from report.display import packed
from report.engine.embedded import render_embedded

pytestmark = [pytest.mark.browser, pytest.mark.slow]

RESOURCES = ROOT / "report/engine/resources"
HTML = yaml.safe_load((ROOT / "_quarto.yml").read_text("utf-8"))["format"]["html"]
INCLUDES = [Path(file).name for file in HTML["include-in-header"]]
SETTINGS = f"""\
title: Beads
format:
  html:
    toc: true
    css: page.css
    include-in-header: [{", ".join(INCLUDES)}]
filters:
  - at: pre-ast
    path: {FILTER}
  - at: pre-ast
    path: {LOOKS}
"""
FACT = {
    "printed": "2.9 (2.7–3.1)", "count": 12, "counted": "models", "name": None, "table": "rows.csv", "rows": "all",
    "command": "python -m measure", "meaning": "what it means",
}  # fmt: skip
ROWS = """\
| lean | 950 ms | 11.7 M | fast |
| vgg11 | 1.2 s | 132 M | – |
| elm | 12 µs | 900 k | Slow |
| oak | 3.4 ms | – | fast |
| broad | 88 ms | 2.5 M | able |
| 7 more models: see the table | | | |
"""
TEXT = f"""\
# One {{#sec-one}}

Text of one. See @tbl-b. The ratio is [2.9]{{.value key="beads.ratio"}}, not [3.1]{{.value key="beads.none"}}.

::: {{.callout-note collapse="true" title="A problem"}}
Its answer
:::

::: {{.callout-note collapse="true"}}
## Guess first: which is shorter, [elm]{{.option}} or [oak]{{.option}}?
[elm]{{.right}}, by far
:::

::: {{.callout-note collapse="true"}}
## Guess first: which has more, [elm]{{.option}} or [oak]{{.option}}?
[Neither]{{.right}}, for all that we can tell
:::

::: {{#guesses}}
:::

::: {{.more}}
[Deep]{{#deep}} below, as [here](#deep) told.
:::

## Part {{#sec-part}}

More of one.

# Two {{#sec-two}}

| Model | Latency | Parameters | Word |
|:{"-" * 94}|--:|--:|:--|
{ROWS}
: Beads and their times {{#tbl-b}}

| Chip | Beads |
|:--|--:|
| Acme vgg11 chip, fp32 | 1 |
| vgg11 chip † | 2 |
| lean | 3 |
| oak parts | 4 |

: Chips {{#tbl-chips}}

| Kind | {" | ".join(f"Unbreakableheading{at}" for at in range(12))} |
|:--|{"--:|" * 12}
| oaken | {" | ".join("1" * 12)} |

: Wide {{#tbl-wide}}

[To the deep](#deep)

```{{=html}}
<script type="application/gzip" id="facts">{packed({"beads.ratio": FACT})}</script>
```
"""


def quarto_page(root):
    """The page that Quarto made of the same text, with the includes and the style of today."""
    headers = [(RESOURCES / name).read_text("utf-8") for name in INCLUDES]
    headers.append(f"<style>{(ROOT / HTML['css']).read_text('utf-8')}</style>")
    page = (TESTS / "data" / "quarto-page.html").read_text("utf-8")
    file = root / "index.html"
    file.write_text(page.replace("<!-- include-in-header -->", "\n".join(headers)), "utf-8")
    return file


@pytest.fixture(scope="module", params=["embedded", "quarto"])
def file(tmp_path_factory, request):
    root = tmp_path_factory.mktemp("beads")
    if request.param == "quarto":
        return quarto_page(root)
    (root / "_quarto.yml").write_text(SETTINGS)
    (root / "index.qmd").write_text(TEXT)
    (root / "data").mkdir()
    (root / FILTER).parent.mkdir(parents=True)
    shutil.copy(ROOT / HTML["css"], root / "page.css")
    for path in (FILTER, LOOKS):
        shutil.copy(ROOT / path, root / path)
    for name in INCLUDES:
        shutil.copy(RESOURCES / name, root)
    return render_embedded(root, ["html"], root / "data", root / "out", lambda _: None)[0]


@pytest.fixture
def visit(browser, file):
    visit = Visit(browser, file, DESKTOP)
    yield visit
    assert visit.complaints == []
    visit.context.close()


def test_a_chapter_folds_and_whatever_leads_into_it_unfolds_it(visit):
    fold = visit.page.get_by_role("button", name="Section Two")
    text = visit.page.locator("#tbl-b")
    assert text.is_visible()
    fold.press("Enter")
    assert not text.is_visible()
    assert fold.get_attribute("aria-expanded") == "false"
    assert visit.page.locator("#sec-two > h1").is_visible()
    visit.page.get_by_role("link", name="Table 1").click()
    text.wait_for()  # the address changes first, and the page hears of it after
    assert fold.get_attribute("aria-expanded") == "true"
    # The same link once more: the address is the same
    fold.click()
    visit.page.get_by_role("link", name="Table 1").click()
    text.wait_for()
    fold.click()
    visit.page.emulate_media(media="print")  # on paper nothing is folded
    assert text.is_visible()
    assert not fold.is_visible()


def test_an_address_that_was_cut_leads_nowhere(visit):
    visit.page.evaluate("window.location.hash = '%'")
    visit.page.get_by_role("link", name="Table 1").click()  # and the next one leads there again
    assert visit.page.locator("#tbl-b").is_visible()


def test_a_guess_locks_and_unfolds_its_answer(visit):
    group = visit.page.get_by_role("group", name="Guess")  # one: of the other question no option is the answer
    assert not visit.page.get_by_text("by far").is_visible()
    group.get_by_role("button", name="oak").click()
    assert visit.page.get_by_text("by far").is_visible()
    assert group.get_by_role("button", disabled=True).count() == 2
    assert group.get_by_role("button", name="elm").get_attribute("class") == "is-right"
    assert visit.page.locator("#guesses").inner_text() == "Right: 0 of 1 guesses, of 1 in this paper."


def test_a_number_tells_where_it_comes_from(visit):
    number = visit.page.get_by_role("button", name="2.9")
    size = number.bounding_box()
    assert visit.page.locator(".value[tabindex]").count() == 1  # the other has no fact
    number.press("Enter")
    fact = visit.page.get_by_role("dialog")
    assert fact.inner_text().split("\n")[0] == "what it means"
    for text in ("2.9 (2.7–3.1)", "12 models", "data/rows.csv", "python -m measure", "beads.ratio"):
        assert text in fact.inner_text()
    visit.page.keyboard.press("Escape")
    assert not fact.is_visible()
    assert number.evaluate("number => document.activeElement === number")
    assert number.bounding_box() == size
    number.click()
    assert fact.is_visible()


def test_a_problem_folds_and_a_link_opens_what_it_leads_into(visit):
    assert not visit.page.get_by_text("Its answer").is_visible()
    title = visit.page.locator("summary").filter(has_text="A problem")
    title.press("Enter")
    assert visit.page.get_by_text("Its answer").is_visible()
    deep = visit.page.locator("#deep")
    assert not deep.is_visible()
    visit.page.get_by_role("link", name="To the deep").click()
    deep.wait_for()


COLUMNS = {
    # The largest first whatever the prefix, the smallest first, as it was
    "Latency": ["vgg11 lean broad oak elm", "elm oak broad lean vgg11", "lean vgg11 elm oak broad"],
    "Parameters": ["vgg11 lean broad elm oak", "elm broad lean vgg11 oak"],  # unknown values come last
    "Word": ["broad lean oak elm vgg11"],
    "Model": ["broad elm lean oak vgg11"],
}  # fmt: skip


def test_a_column_sorts(visit):
    table = visit.page.locator("#tbl-b")
    for column, orders in COLUMNS.items():
        head = table.get_by_role("button", name=column)
        for order in orders:
            head.press("Enter")
            rows = table.locator("tbody tr td:first-child").all_text_contents()
            assert rows == [*order.split(), "7 more models: see the table"]
        assert table.locator("th[aria-sort]").count() == (len(orders) < 3)


def found(visit):
    return visit.page.locator(".search li a").all_text_contents()


def test_the_search_finds_everything_and_unfolds_its_hit(visit):
    box = visit.page.get_by_role("searchbox")
    box.fill("chip")  # of one that several rows name, the longest name alone
    assert found(visit) == ["Acme vgg11 chip Table 2", "Table 2: Chips"]
    box.fill("lean")
    assert found(visit) == ["lean Table 1"]
    box.fill("oak")  # networks and chips go before other rows, whatever they begin with
    assert found(visit) == ["oak Table 1", "oak parts Table 2", "oaken Table 3"]
    box.fill("vgg11 t")
    assert found(visit) == []
    box.fill("vgg")
    assert found(visit) == ["vgg11 Table 1", "Acme vgg11 chip Table 2"]
    visit.page.keyboard.press("ArrowDown")
    visit.page.keyboard.press("Enter")
    visit.page.wait_for_url("**#tbl-b-2")
    assert visit.page.locator("tr:target td").first.text_content() == "vgg11"
    box.fill("times beads")
    assert found(visit) == ["Table 1: Beads and their times"]
    box.fill("part")
    assert found(visit)[0].endswith("Part")
    box.fill("more of one")
    assert found(visit) == ["More of one."]
    box.fill("answer")  # folded below a question
    assert found(visit) == []
    status = visit.page.locator(".search [role=status]")
    box.fill("nothing of the kind")
    assert found(visit) == []
    assert status.text_content() == "0 found"
    box.press("Escape")
    assert box.input_value() == ""
    assert status.text_content() == ""
    visit.page.get_by_role("button", name="Section Two").click()
    box.fill("oak")  # which is folded away
    box.press("Enter")  # goes to the first
    visit.page.locator("tr:target").wait_for()  # the address changes first, and the page hears of it after
    assert visit.page.locator("tr:target td").first.text_content() == "oak"


def test_a_phone_has_the_search_and_the_keyboard_reaches_all(browser, file):
    """No rule of accessibility is broken, by axe-core (Deque)."""
    phone = Visit(browser, file, PHONE)
    phone.page.evaluate("() => document.querySelectorAll('#contents details').forEach(each => { each.open = true; })")
    assert phone.page.get_by_role("searchbox").is_visible()
    phone.page.set_viewport_size({"width": 200, "height": 600})
    phone.page.reload()
    wide = "boxes => boxes.filter(box => box.scrollWidth > box.clientWidth).map(box => box.tabIndex)"
    assert phone.page.locator(".scroll:has(table)").evaluate_all(wide) == [0, 0]
    broken = Axe().run(phone.page, options={"rules": {"meta-viewport": {"enabled": False}}}).response["violations"]
    assert [(rule["id"], [node["html"] for node in rule["nodes"]]) for rule in broken] == []
    phone.context.close()


def test_the_page_is_dark_where_its_reader_prefers_that(visit):
    for scheme, (least, most) in {"dark": (0, 60), "light": (200, 255)}.items():
        visit.page.emulate_media(color_scheme=scheme)
        light = np.asarray(Image.open(BytesIO(visit.page.screenshot())).convert("L"), dtype=float)
        assert least < light.mean() < most
        assert light.max() - light.min() > 150


def test_a_column_is_as_wide_as_its_cells(visit):
    """Quarto sets shares of the width, by the lines below the heads in Markdown."""
    share = "table => table.rows[1].cells[0].clientWidth / table.clientWidth"
    assert visit.page.locator("#tbl-b table").evaluate(share) < 0.6  # of the 94 % that are set


def test_a_table_that_scrolls_says_so_and_takes_the_focus(visit):
    tables = {name: visit.page.locator(f"#{name} .scroll") for name in ("tbl-wide", "tbl-b")}
    hint = visit.page.locator("#tbl-wide .scroll-hint")
    hint.filter(has_text="→").wait_for()
    tables["tbl-wide"].focus()
    visit.page.keyboard.press("ArrowRight")
    visit.page.wait_for_function("() => document.querySelector('#tbl-wide .scroll').scrollLeft > 0")
    assert tables["tbl-b"].get_attribute("tabindex") == "-1"
    assert not visit.page.locator("#tbl-b .scroll-hint").is_visible()


@pytest.mark.parametrize(("scheme", "theme"), [("normal", "light"), ("dark", "dark")])
def test_charts_follow_the_scheme_of_their_page(browser, scheme, theme):
    """A page with a style without a dark form stays light."""
    charts = (ROOT / "report/charts/charts.js").read_text("utf-8")
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.set_content(f"<style>:root {{ color-scheme: {scheme} }}</style>")
    assert page.evaluate(f"() => {{ {charts}\nreturn OPTIONS.tooltip.theme; }}") == theme
    context.close()
