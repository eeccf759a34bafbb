from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import pandas as pd
import pytest
import vl_convert
from helpers.charts import drawn, on, rows, titles
from helpers.elsewhere_papers import timed_elsewhere
from helpers.papers import tiny
from helpers.sentences import plain
from helpers.timed_papers import timed

from report.charts import theme
from report.figures import utilisation


@cache
def only(kind):
    return replace(tiny(), machines=(tiny().machine(kind),))


def test_panels_at_the_ends_of_the_batch_sizes_and_one_of_families():
    assert titles(drawn(utilisation.models_on_roof, tiny())) == [
        "CPU, batch size 1", "GPU, batch size 1", "CPU, batch size 8", "CPU, families from batch size 1 to 8",
    ]  # fmt: skip
    assert titles(drawn(utilisation.models_on_roof, only("gpu"))) == ["GPU, batch size 1"]


def test_a_batch_size_that_few_models_were_measured_at_has_no_panel_and_is_on_no_path():
    cpu = tiny().machine("cpu")
    lean = cpu.cells[(cpu.cells.model == "lean") & (cpu.cells.batch == 8)]
    cells = pd.concat([cpu.cells, lean.assign(batch=16)])
    chart = drawn(utilisation.models_on_roof, replace(tiny(), machines=(replace(cpu, cells=cells),)))
    assert titles(chart) == ["CPU, batch size 1", "CPU, batch size 8", "CPU, families from batch size 1 to 8"]
    assert {row["batch"] for row in rows(chart, "family", "models")} == {1, 8}


def test_a_path_is_of_the_models_that_every_batch_size_has():
    cpu = tiny().machine("cpu")
    cells = cpu.cells.assign(family="one")
    chart = drawn(utilisation.models_on_roof, replace(tiny(), machines=(replace(cpu, cells=cells),)))
    # lean, broad and deep have both; tokens ran at batch size 1 alone
    at_both = cells[(cells.precision == "fp32") & cells.model.isin(["lean", "broad", "deep"])]
    middle = {batch: sorted(rows.flop_per_s)[1] for batch, rows in at_both.groupby("batch")}
    found = {row["batch"]: (row["models"], row["rate"]) for row in rows(chart, "family", "models")}
    assert found == {batch: (3, pytest.approx(rate)) for batch, rate in middle.items()}


def test_points():
    chart = drawn(utilisation.models_on_roof, only("cpu"))
    points = on("CPU", chart, "model", "rate")
    assert (points["broad", 1]["x"], points["broad", 1]["rate"]) == (5, 25.5e9)
    assert plain(points["broad", 1]["of attainable"]) == "51.0 %"
    assert plain(points["broad", 1]["of peak"]) == "25.5 %"
    assert plain(points["deep", 8]["of attainable"]) == "125 %"


def roofs(chart):
    """The corners of each roof by its name."""
    corners = {}
    for row in rows(chart, "roof", "rate"):
        corners.setdefault(row["roof"], set()).add((row["intensity"], row["rate"], row["printed"]))
    return corners


def test_the_roof_is_that_of_memory_and_of_the_datasheet():
    found = roofs(drawn(utilisation.models_on_roof, only("cpu")))
    assert set(found) == {"measured", "datasheet"}
    # 100 GFLOP/s over 10 GB/s
    (at_ridge,) = [rate for intensity, rate, _ in found["measured"] if intensity == pytest.approx(10)]
    assert at_ridge == pytest.approx(100e9)
    # 2 cores * 32 FLOP/cycle * 2 GHz; flat, since no bandwidth is known
    assert all(rate == pytest.approx(128e9) and printed for _, rate, printed in found["datasheet"])


def test_without_a_datasheet():
    cpu = replace(tiny().machine("cpu"), clock=None)
    assert "datasheet" not in roofs(drawn(utilisation.models_on_roof, replace(tiny(), machines=(cpu,))))


def test_with_a_datasheet():
    found = roofs(drawn(utilisation.models_on_roof, only("gpu")))
    assert set(found) == {"measured", "datasheet"}
    # Measured 128 GFLOP / 16 ms; the alias "Example GPU" prints 1e13 at fp32 and 1 TB/s.
    assert max(rate for _, rate, _ in found["measured"]) == pytest.approx(8e12)
    assert max(rate for _, rate, _ in found["datasheet"]) == 1e13


def test_attained():
    assert titles(drawn(utilisation.attained, tiny())) == ["CPU, fp32", "GPU, fp32"]
    points = on("CPU", drawn(utilisation.attained, tiny()), "share", "model")
    assert {cell: row["share"] for cell, row in points.items()} == pytest.approx(
        {
            ("lean", 1): 0.25, ("broad", 1): 0.51, ("deep", 1): 0.5, ("tokens", 1): 0.8,
            ("lean", 8): 0.5, ("broad", 8): 0.85, ("deep", 8): 1.25,
        }
    )  # fmt: skip


def test_cells_without_any_roof_at_their_precision():
    cpu = tiny().machine("cpu")
    half = replace(tiny(), machines=(replace(cpu, cells=cpu.cells[cpu.cells.precision == "bf16"]),))
    assert "bf16 roof of the Example CPU" in utilisation.attained(half)


