import random
from itertools import combinations

import pytest

from report.charts.labels import MARK, Box, place, spread, text_size

PANEL = Box(0, 0, 400, 300)


def crowd(seed, count):
    chance = random.Random(seed)
    return [(chance.uniform(10, 390), chance.uniform(10, 290), "name_" + "x" * (at % 9)) for at in range(count)]


@pytest.mark.parametrize("seed", range(8))
def test_labels_are_free_of_each_other_of_marks_and_of_the_edge(seed):
    points = crowd(seed, 30)
    marks = [Box(x - MARK, y - MARK, x + MARK, y + MARK) for x, y, _ in points]
    reserved = Box(100, 100, 200, 115)
    placed = place(points, PANEL, 9, (reserved,))
    assert len(placed) > 15
    for one, other in combinations(placed, 2):
        assert one.box.clear_of([other.box])
    for label in placed:
        assert label.box.inside(PANEL)
        assert label.box.clear_of([reserved, *marks])
        width, height = text_size(points[label.index][2], 9)
        assert label.box.right - label.box.left >= width
        assert label.box.bottom - label.box.top >= height - 1e-9


@pytest.mark.parametrize("seed", range(8))
def test_leaders_cross_no_label(seed):
    points = crowd(seed, 60)
    placed = place(points, PANEL, 9)
    leaders = [label for label in placed if label.leader_end]
    assert leaders
    for label in leaders:
        for other in placed:
            if other is not label:
                assert not other.box.crossed_by(points[label.index][:2], label.leader_end)


def test_a_point_without_a_name_keeps_names_away():
    (label,) = place([(200, 150, "alone"), (212, 150, "")], PANEL, 9)
    assert label.box.left > 212 + MARK or label.box.right < 200 or not 140 < label.center[1] < 160


def test_a_name_without_room_is_left_out():
    assert place([(5, 5, "a name too long for its panel")], Box(0, 0, 40, 10), 9) == []


@pytest.mark.parametrize(
    ("start", "end", "crosses"),
    [((0, 5), (20, 5), True), ((0, 0), (20, 4), False), ((5, -5), (5, 20), False), ((12, 6), (13, 7), True)],
)
def test_crossing(start, end, crosses):
    assert Box(10, 4.5, 15, 8).crossed_by(start, end) is crosses


def test_spread():
    # Two that collide share their mean: 50 and 52 become 46 and 56 for a height of 10.
    assert spread([50, 52], 10, 0, 100) == pytest.approx([46, 56])
    assert spread([52, 50], 10, 0, 100) == pytest.approx([56, 46])
    assert spread([10, 90], 10, 0, 100) == pytest.approx([10, 90])
    assert spread([-5, -5], 10, 0, 100) == pytest.approx([0, 10])
    assert spread([99, 99], 10, 0, 100) == pytest.approx([90, 100])
    assert spread([1, 2, 3], 10, 0, 10) == pytest.approx([0, 5, 10])  # no room for 10 apart
    assert spread([], 10, 0, 10) == []
