from dataclasses import replace

import pandas as pd
import pytest
from helpers.profiled_papers import profiled

from report.analysis import remedies


def largest(machine):
    rows = remedies.largest(profiled(), machine)
    return {(row.model, row.batch): (row.term, row.share, row.remedy) for row in rows.itertuples()}


def test_remedies():
    assert largest(profiled().machine("cpu")) == {
        # 1.12 of 4 ms; for each input 1.12 ms, at batch size 8 only 3.8 / 8
        ("lean", 1): ("framework", pytest.approx(0.28), "larger batch"),
        # The fastest roof is fp32's.
        ("lean", 8): ("model bound", pytest.approx(0.5), "nothing left to gain"),
        ("deep", 1): ("model bound", pytest.approx(0.5), "nothing left to gain"),
    }
    assert largest(profiled().machine("gpu")) == {("lean", 1): ("framework", pytest.approx(0.9), "fusion")}


def test_a_faster_precision():
    cpu = profiled().machine("cpu")
    faster = cpu.roofs[cpu.roofs.precision == "fp32"].assign(precision="bf16", peak_flop_per_s=400e9)
    found = largest(replace(cpu, roofs=pd.concat([cpu.roofs, faster])))
    assert found["deep", 1][2] == "lower precision"


@pytest.mark.parametrize(
    ("operator", "remedy"),
    [
        ("conv2d", "other layout"),
        ("batch_norm", "fusion"),
        ("linear", "nothing left to gain"),
        ("scaled_dot_product_attention", "fusion"),
    ],
)
def test_an_operator_that_takes_most(operator, remedy):
    # All operators but one take nothing, that one 95 ms of deep's 100.
    cpu = profiled().machine("cpu")
    times = cpu.operators[cpu.operators.model == "deep"].assign(time_s=0.0, path=None)
    times.loc[times.index[0], ["operator", "time_s"]] = operator, 0.2
    found = remedies.largest(profiled(), replace(cpu, operators=times))
    (deep,) = found[found.model == "deep"].itertuples()
    assert deep.remedy == remedy


@pytest.mark.parametrize(("system_s", "remedy"), [(0.05, "other layout"), (0.1, "kept memory")])
def test_memory_that_the_system_gives_again_and_again(system_s, remedy):
    # All operators but one take nothing, that one 150 ms where the roof allows 49: 101 % of a latency of 100 ms. Of
    # two threads in a plain call of 98.2 ms, 50 ms are 25 %, less than half of that; 100 ms are 51 %, more than half.
    cpu = profiled().machine("cpu")
    times = cpu.operators[cpu.operators.model == "deep"].assign(time_s=0.0, path=None)
    times.loc[times.index[0], ["operator", "time_s"]] = "conv2d", 0.15
    profiles = cpu.profiles.assign(system_s=system_s)
    found = remedies.largest(profiled(), replace(cpu, operators=times, profiles=profiles))
    (deep,) = found[found.model == "deep"].itertuples()
    assert (deep.term, deep.remedy) == ("convolution", remedy)


def test_a_residual_that_is_largest_is_measured_again():
    cpu = profiled().machine("cpu")
    found = largest(replace(cpu, profiles=cpu.profiles.assign(plain_s=0.0)))
    assert found["lean", 1] == ("residual", pytest.approx(1), "measure again")
