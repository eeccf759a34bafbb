from dataclasses import replace

import pandas as pd
import pytest
from helpers.sentences import plain
from helpers.training_papers import trained

from report.analysis import ratio_reasons


def explained(kind, model, paper=None):
    paper = paper or trained()
    rows = ratio_reasons.explained(paper, paper.machine(kind))
    (row,) = rows[rows.model == model].itertuples()
    return row.agrees, row.cause, plain(row.reason)


@pytest.mark.parametrize(
    ("measured", "low", "high", "agrees"),
    [
        (2.05, 2.04, 2.06, True),  # off by 2.5 %
        (2.2, 2.1, 2.3, False),
        (2.2, 1.9, 2.5, True),  # its interval holds 2
        (1.8, None, None, False),
    ],
)
def test_agree(measured, low, high, agrees):
    rows = pd.DataFrame(
        {"time_ratio": [measured], "time_ratio_low": [low], "time_ratio_high": [high], "flop_ratio": [2.0]}, dtype=float
    )
    assert ratio_reasons.agree(rows).tolist() == [agrees]


def test_a_kind_without_products_waits_for_memory():
    # 24 - 1.9 * 10 = 5.0 ms: convolution 12 - 11.4, activation 4 - 1.9, linear 5 - 3.8, outside 3 - 1.9.
    # The activation moves 80 of 264 MB backward.
    assert explained("cpu", "lean") == (False, "activation", "activation: memory-bound, 30 % of the bytes")


def test_a_kind_with_products_runs_other_kernels():
    # 1000 - 1.98 * 400 = 208 ms, of which the convolution's 900 - 712.8. It does 39.2 GFLOP in 360 ms forward and 77.6
    # in 900 ms backward: 108.9 and 86.2 GFLOP/s.
    assert explained("cpu", "deep") == (False, "convolution", "convolution: 79 % of its forward FLOP/s")


def test_what_agrees_needs_no_reason():
    assert explained("cpu", "broad") == (True, "", "none")  # 98 over 50 ms, 8032 over 4080 MFLOP


def test_what_differs_within_its_interval_may_not_differ():
    cpu = trained().machine("cpu")
    wide = replace(cpu, steps=cpu.steps.assign(time_ratio_low=1.5, time_ratio_high=3.0))
    assert explained("cpu", "lean", replace(trained(), machines=(wide,))) == (True, "", "within the interval")


def test_a_ratio_that_is_too_low_is_explained_by_the_same_rule():
    # 1.7 - 1.9 * 1 = -0.2 ms: outside the layers 0.4 - 0.76, the others above 0
    assert explained("gpu", "lean") == (False, "outside the layers", "outside the layers (loss, framework)")


def test_where_less_time_is_taken_the_bytes_say_how_little_grows():
    # 1.7 ms: with 0.95 ms in the products and 0.35 outside, of 1.9 * 0.5 and 1.9 * 0.1, the activation's 0.4 are too
    # few for 1.9 * 0.4. It moves 80 MB backward and 40 MB forward.
    gpu = trained().machine("gpu")
    times = dict(zip(zip(gpu.operators.stage, gpu.operators.path, strict=True), gpu.operators.time_s, strict=True))
    times |= {("forward", "act"): 0.4e-3, ("backward", "act"): 0.4e-3, ("backward", "features"): 0.57e-3}
    times |= {("backward", "head"): 0.38e-3}
    operators = gpu.operators.assign(
        time_s=[times[key] for key in zip(gpu.operators.stage, gpu.operators.path, strict=True)]
    )
    paper = replace(trained(), machines=(replace(gpu, operators=operators),))
    assert explained("gpu", "lean", paper)[1:] == ("activation", "activation: memory-bound, bytes grow × 2.0")


def test_without_times_of_layers_bytes_speak_for_a_ratio_that_is_too_high():
    machines = [replace(each, profiles=each.profiles.iloc[:0]) for each in trained().machines]
    paper = replace(trained(), machines=tuple(machines))
    assert explained("cpu", "lean", paper)[1:] == ("activation", "activation: memory-bound, 30 % of the bytes")
    assert explained("gpu", "lean", paper) == (False, "", "")
