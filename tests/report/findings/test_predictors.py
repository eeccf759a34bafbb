from dataclasses import replace

import pytest
from helpers.papers import many, tiny
from helpers.sentences import plain

from report import findings
from report.analysis.available import Missing
from report.findings import predictors


def only(kind, **columns):
    """The paper of many models with one machine, of whose cells some columns are others."""
    machine = many().machine(kind)
    return replace(many(), machines=(replace(machine, cells=machine.cells.assign(**columns)),))


def test_estimates():
    text = plain(predictors.estimates(many()))
    # a and b change places at 16: 1 - 6 * 2 / 336
    assert "On the Example CPU (4 cores) FLOP order the models by latency closely (ρ = 0.96 (" in text
    assert " at batch size 16, where it is lowest). Twice the FLOP take 2.00 times as long at batch size 1 (" in text
    assert "(exponent 1.00 (" in text
    # Ranks 8 1 7 2 6 3 5 4 against 1 to 8: 1 - 6 * 100 / 504
    assert "parameters order the models by latency hardly (ρ = −0.19 (" in text
    # On the GPU: 1 - 6 * 34 / 504; exponent 0.334 of the hand-made line, 2 ** 0.334
    assert "On the Example GPU FLOP order the models by latency loosely (ρ = 0.60 (" in text
    assert "Twice the FLOP take 1.26 times as long at batch size 1 (exponent 0.33 (" in text


def test_half_of_the_models_are_farther_off():
    cells = many().machine("cpu").cells
    # Alternately half and twice as slow: half of |residuals| lie near a factor of two, whatever the slope.
    shaken = cells.latency_s * cells.model.map(dict(zip("abcdefgh", [2, 0.5, 0.5, 2, 2, 0.5, 0.5, 2], strict=True)))
    text = plain(predictors.estimates(only("cpu", latency_s=shaken.where(cells.batch == 4, cells.latency_s))))
    assert "by more than a factor of 2.00 at batch size 4, where that is most" in text


def test_the_better_of_the_two_is_said_where_it_is_settled():
    cells = many().machine("cpu").cells
    opposed = 1e20 / cells.forward_flop
    text = predictors.estimates(only("cpu", parameter_count=opposed))
    assert text.endswith("FLOP order them better than parameters at batch size 1, 4 and 16.")
    text = predictors.estimates(only("cpu", parameter_count=cells.forward_flop, forward_flop=opposed))
    assert text.endswith("Parameters order them better than FLOP at batch size 1, 4 and 16.")
    mixed = cells.forward_flop.where(cells.batch == 4, opposed)
    text = predictors.estimates(only("cpu", parameter_count=mixed))
    assert text.endswith(
        "FLOP order them better than parameters at batch size 1 and 16; which of the two is better cannot be told from "
        "chance at batch size 4."
    )


@pytest.mark.parametrize(("at_least", "word"), predictors.GRADES)
def test_grades(at_least, word):
    assert predictors.graded(at_least) == word


def test_too_few_models():
    text = plain(predictors.estimates(tiny()))
    assert "On the Example GPU too few models were measured at the same batch size" in text
    assert "(3 are needed); `python -m measure --device cuda" in text
    text = predictors.best(replace(tiny(), machines=(tiny().machine("gpu"),)))
    assert isinstance(text, Missing)


def test_best():
    text = plain(predictors.best(only("gpu")))
    # At each batch size FLOP and activations have the same order.
    assert text.startswith(
        "On the Example GPU the models are ordered best by FLOP over all cells, per input and at batch size 1, 4 and "
        "16 (ρ = "
    )
    assert text.endswith(" to 0.60), ahead of activations by no more than chance.")


def test_another_is_best_by_more_than_chance():
    cells = many().machine("cpu").cells
    worse = dict.fromkeys(("forward_flop", "activation_byte", "traffic_byte"), 1e20 / cells.forward_flop)
    text = plain(predictors.best(only("cpu", parameter_count=1e20 / cells.forward_flop, **worse)))
    assert "by roofline time over all cells, per input and at batch size 1, 4 and 16 (ρ = " in text
    assert " to 1.00)" in text
    assert text.endswith(", ahead of FLOP.")


