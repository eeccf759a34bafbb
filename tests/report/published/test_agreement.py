"""When two figures agree, by hand: one tolerance, and what intervals decide."""

import pytest

from measure.domain.values import SPACE
from report.analysis.effect import Effect
from report.published.agreement import Measured, counted, latency, near, of_effect, together


@pytest.mark.parametrize(
    ("printed", "rounding", "value", "agrees"),
    [
        (10.1, 0, 10.0, True),  # 1 % to the last digit, though 10.1 - 10 is more in binary
        (1.01, 0.005, 1.0, True),
        (10.11, 0, 10.0, False),
        (0.09, 0.005, 0.0855, True),  # 5 % off, and within its rounding
    ],
)
def test_one_tolerance(printed, rounding, value, agrees):
    assert near(printed, rounding, value) is agrees


def test_the_interval_of_a_quotient():
    # 8 (4 to 16) over 2 (1 to 4): both are uncertain by a factor of 2, so the quotient is by 2 ** sqrt(2) = 2.665
    found = Measured(8, (4, 16)).over(Measured(2, (1, 4)))
    assert found.value == 4
    assert found.interval == (pytest.approx(4 / 2.665, rel=1e-3), pytest.approx(4 * 2.665, rel=1e-3))
    # 6 (3 to 6) over 2 (2 to 4): downwards both are uncertain by 2, upwards neither
    assert Measured(6, (3, 6)).over(Measured(2, (2, 4))).interval == (pytest.approx(3 / 2.665, rel=1e-3), 3)
    # of what is counted the interval is the divisor's, turned round
    assert counted(1).over(Measured(2, (1.6, 2.5))).interval == (pytest.approx(0.4), pytest.approx(0.625))
    assert Measured(8, None).over(Measured(2, (1, 4))) == Measured(4, None)
    assert counted(0).over(Measured(2, (1, 4))) == Measured(0, None)


def test_what_an_interval_leaves_open_is_undecided():
    # VGG16 61 % (55 to 66) of the peak, another 62 % (58 to 67)
    vgg, other = Measured(0.61, (0.55, 0.66)), Measured(0.62, (0.58, 0.67))
    assert vgg.over(other).above(1) is None
    assert vgg.over(Measured(0.4, (0.38, 0.42))).above(1) is True
    assert Measured(0.4, (0.38, 0.42)).over(vgg).above(1) is False
    # Wav2Vec2's throughput: 8.04 (4.9 to 11.2), then 7.63
    assert Measured(7.63, (7.3, 8.0)).over(Measured(8.04, (4.9, 11.2))).above(1) is None
    assert Measured(2, None).above(1) is None


def test_a_range_is_met_where_the_interval_meets_it():
    # 60 to 70 %: 70.03 % is within the tolerance, 72 % by its interval
    assert Measured(0.7003, None).meets(0.6, 0.7) is True
    assert Measured(0.72, (0.69, 0.75)).meets(0.6, 0.7) is True
    assert Measured(0.75, (0.72, 0.78)).meets(0.6, 0.7) is False
    assert Measured(0.55, (0.52, 0.59)).meets(0.6, 0.7) is False  # 0.6 - 0.006 = 0.594
    assert Measured(0.75, None).meets(0.6, 0.7) is None  # one round of few samples refutes nothing


def test_a_printed_figure_beside_a_measured_one():
    assert Measured(2.01, None).is_printed(2.0, 0) is True
    assert Measured(2.1, (2.0, 2.2)).is_printed(2.0, 0.005) is None
    assert Measured(2.1, (2.05, 2.2)).is_printed(2.0, 0.005) is False  # 2.0 + 1 % of 2.1 = 2.021
    assert Measured(2.1, None).is_printed(1.0, 0) is None


def test_parts_that_hold_together():
    assert together([True, True]) is True
    assert together([True, None]) is None
    assert together([None, False]) is False


def test_how_it_is_told():
    assert str(Measured(2.1, (2.0, 2.2))) == "2.10 (2.00 to 2.20)"
    assert str(counted(25.3125)) == "25.3"
    assert Measured(0.61, (0.55, 0.66)).share == f"61{SPACE}% (55{SPACE}to{SPACE}66{SPACE}%)"
    assert Measured(0.61, None).share == f"61{SPACE}%"
    assert of_effect(Effect(2.0, lambda _: (1.5, 3.0), 6)) == Measured(2.0, (1.5, 3.0))


def test_the_time_of_a_stage_without_an_interval():
    row = {"forward_s": 2.0, "forward_low_s": float("nan"), "forward_high_s": float("nan"), "latency_s": 3.0}
    assert latency(row, "forward") == Measured(2.0, None)
    assert latency(row | {"latency_low_s": 2.5, "latency_high_s": 4.0}) == Measured(3.0, (2.5, 4.0))
