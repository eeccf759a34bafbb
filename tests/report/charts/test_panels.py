import csv
import io
import pickle
import re

import altair as alt
import numpy as np
import pandas as pd
import pytest

from report import display
from report.charts import theme
from report.charts.annotations import ONCE, names, tips
from report.charts.axes import Categories, LinearAxis, LogAxis, by_color
from report.charts.drawing import picture
from report.charts.panels import plain, specified
from report.figure_files import as_csv

X = LogAxis(low=1, high=100, pixels=200, title="work", unit="B")
Y = LogAxis(low=1, high=10, pixels=100, title="rate", unit="FLOP/s", vertical=True)
POINTS = pd.DataFrame({
    "model": ["=cmd()", "b, c"], "x": [1.5, 20.0], "rate": [3.0, None], "fast": [True, False], "unused": [1, 2],
})  # fmt: skip
ROOF = pd.DataFrame({"x": [1.0, 9.0], "roof": 5.0})
PALETTE = {"=cmd()": theme.BLUE, "b, c": theme.WINE, "absent": theme.GREEN}


def points(rows, field, palette, **about):
    chart = alt.Chart(pd.DataFrame(rows)).mark_point()
    return chart.encode(X("x"), Y("y"), color=by_color(field, palette, **about))


def chart():
    """Points under a roof with a name beside one, in one panel, and bars of the same networks in another."""
    line = LinearAxis(low=0, high=10, pixels=100, title="rate", unit="FLOP/s", vertical=True)
    color = by_color("model", PALETTE)
    dots = alt.Chart(POINTS).mark_point().encode(X("x"), line("rate"), color=color)
    first = alt.layer(
        alt.Chart(ROOF).mark_line().encode(X("x"), line("roof")),
        tips(dots, ("model", "network", ""), ("fast", "fast", "")),
        *names(POINTS[:1], "model", X("x"), Y("rate")), title="one", width=200, height=100,
    )  # fmt: skip
    across, down = LinearAxis(low=0, high=30, pixels=100), Categories.steps(["=cmd()", "b, c"])
    bars = alt.Chart(POINTS[["model", "x"]].assign(x=2 * POINTS.x)).mark_bar()
    second = tips(bars.encode(across("x"), down("model"), color=color), ("model", "network", ""))
    second = second.properties(title="two", width=100, height=40)
    return alt.concat(first, second, name="a-figure", description="Points.")


# By hand: marks with tooltips first, then the roof; axes with their units; empty where a table has no such column or
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
    assert as_csv(specified(chart())) == EXPECTED


def test_one_legend_of_what_the_figure_shows():
    first, second = specified(chart())["concat"]
    guides = [layer["encoding"]["color"]["legend"] for layer in (first["layer"][1], second)]
    assert guides[0] == guides[1]
    assert guides[0]["values"] == ["=cmd()", "b, c"]  # in the order of the palette, without what is absent
    assert picture(specified(chart())).count(">b, c<") == 2  # at the bars' axis and in the legend
    none = specified(points(POINTS.assign(y=2), "model", PALETTE, legend=None))
    assert "b, c" not in picture(none)


def test_panels_without_a_common_name_have_their_own_legends():
    first, second = (points([{"x": 2, "y": 2, "k": name}], "k", {name: theme.BLUE}) for name in "ab")
    made = specified(alt.concat(first, second))
    guides = [panel["encoding"]["color"]["legend"]["values"] for panel in made["concat"]]
    assert guides == [["a"], ["b"]]
    assert made["resolve"]["legend"] == {"color": "independent", "shape": "independent"}
    assert len({panel["params"][0]["name"] for panel in made["concat"]}) == 2  # a click picks in its panel alone
    common = specified(alt.concat(first, first))
    assert "resolve" not in common


# 22 letters of half an em of 11 pixels, and 34 for the mark and a gap, are about 150: five of the nine fit, or one
@pytest.mark.parametrize(("pixels", "columns"), [(770, 5), (200, 1)])
def test_a_legend_is_no_wider_than_its_panel(pixels, columns):
    kinds = [f"a long kind of layer {number}" for number in range(9)]
    rows = [{"x": 2, "y": 2, "kind": kind} for kind in kinds]
    made = specified(points(rows, "kind", dict.fromkeys(kinds, theme.BLUE)).properties(width=pixels))
    assert made["encoding"]["color"]["legend"]["columns"] == columns
    assert float(re.search(r'width="([\d.]+)"', picture(made))[1]) < pixels + 100  # with the axis


# Two names of about 150 pixels each, after a title of about 40 or 330
@pytest.mark.parametrize(
    ("title", "pixels", "is_beside"),
    [("kind", 400, True), (6 * "long title", 770, True), (6 * "long title", 400, False)],
)
def test_a_legends_title_is_beside_its_names_where_both_fit(title, pixels, is_beside):
    kinds = [f"a long kind of layer {number}" for number in range(2)]
    rows = [{"x": 2, "y": 2, "kind": kind} for kind in kinds]
    made = points(rows, "kind", dict.fromkeys(kinds, theme.BLUE), title=title).properties(width=pixels)
    legend = specified(made)["encoding"]["color"]["legend"]
    assert (legend["columns"], legend.get("titleOrient") == "left") == (2, is_beside)


