import pytest
from helpers.charts import drawn, rows, titles
from helpers.papers import tiny
from helpers.profiled_papers import profiled
from helpers.sentences import plain

from report.figures import waterfall


def parts(chart, batch, device="CPU"):
    """The bars of a panel by model and term, in shares."""
    (panel,) = [panel for panel in chart["concat"] if panel["title"] == f"{device}, batch size {batch}"]
    data = chart["datasets"][panel["layer"][0]["data"]["name"]]
    return {(row["model"], row["term"]): row["part"] for row in data}


def test_stacked():
    chart = drawn(waterfall.stacked, profiled())
    assert chart["name"] == "waterfall"
    assert titles(chart) == ["CPU, batch size 1", "CPU, batch size 8", "GPU, batch size 1"]
    # 8.0, 5.3, 0.308333, -2.166667, 0.2, 4.858333 and -0.5 of 16 ms
    assert parts(chart, 8) == pytest.approx(
        {
            ("lean", "model bound"): 0.5, ("lean", "operator by operator"): 0.33125, ("lean", "convolution"): 0.0192708,
            ("lean", "elementwise"): -0.1354167, ("lean", "matrix product"): 0.0125, ("lean", "framework"): 0.3036458,
            ("lean", "residual"): -0.03125,
        },
        rel=1e-3,
    )  # fmt: skip
    (bound,) = [row for row in rows(chart, "term", "time") if row["term"] == "model bound" and row["part"] == 0.5
                and row["model"] == "lean"]  # fmt: skip
    assert (plain(bound["time"]), plain(bound["latency"])) == ("8.00 ms", "16.0 ms")


def test_a_device_has_rows_for_its_own_models_with_their_names():
    chart = drawn(waterfall.stacked, profiled())
    cpu, _, gpu = (panel["layer"][0]["encoding"]["y"] for panel in chart["concat"])
    on_cpu, on_gpu = ({model for model, _ in parts(chart, 1, device)} for device in ("CPU", "GPU"))
    assert set(gpu["scale"]["domain"]) == on_gpu < on_cpu <= set(cpu["scale"]["domain"])
    assert cpu["axis"]["labels"]
    assert gpu["axis"]["labels"]


def test_small_groups_are_drawn_with_the_others():
    found = parts(drawn(waterfall.stacked, profiled()), 1, "GPU")
    # elementwise loses 5 us of 1 ms
    assert ("lean", "elementwise") not in found
    assert found["lean", "other"] == pytest.approx(0.005)
    assert sum(found.values()) == pytest.approx(1, abs=1e-3)


def test_the_axis_holds_negative_terms():
    (panel, *_) = drawn(waterfall.stacked, profiled())["concat"]
    # lean at batch size 8: -0.1354167 - 0.03125 to the left, so 1.1666667 to the right
    low, high = panel["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert (low, high) == pytest.approx((-0.1666667, 1.1666667), rel=1e-3)


def test_without_profiles_it_is_a_sentence():
    assert "`python -m measure --device cpu --sections workload operators" in waterfall.stacked(tiny())
