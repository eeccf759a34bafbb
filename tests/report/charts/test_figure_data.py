import csv
import io

import altair as alt
import pandas as pd
import pytest
from report.charts.show import scripts, show

from report.charts import figure_data
from report.charts.axes import LogAxis
from report.charts.drawing import picture
from report.charts.theme import finish

POINTS = pd.DataFrame({"model": ["=cmd()", "b, c"], "x": [1.5, 20.0], "rate": [3.0, None], "fast": [True, False]})
LINE = pd.DataFrame({"x": [1.0, 9.0], "roof": [5.0, 5.0]})


def chart():
    """Points under a roof with a name beside one, in one panel, and the points alone in another."""
    x, y = LogAxis(1, 100, 200, "work", "B"), LogAxis(1, 10, 100, "rate", "FLOP/s", vertical=True)
    roof = alt.Chart(LINE).mark_line().encode(x.channel("x"), y.channel("roof"))
    names = alt.Chart(pd.DataFrame({"x": [2.0], "text": ["name"]})).mark_text().encode(x.channel("x"), text="text")
    dots = alt.Chart(POINTS).mark_point().encode(
        x.channel("x"), y.channel("rate"), alt.Color("model:N", title="network"), tooltip=["model", "fast"]
    )  # fmt: skip
    first = alt.layer(roof, names, dots).properties(title="one")
    second = alt.Chart(POINTS.assign(rate=[1.0, 2.0])).mark_bar().encode(x="x:Q", tooltip="model")
    return finish(alt.concat(first, second.properties(title=alt.TitleParams("two"))), "a-figure", "Points.")


# By hand: what can be pointed at first, then the roof; axes with their units; "rate" is the title of two fields of the
# axis and none of the others, so the unit tells them apart; empty where a table has no such column or no number. The
# bars' axis has no title of its own, nor does their "model".
EXPECTED = """\
panel,mark,network,work (B),rate (FLOP/s),fast,model,x,rate
one,point,'=cmd(),1.5,3.0,true,,,
one,point,"b, c",20.0,,false,,,
two,bar,,,,true,'=cmd(),1.5,1.0
two,bar,,,,false,"b, c",20.0,2.0
one,line,,1.0,5.0,,,,
one,line,,9.0,5.0,,,,
"""


def test_the_data_of_all_marks_but_names_under_headings_with_units():
    assert figure_data.as_csv(figure_data.specification(chart())) == EXPECTED


def test_the_specification_stays_what_it_was():
    specified = figure_data.specification(chart())
    assert specified.pop("usermeta")["tables"][0]["about"] == {"panel": "one", "mark": "point"}
    assert specified == chart().to_dict()


@pytest.mark.parametrize(
    ("titles", "panel"),
    [(["one"], {"panel": "one"}), (["one", "two"], {"panel": ""}), ([""], {})],
    ids=["one panel", "every panel", "no title"],
)
def test_panels(titles, panel):
    base = alt.Chart(LINE).mark_line().encode(x="x:Q")
    panels = alt.concat(*(base.properties(title=title) for title in titles))
    (table,) = figure_data.specification(finish(panels, "n", "d"))["usermeta"]["tables"]
    assert table["about"] == panel


def test_a_table_of_some_panels_names_them():
    first, other = (alt.Chart(rows).mark_line().encode(x="x:Q") for rows in (LINE, LINE * 2))
    panels = alt.concat(*(part.properties(title=t) for part, t in ((first, "a"), (first, "b"), (other, "c"))))
    tables = figure_data.specification(finish(panels, "n", "d"))["usermeta"]["tables"]
    assert [table["about"]["panel"] for table in tables] == ["a, b", "c"]


def test_a_single_table_has_no_column_for_panel_or_mark():
    only = finish(alt.Chart(LINE).mark_line().encode(alt.X("x:Q", title="a"), alt.Y("roof:Q", title="a")), "n", "d")
    (table,) = figure_data.specification(only)["usermeta"]["tables"]
    assert table["about"] == {}
    assert table["columns"] == {"x": "a"}  # the second of one heading keeps its name


@pytest.mark.browser
def test_the_page_links_to_the_same_table(browser, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = [cell._repr_mimebundle_()["text/markdown"] for cell in (show(chart()), scripts())]
    parts = [part.removesuffix("\n```\n") for text in shown for part in text.split("```{=html}\n")[1:]]
    page = tmp_path / "page.html"
    page.write_text(f'<meta charset="utf-8"><figure id="fig-a"><img>{parts[0]}</figure>{parts[1]}', "utf-8")
    opened = browser.new_page()
    opened.goto(page.as_uri())
    link = opened.locator("a.chart-data")
    link.wait_for()
    assert link.get_attribute("download") == "fig-a.csv"
    with opened.expect_download() as download:
        link.click()
    text = download.value.path().read_text("utf-8")
    opened.close()
    # numbers are the same, whatever the digits that each language writes
    assert list(map(values, csv.reader(io.StringIO(text)))) == list(map(values, csv.reader(io.StringIO(EXPECTED))))


def values(row):
    return [float(cell) if cell.replace(".", "").isdigit() else cell for cell in row]


def test_what_no_picture_can_hold_is_replaced_everywhere():
    rows = pd.DataFrame({"model": ["a\ufffeb", "c\x00d", "two\nlines"], "x": [1, 2, 3]})
    marks = alt.Chart(rows).mark_point().encode(x="x:Q", y="model:N").transform_filter(alt.datum.model != "a\ufffeb")
    specified = figure_data.specification(finish(marks.properties(title="t\u2028u"), "n", "d\ud800"))
    (table,) = specified["datasets"].values()
    assert [row["model"] for row in table] == ["a\ufffdb", "c d", "two\nlines"]
    assert specified["title"] == "t u"
    assert specified["description"] == "d\ufffd"
    assert picture(specified).startswith("<svg")
