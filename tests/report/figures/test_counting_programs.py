from dataclasses import replace

from helpers.charts import drawn, rows, titles
from helpers.papers import tiny
from helpers.sentences import plain

from report import figures


def test_deviations():
    chart = drawn(figures.counting_programs.deviations, tiny())
    marks = rows(chart, "off", "model")
    assert len(marks) == 15 - 4  # the marks of ours and torch's are the same
    vit = [row for row in marks if row["model"] == "vit_b_16" and row["off"] < -1]
    assert [(row["off"], row["line"], plain(row["counted"])) for row in vit] == [(-36, "ViT", "6,400,000,000 MAC")]
    assert titles(chart) == [
        "Roofwright", "FlopCounterMode", "fvcore", "thop",
    ]  # fmt: skip
    assert "Roofwright 4, FlopCounterMode 4, fvcore 1 and thop 2" in plain(chart["description"])


def test_a_model_of_no_known_line_has_a_row_of_its_own():
    unknown = tiny().counting_programs.assign(line="of my own")
    chart = drawn(figures.counting_programs.deviations, replace(tiny(), counting_programs=unknown))
    marks = rows(chart, "off", "model")
    assert {row["line"] for row in marks} == {"of my own"}