def test_a_name_has_one_colour_in_a_figure():
    palettes = {"a": "red"}, {"a": "blue"}, {"b": "red"}
    one, other, missing = (points([{"x": 2, "y": 2, "k": "a"}], "k", palette) for palette in palettes)
    with pytest.raises(ValueError, match="color of a: both red and blue"):
        specified(one + other)
    with pytest.raises(ValueError, match="no color for a"):
        specified(missing)


def test_what_no_picture_can_hold_is_replaced_everywhere():
    rows = pd.DataFrame({"model": ["a\ufffeb", "c\x00d", "two\nlines"], "x": 2, "y": 2})
    dots = alt.Chart(rows, title="t\u2028u", description="d\ud800").mark_point().encode(X("x"), Y("y"))
    made = specified(tips(dots, ("model", "m", "")))
    (table,) = made["datasets"].values()
    assert [each["model"] for each in table] == ["a\ufffdb", "c d", "two\nlines"]
    assert (made["title"], made["description"]) == ("t u", "d\ufffd")
    assert picture(made).startswith("<svg")


def test_numbers_are_pythons_own_for_the_process_that_draws():
    dots = alt.Chart(pd.DataFrame({"x": [np.float64(2)], "y": np.float64(2)})).mark_point().encode(X("x"), Y("y"))
    made = specified(alt.layer(alt.Chart(ONCE).mark_rule().encode(X(np.float64(2))), dots))
    assert "numpy" not in str(pickle.dumps(made))


def test_rows_hold_what_json_does():
    frame = pd.DataFrame(
        {"a": [np.float64(1 / 3), np.nan, np.inf], "n": np.array([1, 2, 3]), "who": ["m", None, pd.NA]}
    )
    assert plain(frame.to_dict("records")) == [
        {"a": 0.333333, "n": 1, "who": "m"}, {"a": None, "n": 2, "who": None}, {"a": None, "n": 3, "who": None},
    ]  # fmt: skip


def test_a_row_without_a_logarithm_is_on_no_logarithmic_axis():
    rows = pd.DataFrame({"x": [10.0, 0.0, None], "y": 10.0, "who": "n"})
    made = specified(alt.Chart(rows).mark_point().encode(X("x"), Y("y")))
    assert [*made["datasets"].values()] == [[{"x": 10.0, "y": 10.0}]]
    assert len(names(rows, "who", X("x"), Y("y"))[1].data) == 1


def test_an_unknown_value_is_a_dash_in_a_tooltip_and_never_zero():
    rows = pd.DataFrame({"t": [None, 0.02], "s": [None, 0.5], "x": [10, 20], "y": 10})
    shown = tips(alt.Chart(rows).mark_text().encode(X("x"), Y("y")), ("t", "latency", "s"), ("s", "share", ".1%"))
    for line, texts in zip(shown.encoding.tooltip, ({"–", "20 ms"}, {"–", "50.0%"}), strict=True):
        drawn = specified(shown.encode(text=alt.Text(field=line["field"], type="nominal")))
        del drawn["encoding"]["tooltip"]  # a picture has none, nor the texts of one
        assert texts <= set(re.findall(r">([^<]+)</text>", picture(drawn)))


def test_charts_that_are_no_panels_stay_as_altair_makes_them():
    base = alt.Chart(POINTS).mark_point().encode(x="x", y="rate")
    faceted = specified(base.facet("model:N"))
    assert len(faceted["datasets"][faceted["data"]["name"]]) == 2
    (table,) = specified(base & base)["datasets"].values()
    assert table == [{"x": 1.5, "rate": 3.0}, {"x": 20.0, "rate": None}]
    assert specified(alt.Chart(alt.UrlData("rows.csv")).mark_point().encode(x="x:Q"))["data"] == {"url": "rows.csv"}


def test_the_data_of_a_gallerys_chart_keep_what_it_computes_with():
    rows = alt.Data(values=[{"year": 2020, "low": 1.0, "high": 3.0, "unused": 0}])
    base = alt.Chart(rows).transform_calculate(middle=(alt.datum.low + alt.datum.high) / 2)
    made = specified(base.transform_fold(["year"]).mark_point().encode(y="middle:Q"))
    assert [*made["datasets"].values()] == [[{"year": 2020, "low": 1.0, "high": 3.0}]]


def values(line):
    return [float(cell) if cell.replace(".", "").isdigit() else cell for cell in line]


@pytest.mark.browser
def test_the_page_links_to_the_same_table(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(display.drawing, "begin", lambda *_: None)  # its folder would be gone
    cell = display.figure(lambda paper: chart())(None).markdown
    element = cell.split("```{=html}\n")[1].removesuffix("\n```\n")
    script = display.script().replace("</script", "<\\/script")
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
