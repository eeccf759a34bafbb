"""The appendix on measuring: the interval that rounds leave, by hand, and cells with and without one."""

from dataclasses import replace
from math import exp

import pandas as pd
import pytest
from helpers.papers import empty, tiny

from measure.domain.words import MOST_ROUNDS, ROUNDS, TARGET
from report import facts
from report.chapters.method import figures
from report.chapters.method.facts import expected
from report.display import Missing

CPU = tiny().machine("cpu")


def paper_of(*cells):
    """A machine with cells of these rounds, half widths over the latency, and scatters."""
    rows = [
        {"status": "ok", "rounds": rounds, "scatter": scatter, "latency_s": 1.0,
         "latency_low_s": 1 - width, "latency_high_s": 1 + width}
        for rounds, width, scatter in cells
    ]  # fmt: skip
    return replace(tiny(), machines=(replace(CPU, cells=pd.DataFrame(rows)),))


def test_the_interval_that_rounds_leave():
    # Student's t at 96 % (tables): 4.849 with 2 degrees of freedom, 2.449 with 8. A scatter of 0.084 leaves
    # exp(4.849 * 0.084 / sqrt(3)) - 1 = exp(0.2352) - 1 = 0.265 after 3 rounds, exp(0.0686) - 1 = 0.071 after 9.
    assert expected(0.084, 3) == pytest.approx(0.265, abs=0.0005)
    assert expected(0.084, 9) == pytest.approx(0.071, abs=0.0005)
    assert expected(0.0, 5) == 0


def test_cells_of_a_machine():
    # Seven cells: half widths 2, 4, 10 ... %, of which two meet 5 %; the median scatter is 8 %
    widths, scatters = (0.02, 0.04, 0.1, 0.2, 0.3, 0.4, 0.5), (0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.14)
    found = facts.of_chapter("method", paper_of(*((3, *pair) for pair in zip(widths, scatters, strict=True))))
    assert (found.cells.cells.number, found.cells.within.number) == (7, 2)
    assert found.cells.half_width.number == pytest.approx(0.2)
    assert found.cells.scatter.number == pytest.approx(0.08)
    assert found.rounds.least.number == pytest.approx(exp(4.8487 * 0.08 / 3**0.5) - 1, rel=1e-4)


def test_a_round_alone_has_no_scatter():
    found = facts.of_chapter("method", paper_of((1, 0.2, float("nan"))))
    assert found.cells.scatter.is_missing
    assert found.rounds.least.is_missing
    with pytest.raises(Missing):
        figures.intervals.__wrapped__(paper_of((1, 0.2, float("nan"))))


def test_bars_hold_eight_in_ten_cells():
    # Eleven widths 0.10, 0.11 ... 0.20: the median is 0.15, quantiles 0.11 and 0.19
    chart = figures.intervals.__wrapped__(paper_of(*((3, 0.1 + step / 100, 0.08) for step in range(11))))
    (bar,) = (row for rows in chart["datasets"].values() for row in rows if row.get("cells") == 11)
    assert (bar["low"], bar["median"], bar["high"]) == pytest.approx((0.11, 0.15, 0.19))


def test_the_protocol_without_any_machine():
    found = facts.of_chapter("method", empty())
    assert (found.protocol.rounds.number, found.protocol.most_rounds.number) == (ROUNDS, MOST_ROUNDS)
    assert (found.protocol.target.number, found.protocol.fewest.number) == (TARGET, 6)
    assert found.cells.machine.is_missing
    with pytest.raises(Missing, match="measure"):
        figures.intervals.__wrapped__(empty())