def test_panels_of_many_batch_sizes_fit_on_a_page():
    machines = []
    for machine in tiny().machines:
        first = machine.cells[machine.cells.batch == 1]
        cells = pd.concat([first.assign(batch=2**power) for power in range(9)])
        machines.append(replace(machine, cells=cells))
    chart = drawn(utilisation.models_on_roof, replace(tiny(), machines=tuple(machines)))
    assert titles(chart) == [
        f"{device}, {what}"
        for what in ("batch size 1", "batch size 256", "families from batch size 1 to 256")
        for device in ("CPU", "GPU")
    ]
    picture = ElementTree.fromstring(vl_convert.vegalite_to_svg(chart))
    assert float(picture.attrib["height"]) < theme.PAGE_HEIGHT


def texts(chart):
    """The titles of the panels, those over a line that says who timed without it."""
    return [title["text"] if isinstance(title, dict) else title for title in titles(chart)]


def marks(panel):
    return [layer["mark"] for layer in panel["layer"] if layer.get("mark", {}).get("type") == "point"]


def test_where_no_gpu_was_measured_one_that_others_timed_stands_beside_the_first_panel():
    chart = drawn(utilisation.models_on_roof, timed())
    assert texts(chart) == [
        "CPU, batch size 1", "Bead 2, batch size 4", "CPU, batch size 8", "CPU, families from batch size 1 to 8",
    ]  # fmt: skip
    theirs = chart["concat"][1]
    assert theirs["title"]["subtitle"] == "timed by others (lamikr_benchmark)"
    assert "on which others (lamikr_benchmark) timed 2" in chart["description"]
    (squares,) = marks(theirs)
    assert (squares["shape"], squares["filled"]) == ("square", False)
    assert all(mark["filled"] for at in (0, 2) for mark in marks(chart["concat"][at]))
    points = on("Bead 2", chart, "model", "rate")
    assert (points["lean", 4]["x"], points["lean", 4]["rate"]) == (pytest.approx(400 / 28, rel=1e-4), 4e12)
    assert plain(points["broad", 4]["of attainable"]) == "50.0 %"
    corners = roofs(chart)["datasheet"]
    assert max(rate for _, rate, _ in corners) == 1e13
    assert all(printed for _, _, printed in corners)


def test_a_gpu_that_was_measured_takes_the_place_of_the_one_that_others_timed():
    own = replace(timed(), machines=tiny().machines)
    for figure in (utilisation.models_on_roof, utilisation.attained):
        chart = drawn(figure, own)
        assert titles(chart) == titles(drawn(figure, tiny()))
        assert "others" not in chart["description"]


def test_shares_on_the_gpu_that_others_timed():
    chart = drawn(utilisation.attained, timed())
    assert texts(chart) == ["CPU, fp32", "Bead 2, fp32, batch size 4"]
    shares = {cell: row["share"] for cell, row in on("Bead 2", chart, "share", "model").items()}
    assert shares == {("lean", 4): pytest.approx(0.4), ("broad", 4): pytest.approx(0.5)}
    (squares,) = marks(chart["concat"][1])
    assert (squares["shape"], squares["filled"]) == ("square", False)
    assert "lamikr_benchmark" in chart["description"]


def test_with_a_panel_of_others_many_batch_sizes_still_fit_on_a_page():
    paper = timed()
    (cpu,) = paper.machines
    first = cpu.cells[cpu.cells.batch == 1]
    cells = pd.concat([first.assign(batch=2**power) for power in range(9)])
    chart = drawn(utilisation.models_on_roof, replace(paper, machines=(replace(cpu, cells=cells),)))
    assert len(titles(chart)) == 4
    picture = ElementTree.fromstring(vl_convert.vegalite_to_svg(chart))
    assert float(picture.attrib["height"]) < theme.PAGE_HEIGHT


def test_the_overview_shows_every_device_that_was_measured():
    chart = drawn(utilisation.overview, tiny())
    # Of batch sizes 1 and 8 the CPU's middle one is the upper; the GPU ran at 1 alone
    assert titles(chart) == ["Example CPU (4 cores), fp32, batch size 8", "Example GPU, fp32, batch size 1"]
    assert "deep comes nearest, with 130 % of the attainable rate" in plain(chart["description"])


def test_a_device_alone_stands_beside_one_that_others_timed():
    alone = replace(timed_elsewhere(), machines=(timed_elsewhere().machine("cpu"),))
    chart = drawn(utilisation.overview, alone)
    first, second = titles(chart)
    assert first == "Example CPU (4 cores), fp32, batch size 8"
    assert plain(second) == "Bead 2, fp16, as published"
    assert "timm:oak11 has most of the peak, 102 %" in plain(chart["description"])
    assert titles(drawn(utilisation.overview, only("cpu"))) == [first]


def test_an_overview_without_a_roof_says_what_measures_it():
    bare = replace(tiny().machine("cpu"), roofs=tiny().machine("cpu").roofs[:0])
    assert "--sections roofs" in utilisation.overview(replace(tiny(), machines=(bare,)))


def test_an_overview_of_cells_on_one_machine_and_a_roof_on_another_names_the_roof_that_is_missing():
    cpu, gpu = tiny().machine("cpu"), tiny().machine("gpu")
    apart = (replace(cpu, cells=cpu.cells[:0]), replace(gpu, roofs=gpu.roofs[:0]))
    assert "--device cuda --sections roofs" in utilisation.overview(replace(tiny(), machines=apart))
