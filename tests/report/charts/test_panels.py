import csv
import io
import pickle
import re

import numpy as np
import pytest

from report import display
from report.charts import theme
from report.charts.axes import Categories, LinearAxis, LogAxis
from report.charts.drawing import picture
from report.charts.figure_files import as_csv
from report.charts.marks import bars, lines, names, points, rules
from report.charts.panels import figure, panel, row

X = LogAxis(low=1, high=100, pixels=200, title="work", unit="B")
Y = LogAxis(low=1, high=10, pixels=100, title="rate", unit="FLOP/s", vertical=True)
POINTS = [
    {"model": "=cmd()", "x": 1.5, "rate": 3.0, "fast": True, "unused": 1},
    {"model": "b, c", "x": 20.0, "rate": None, "fast": False, "unused": 2},
]
ROOF = [{"x": 1.0, "roof": 5.0}, {"x": 9.0, "roof": 5.0}]
PALETTE = {"=cmd()": theme.BLUE, "b, c": theme.WINE, "absent": theme.GREEN}


def chart():
    """Points under a roof with a name beside one, in one panel, and bars of the same networks in another."""
    line = LinearAxis(low=0, high=10, pixels=100, title="rate", unit="FLOP/s", vertical=True)
    tips = [("model", "network", ""), ("fast", "fast", "")]
    dots = points(POINTS, (X, "x"), (line, "rate"), ("model", PALETTE), tooltip=tips)
    first = panel(
        [lines(ROOF, (X, "x"), (line, "roof")), dots, names(POINTS[:1], "model", (X, "x"), (Y, "rate"))], "one"
    )
    across = LinearAxis(low=0, high=30, pixels=100)
    second = bars(
        POINTS, (across, "x"), (Categories.steps(["=cmd()", "b, c"]), "model"), ("model", PALETTE), tooltip=tips[:1]
    )
    second["data"]["values"] = [{"model": row["model"], "x": 2 * row["x"]} for row in POINTS]
    return figure("a-figure", "Points.", row([first, panel([second], "two")]))


# By hand: what can be pointed at first, then the roof; axes with their units; empty where a table has no such column or
# no number; no column that nothing shows. The bars' axis has no title.
EXPECTED = """\
panel,mark,network,work (B),rate (FLOP/s),fast,x
one,point,'=cmd(),1.5,3.0,true,
one,point,"b, c",20.0,,false,
two,bar,'=cmd(),,,,3.0
two,bar,"b, c",,,,40.0
one,line,,1.0,5.0,,
one,line,,9.0,5.0,,
"""


def test_a_figures_data_have_headings_with_units():
    assert as_csv(chart()) == EXPECTED


def test_one_legend_of_what_the_figure_shows():
    first, second = chart()["concat"]
    guides = [layer["encoding"]["color"]["legend"] for layer in (first["layer"][1], second["layer"][0])]
    assert guides[0] == guides[1]
    assert guides[0]["values"] == ["=cmd()", "b, c"]  # in the order of the palette, without what is absent
    assert picture(chart()).count(">b, c<") == 2  # at the bars' axis and in the legend
    none = figure("n", "d", panel([points(POINTS, (X, "x"), (Y, "x"), ("model", PALETTE))]), legend=None)
    assert "b, c" not in picture(none)


# 22 letters of half an em of 11 pixels, and 34 for the mark and a gap, are about 150: five of the nine fit, or one
@pytest.mark.parametrize(("pixels", "columns"), [(770, 5), (200, 1)])
def test_a_legend_is_no_wider_than_its_panel(pixels, columns):
    kinds = [f"a long kind of layer {number}" for number in range(9)]
    rows = [{"x": 2, "y": 2, "kind": kind} for kind in kinds]
    x = LogAxis(low=1, high=100, pixels=pixels)
    made = figure("n", "d", panel([points(rows, (x, "x"), (Y, "y"), ("kind", dict.fromkeys(kinds, theme.BLUE)))]))
    assert made["layer"][0]["encoding"]["color"]["legend"]["columns"] == columns
    assert float(re.search(r'width="([\d.]+)"', picture(made))[1]) < pixels + 100  # with the axis


def test_a_name_has_one_colour_in_a_figure():
    one, other = (points([{"x": 2, "y": 2, "k": "a"}], (X, "x"), (Y, "y"), ("k", {"a": c})) for c in ("red", "blue"))
    with pytest.raises(ValueError, match="color of a: both red and blue"):
        figure("n", "d", panel([one, other]))
    with pytest.raises(ValueError, match="no color for a"):
        figure("n", "d", panel([points([{"x": 2, "y": 2, "k": "a"}], (X, "x"), (Y, "y"), ("k", {"b": "red"}))]))


def test_what_no_picture_can_hold_is_replaced_everywhere():
    rows = [{"model": text, "x": 2, "y": 2} for text in ("a\ufffeb", "c\x00d", "two\nlines")]
    made = figure("n", "d\ud800", panel([points(rows, (X, "x"), (Y, "y"), tooltip=[("model", "m", "")])], "t\u2028u"))
    (table,) = made["datasets"].values()
    assert [each["model"] for each in table] == ["a\ufffdb", "c d", "two\nlines"]
    assert (made["title"], made["description"]) == ("t u", "d\ufffd")
    assert picture(made).startswith("<svg")


def test_numbers_are_pythons_own_for_the_process_that_draws():
    place = np.float64(2)
    made = figure("n", "d", panel([rules([{}], x=(X, place)), points([{"x": place, "y": place}], (X, "x"), (Y, "y"))]))
    assert "numpy" not in str(pickle.dumps(made))


def values(line):
    return [float(cell) if cell.replace(".", "").isdigit() else cell for cell in line]


@pytest.mark.browser
def test_the_page_links_to_the_same_table(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cell = display.figure(lambda paper: chart())(None).markdown
    element = cell.split("```{=html}\n")[1].removesuffix("\n```\n")
    script = display.drawing.script().replace("</script", "<\\/script")
    page = f'<meta charset="utf-8"><figure id="fig-0"><img>{element}</figure><script>{script}</script>'
    (tmp_path / "page.html").write_text(page, "utf-8")
    opened = browser.new_page()
    opened.goto((tmp_path / "page.html").as_uri())
    link = opened.locator("a.chart-data")
    link.wait_for()
    assert link.get_attribute("download") == "fig-0.csv"
    with opened.expect_download() as download:
        link.click()
    text = download.value.path().read_text("utf-8")
    opened.close()
    # Numbers are the same, whatever the digits that each language writes
    assert list(map(values, csv.reader(io.StringIO(text)))) == list(map(values, csv.reader(io.StringIO(EXPECTED))))
