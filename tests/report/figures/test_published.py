from dataclasses import replace

from helpers.charts import drawn, rows
from helpers.papers import empty
from helpers.published_papers import printed

from report import figures
from report.analysis.available import Missing


def test_steps_on_roofs():
    chart = drawn(figures.published.steps_on_roofs, printed())
    points = rows(chart, "GPU", "of attainable")
    assert len(points) == 9
    # 204.8 / 215.4 = 0.951 FLOP/B
    assert {(row["x"], row["rate"]) for row in points if row["rate"] == 204.8e9} == {(0.95079, 204.8e9)}
    corners = rows(chart, "GPU", "intensity")
    assert {row["GPU"] for row in corners} == {"NVIDIA T4", "NVIDIA L4", "NVIDIA V100"}
    assert "none lie above" in chart["description"]


def test_flop_against_ours():
    chart = drawn(figures.published.flop_against_ours, printed())
    points = rows(chart, "ours", "verdict")
    alexnet = next(row for row in points if row["of"] == "alexnet")
    assert (alexnet["printed"], alexnet["ours"], alexnet["agrees"]) == (1.43e9, 1.4284e9, True)
    assert chart["width"] == chart["height"]  # equal axes
    encodings = [layer["encoding"] for layer in chart["layer"] if "verdict" in str(layer)]
    assert encodings[0]["x"]["scale"]["domain"] == encodings[0]["y"]["scale"]["domain"]


def test_without_counts_there_is_a_sentence():
    uncounted = replace(printed(), workloads=empty().workloads)
    assert isinstance(figures.published.flop_against_ours(uncounted), Missing)
