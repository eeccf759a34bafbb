"""The appendix on measuring, from the rules of the world: rounds of 0.99, 1 and 1.01 of a latency."""

from dataclasses import replace
from math import exp

import pytest
from helpers.world import nothing, numbers, rows_of, world, wrong

from measure.domain.words import MOST_ROUNDS, ROUNDS, TARGET
from report.chapters.method import figures
from report.chapters.method.facts import expected
from report.facts import of_chapter


def test_the_interval_that_rounds_leave():
    # Student's t at 96 % (tables): 4.849 with 2 degrees of freedom, 2.449 with 8. A scatter of 0.084 leaves
    # exp(4.849 * 0.084 / sqrt(3)) - 1 = exp(0.2352) - 1 = 0.265 after 3 rounds, exp(0.0686) - 1 = 0.071 after 9.
    assert expected(0.084, 3) == pytest.approx(0.265, abs=0.0005)
    assert expected(0.084, 9) == pytest.approx(0.071, abs=0.0005)
    assert expected(0.0, 5) == 0


def test_facts_by_hand():
    # 8 cells of lean, broad, deep and tokens, 24 of the six; lean with 3.8 to 5.0 of 4 ms is 15 % wide, three samples
    # of broad have no interval. The standard deviation of log 0.99, 0 and log 1.01 is 0.0100
    scatter = 0.01000038
    expected_facts = {
        "protocol.rounds": ROUNDS, "protocol.most_rounds": MOST_ROUNDS, "protocol.target": TARGET, "protocol.fewest": 6,
        "cells.least": 1, "cells.most": 3, "gpus.least": 1, "gpus.most": 3,  # lean and deep once, the six three times
        "gpus.names": "Bead 2",
        "cells.cells": 31, "cells.within": 30, "cells.scatter": scatter,
        "rounds.least": exp(4.8487 * scatter / 3**0.5) - 1, "rounds.most": exp(2.4490 * scatter / 9**0.5) - 1,
    }  # fmt: skip
    found = numbers("method", world())
    assert found["gpus.names"] == expected_facts.pop("gpus.names")
    assert {key: found[key] for key in expected_facts} == pytest.approx(expected_facts, rel=1e-4)


def test_a_round_alone_has_no_scatter():
    cpu = world().machine("cpu")
    alone = replace(world(), machines=(replace(cpu, cells=cpu.cells[cpu.cells.rounds == 1]),))
    assert wrong("method", alone, {"cells.cells": 7, "cells.scatter": None, "rounds.least": None}) == {}
    assert of_chapter("method", alone).is_single
    assert of_chapter("method", world()).has_intervals
    assert of_chapter("method", world()).has_gpus
    assert not of_chapter("method", alone).has_gpus
    few = replace(world(), machines=(replace(cpu, cells=cpu.cells[cpu.cells.rounds == 3].iloc[:5]),))
    assert wrong("method", few, {"cells.most": 3, "cells.cells": None, "cells.half_width": None}) == {}
    assert not of_chapter("method", few).has_intervals
    assert not of_chapter("method", world()).is_single
    assert numbers("method", nothing())["cells.machine"] is None


def test_the_figure_has_widths_by_rounds_and_what_would_be_expected():
    chart = figures.intervals.__wrapped__(world())
    width = exp(4.8487 * 0.01000038 / 3**0.5) - 1
    ((rounds, cells, *widths),) = rows_of(chart, "rounds", "cells", "low", "median", "high")
    assert (rounds, cells) == (3, 24)  # of the six networks; the others have one round
    assert widths == pytest.approx([0.028] * 3, abs=0.0005)  # all alike: of t, 4.85 * 0.01 / sqrt(3)
    curve = dict(rows_of(chart, "rounds", "width"))
    assert curve[3] == pytest.approx(width, rel=1e-3)
    assert [*curve] == [*range(2, MOST_ROUNDS + 1)]
