import base64
import gzip
import json
import re

import altair as alt
import pandas as pd
import pytest

from report import failures
from report.analysis.available import Missing
from report.charts import drawing, figure_data
from report.charts.show import scripts, show
from report.charts.theme import finish
from report.text.prose import Prose


@pytest.fixture
def chart():
    points = pd.DataFrame({"x": [1, 2], "text": ["</script>", 'say "hi"']})
    return finish(alt.Chart(points).mark_point().encode(x="x", tooltip="text"), "points", 'Two "points".')


def markdown(content):
    shown = show(content)._repr_mimebundle_()["text/markdown"]
    drawing.finish()
    return shown


def test_a_chart_is_a_picture_and_its_specification(chart, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = markdown(chart)
    assert text.startswith('![](_figures/points.svg){fig-alt="Two \\"points\\"."}\n\n```{=html}\n<script')
    assert (tmp_path / "_figures" / "points.svg").read_text().startswith("<svg")
    (found,) = re.findall(r'<script type="application/gzip" class="chart">([\w+/=]*)</script>\n```\n$', text)
    assert json.loads(gzip.decompress(base64.b64decode(found))) == figure_data.specification(chart)


def test_picture_and_specification_are_the_same_each_time(chart, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = markdown(chart)
    first = (tmp_path / "_figures" / "points.svg").read_bytes()
    assert markdown(chart) == shown
    assert (tmp_path / "_figures" / "points.svg").read_bytes() == first


def test_tables_are_markdown_and_sentences_are_not():
    assert markdown("| a |\n|---|\n") == "| a |\n|---|\n"
    assert markdown(Prose("run --this_one")) == "run \\-\\-this\\_one"
    assert markdown(Missing("run --this_one")) == "::: {.gap}\nrun \\-\\-this\\_one\n:::\n"


def test_a_sentence_stands_for_a_chart_that_cannot_be_drawn(chart, monkeypatch):
    def fails(_content):
        raise ValueError("too many rows")

    monkeypatch.setattr(figure_data, "specification", fails)
    with pytest.raises(ValueError, match="too many rows"):
        show(chart)
    monkeypatch.delenv(failures.STRICT)
    assert "drawing points failed with ValueError: too many rows" in markdown(chart)


def test_the_script_is_whole_and_needs_no_network():
    text = scripts()._repr_mimebundle_()["text/markdown"]
    quarto_s = "<!--| quarto-html-table-processing: none -->"  # else it takes the code for a table that is broken
    assert text.startswith(f"```{{=html}}\n{quarto_s}\n<style>@font-face")
    assert text.count("@font-face") == text.count('url("data:font/woff2') == 2
    assert "</style>\n<script>" in text
    assert text.endswith("</script>\n```\n")
    assert text.count("</script") == 1
    assert "\n```" not in text[5:-5]
    assert "script.chart" in text
    assert not re.search(r"import\s*\(?['\"]https?:", text)