def test_why_there_is_no_roofline_time():
    unknown = float("nan")
    text = predictors.best(only("cpu", operator_bound_s=unknown))
    assert "not among them: Their operators have not been counted; `python -m measure --sections workload" in text
    cpu = many().machine("cpu")
    bare = replace(cpu, roofs=cpu.roofs.iloc[:0], cells=cpu.cells.assign(operator_bound_s=unknown))
    text = plain(predictors.best(replace(many(), machines=(bare,))))
    assert "not among them: The fp32 roof of the Example CPU (4 cores) has not been measured" in text


def test_correlated():
    text = plain(predictors.correlated(many()))
    assert text.startswith("The matrices hold 24 cells of 8 models. Of ")
    # Two latencies, four groups of cells, six predictors
    assert "Of 48 coefficients of a latency with a predictor " in text
    assert "CPU latency is correlated with GPU latency: over all cells, per input " in text
    assert "at batch size 1 0.60 (" in text


def test_correlations_that_are_all_settled_or_few_that_are_not():
    cells = many().machine("cpu").cells
    text = plain(predictors.correlated(only("cpu", parameter_count=cells.forward_flop / cells.batch)))
    assert "All 20 coefficients of a latency with a predictor differ from zero." in text
    some = cells.forward_flop.where(cells.batch != 1, cells.parameter_count)
    text = plain(predictors.correlated(only("cpu", parameter_count=some)))
    assert " cannot be told apart from zero: " in text
    assert "CPU latency with parameters at batch size 1." in text


def test_with_one_device_it_says_that_there_is_one_latency():
    for device in ("cpu", "gpu"):
        text = predictors.correlated(only(device))
        assert text.endswith("There is one latency only, and so no row for another.")


def test_too_few_models_for_any_coefficient():
    text = plain(findings.predictors.correlated(replace(tiny(), machines=(tiny().machine("gpu"),))))
    assert "The matrices hold 2 cells of 2 models. Too few models were measured for a coefficient." in text
    # The CPU and the GPU of the tiny paper share two models.
    assert "CPU latency and GPU latency share too few models" in predictors.correlated(tiny())


def test_farthest():
    text = plain(predictors.farthest(only("gpu")))
    # c is five times and f a fifth of a straight line, which they bend: 2 ** (log2(5) - 1.5 * 2 * 1.5 * log2(5) / 42).
    # Of eight models the middle: 4 and 5 million parameters of 4 bytes; 160 and 267 FLOP/B
    assert (
        "On the Example GPU at batch size 1 the slowest model for its FLOP is c, at 4.21 times the latency of the line "
        "(25 % of FLOP in depthwise convolution against 0 % in the median model). The quickest is f, at 0.238 times ("
        in text
    )
    assert "On the Example GPU at batch size 16 the slowest" in text
    assert "was not counted" not in text


def test_what_goes_with_the_distance():
    gpu = many().machine("gpu")
    k = gpu.cells.model.map("abcdefgh".index)
    # Slower with the parameters, whose order is 8 1 7 2 6 3 5 4, beside a line through FLOP
    by_parameters = 0.001 * 2.0 ** (k / 2) * (gpu.cells.parameter_count / 1e6) ** 3
    machine = replace(gpu, cells=gpu.cells.assign(latency_s=by_parameters))
    text = plain(predictors.farthest(replace(many(), machines=(machine,))))
    assert "the distance from the line goes most with the bytes of parameters (ρ = " in text
    straight = replace(
        gpu, cells=gpu.cells.assign(latency_s=0.001 * 2.0**k * k.map(dict(enumerate([1, 2, 1, 2, 2, 1, 2, 1]))))
    )
    text = predictors.farthest(replace(many(), machines=(straight,)))
    assert "With none of these does the distance from the line go" in text


def test_operators_that_were_not_counted():
    paper = replace(only("gpu"), operators=many().operators.iloc[:0])
    text = plain(predictors.farthest(paper))
    assert "operator call" not in text
    assert "How many operators a model calls was not counted; `python -m measure --sections workload" in text


def test_layers_that_were_not_counted():
    text = predictors.farthest(replace(only("gpu"), layers=many().layers.iloc[:0]))
    assert "depthwise" not in text
