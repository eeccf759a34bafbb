from math import exp, log
from pathlib import Path

import pytest
from helpers.comparing import CELL, ENVIRONMENT

from measure.cache.records import Cell
from measure.domain.comparison import Measured, Side, repeats
from measure.verbs.compare import Pair, common_cells, means, pairs

OTHER, THIRD = Cell("vgg11", 1, "fp32", "inference", "eager"), Cell("vgg11", 8, "fp32", "inference", "eager")
NOISE = (0.99, 1.0, 1.01)


def side(name, **latencies):
    """A side whose cells ran in three rounds about these latencies (s); None: without a result."""
    cells = {"one": CELL, "two": OTHER, "three": THIRD}
    measured = {}
    for key, latency in latencies.items():
        rounds = [[latency * noise * within for within in NOISE] for noise in NOISE] if latency else None
        measured[cells[key]] = Measured("ok" if rounds else "oom", None, repeats(rounds) if rounds else None)
    return Side(Path(name), ENVIRONMENT, measured, {})


def test_cells_that_all_have_count_and_no_others():
    sides = [
        side("a", one=1.0, two=1.0, three=1.0),
        side("b", two=1.0, one=1.0, three=None),
        side("c", two=1.0, one=1.0),
    ]
    assert common_cells(sides) == [CELL, OTHER]


def test_inputs_of_another_shape_are_another_cell():
    a, b = side("a", one=1.0), side("b", one=1.0)
    for each, shape in ((a, "3x224x224"), (b, "3x299x299")):
        each.cells[CELL] = Measured("ok", None, each.cells[CELL].repeats, input_shape=shape)
    assert common_cells([a, b]) == []


def test_each_is_compared_with_each_before_it():
    # 2 and 4 times as long: sqrt(2 * 4) in the geometric mean; of the last pair 2 and 1 times: sqrt(2)
    sides = [side("a", one=1.0, two=2.0, three=9.0), side("b", one=2.0, two=8.0), side("c", one=4.0, two=8.0)]
    found = pairs(sides, [CELL, OTHER])
    assert [(pair.a, pair.b) for pair in found] == [(0, 1), (0, 2), (1, 2)]
    assert [pair.ratio for pair in found] == pytest.approx([exp((log(2) + log(4)) / 2), 4.0, exp(log(2) / 2)])
    assert [(pair.slower, pair.faster, pair.within_error) for pair in found] == [(2, 0, 0), (2, 0, 0), (1, 0, 1)]


def test_the_table_of_means_is_its_own_inverse():
    found = means(3, [Pair(0, 1, 2.0, 0, 0, 0), Pair(0, 2, 4.0, 0, 0, 0), Pair(1, 2, 2.0, 0, 0, 0)])
    assert found == [[1.0, 0.5, 0.25], [2.0, 1.0, 0.5], [4.0, 2.0, 1.0]]
