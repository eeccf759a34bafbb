from dataclasses import replace

from helpers.papers import many
from helpers.sentences import plain

from report.findings import exceptions


def only(kind):
    return replace(many(), machines=(many().machine(kind),))


def test_farthest():
    text = plain(exceptions.farthest(only("gpu")))
    # c is five times and f a fifth of a straight line, which they bend: 2 ** (log2(5) - 1.5 * 2 * 1.5 * log2(5) / 42)
    assert (
        "On the Example GPU at batch size 1 the slowest model for its FLOP is c, at 4.21 times the latency of the line "
        "(25 % of FLOP in depthwise convolution, 3 operator calls, 28.0 MB of parameters and 100 FLOP/B of traffic), "
        "the quickest f, at 0.238 times (0 % of FLOP" in text
    )
    # Of eight models the middle: parameters of 4 and 5 MB times 4; 4 or 5 calls
    assert "The median model has 0 % of FLOP in depthwise convolution, 4 operator calls, 18.0 MB of" in text
    assert "On the Example GPU at batch size 16 the slowest" in text
    assert "was not counted" not in text


def test_what_goes_with_the_distance():
    gpu = many().machine("gpu")
    k = gpu.cells.model.map("abcdefgh".index)
    # Slower with the parameters, whose order is 8 1 7 2 6 3 5 4, beside a line through FLOP
    by_parameters = 0.001 * 2.0 ** (k / 2) * (gpu.cells.parameter_count / 1e6) ** 3
    machine = replace(gpu, cells=gpu.cells.assign(latency_s=by_parameters))
    text = plain(exceptions.farthest(replace(many(), machines=(machine,))))
    assert "the distance from the line goes most with the bytes of parameters (ρ = " in text
    straight = replace(
        gpu, cells=gpu.cells.assign(latency_s=0.001 * 2.0**k * k.map(dict(enumerate([1, 2, 1, 2, 2, 1, 2, 1]))))
    )
    text = exceptions.farthest(replace(many(), machines=(straight,)))
    assert "With none of these does the distance from the line go" in text


def test_operators_that_were_not_counted():
    paper = replace(only("gpu"), operators=many().operators.iloc[:0])
    text = plain(exceptions.farthest(paper))
    assert "operator call" not in text
    assert "How many operators a model calls was not counted; python -m measure --sections workload" in text


def test_layers_that_were_not_counted():
    text = exceptions.farthest(replace(only("gpu"), layers=many().layers.iloc[:0]))
    assert "depthwise" not in text
