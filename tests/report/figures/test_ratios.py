from helpers.charts import drawn, rows
from helpers.papers import tiny
from helpers.sentences import plain
from helpers.training_papers import trained

from report.figures import ratios


def test_measured_and_counted():
    chart = drawn(ratios.measured_and_counted, trained())
    (lean,) = [
        row for row in rows(chart, "ratio", "counted") if row["model"] == "lean" and row["forward"].startswith("10")
    ]
    assert (lean["ratio"], lean["low"], lean["high"], lean["counted"]) == (2.4, 2.4, 2.4, 1.9)
    assert (plain(lean["forward"]), plain(lean["backward"])) == ("10.0 ms", "24.0 ms")
    shares = {(row["model"], row["pass"], row["share"]): plain(row["achieved"]) for row in rows(chart, "of peak")}
    # 800 MFLOP in 10 ms of 100 GFLOP/s; 1520 in 24 ms; 800 in 1 ms of 8 TFLOP/s
    assert shares["lean", "forward", 0.8] == "80.0 GFLOP/s"
    assert shares["lean", "backward", 0.6333] == "63.3 GFLOP/s"
    assert shares["lean", "forward", 0.1] == "800 GFLOP/s"


def test_the_highest_ratio_comes_first():
    specification = drawn(ratios.measured_and_counted, trained(gpu=False))
    (panel, rates) = specification["concat"]
    assert panel["title"] == "CPU, batch size 8"
    assert panel["layer"][0]["encoding"]["y"]["sort"] == ["deep", "lean", "broad"]
    low, high = panel["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert low < 1.9 < 2.5 < high
    assert not rates["layer"][0]["encoding"]["y"]["axis"]["labels"]


def test_a_device_has_rows_for_its_own_models():
    panels = drawn(ratios.measured_and_counted, trained())["concat"]
    domains = {
        panel["title"].partition(",")[0]: set(panel["layer"][0]["encoding"]["y"]["scale"]["domain"])
        for panel in panels if "title" in panel
    }  # fmt: skip
    assert domains == {"CPU": {"deep", "lean", "broad"}, "GPU": {"lean"}}


def test_the_description_tells_the_extremes():
    specification = drawn(ratios.measured_and_counted, trained())
    assert specification["name"] == "training-ratios"
    assert "from 1.70 (lean) to 2.50 (deep)" in specification["description"]


def test_without_steps_it_is_a_sentence():
    assert "--device cpu --sections workload training" in ratios.measured_and_counted(tiny())
