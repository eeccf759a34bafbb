from dataclasses import replace

import pytest
from helpers.charts import drawn, titles
from helpers.papers import tiny
from helpers.sentences import plain
from helpers.training_papers import trained

from report.figures import layer_shares


def parts(chart, title):
    """The bars of a panel by model and part."""
    (panel,) = [panel for panel in chart["concat"] if panel["title"] == title]
    return {(row["model"], row["part"]): row for row in chart["datasets"][panel["data"]["name"]]}


def test_stacked():
    chart = drawn(layer_shares.stacked, trained(gpu=False))
    assert chart["name"] == "training-layers"
    assert titles(chart) == [
        "time, forward", "FLOP, forward", "memory, forward", "time, backward", "FLOP, backward", "memory, backward",
    ]  # fmt: skip
    found = parts(chart, "time, backward")
    # 12, 4, 5 and 3 of 24 ms
    assert found["lean", "convolution"]["share"] == 0.5
    assert found["lean", "outside the layers"]["share"] == 0.125
    assert plain(found["lean", "activation"]["amount"]) == "4.00 ms"
    # deep's head does 2 % of 79200 + 800 MFLOP, its normalisation 1 %: drawn with the others
    assert parts(chart, "FLOP, backward")["deep", "other"]["share"] == pytest.approx(0.01)


def test_a_panel_of_time_for_each_device():
    chart = drawn(layer_shares.stacked, trained())
    assert titles(chart)[:4] == ["time, forward, CPU", "time, forward, GPU", "FLOP, forward", "memory, forward"]
    # 0.4 of 1 ms is outside the layers
    assert parts(chart, "time, forward, GPU")["lean", "outside the layers"]["share"] == pytest.approx(0.4)


def test_a_remainder_below_zero_is_drawn():
    cpu = trained(gpu=False).machine("cpu")
    slower = replace(cpu, operators=cpu.operators.assign(time_s=2 * cpu.operators.time_s))
    chart = drawn(layer_shares.stacked, replace(trained(gpu=False), machines=(slower,)))
    # Of lean's 10 ms the layers took 18, so the remainder is -8
    assert parts(chart, "time, forward")["lean", "outside the layers"]["share"] == pytest.approx(-0.8)
    assert plain(parts(chart, "time, forward")["lean", "outside the layers"]["amount"]) == "−8.00 ms"
    (panel, *_) = chart["concat"]
    low, high = panel["encoding"]["x"]["scale"]["domain"]
    assert low < -0.8
    assert high >= 1.9  # deep: 784 of 400 ms


def test_without_steps_it_is_a_sentence():
    assert "--device cpu --sections workload training" in layer_shares.stacked(tiny())
