import random
from itertools import combinations, pairwise

import pytest

from report.charts import theme
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


def test_a_lone_point_is_named_beside_it_without_a_leader():
    (label,) = place([(200, 150, "alone")], PANEL, 9)
    assert label.leader_end is None
    assert label.box.left > 200
    assert label.center[1] == pytest.approx(150)


def test_placing_is_deterministic():
    assert place(crowd(1, 30), PANEL, 9) == place(crowd(1, 30), PANEL, 9)


def test_a_point_without_a_name_keeps_names_away():
    (label,) = place([(200, 150, "alone"), (212, 150, "")], PANEL, 9)
    assert label.box.left > 212 + MARK or label.box.right < 200 or not 140 < label.center[1] < 160


def test_a_name_without_room_is_left_out():
    assert place([(5, 5, "a name too long for its panel")], Box(0, 0, 40, 10), 9) == []


def test_no_name_stands_across_the_panel_from_its_point():
    """Up to 110 pixels from the point there is room for a leader alone: more than 0.4 of 230, less than 0.4 of 400."""
    point, taken = [(30.0, 115.0, "abc")], [Box(0, 0, 145, 113), Box(0, 117, 145, 400)]
    assert place(point, Box(0, 0, 230, 230), 9, taken) == []
    (label,) = place(point, Box(0, 0, 400, 400), 9, taken)
    assert label.box.left > 145


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


@pytest.mark.parametrize("seed", range(5))
def test_spread_keeps_order_and_distance(seed):
    chance = random.Random(seed)
    wished = [chance.uniform(0, 300) for _ in range(20)]
    moved = spread(wished, 12, 6, 294)
    ordered = [place for _, place in sorted(zip(wished, moved, strict=True))]
    assert all(after - before >= 12 - 1e-9 for before, after in pairwise(ordered))
    assert ordered[0] >= 6 - 1e-9
    assert ordered[-1] <= 294 + 1e-9


def test_a_name_takes_no_more_room_than_it_is_drawn_in():
    """A regular n takes 0.5562 em: ten of them are 50 px wide at 9 px, and a hundred would take most of a figure."""
    assert text_size("n" * 10, 9)[0] == pytest.approx(10 * 0.5562 * 9, rel=1e-3)
    assert text_size("n" * 100, 9)[0] == theme.LONGEST_NAME < theme.FULL_WIDTH / 2
