from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from report.charts.labels import MARK, Box, along, place, spread, text_size

PANEL = Box(0, 0, 400, 300)
POINT = st.tuples(st.floats(10, 390), st.floats(10, 290), st.integers(0, 12).map("name_".ljust))
POINTS = st.lists(st.tuples(POINT, st.sampled_from([MARK, 14.0])), min_size=1, max_size=40)


@given(POINTS, st.floats(0, 300), st.floats(0, 280))
def test_labels_are_free_of_marks_each_other_and_the_edge(marked, left, top):
    points, halves = zip(*marked, strict=True)
    marks = [Box(x - half, y - half, x + half, y + half) for (x, y, _), half in marked]
    taken = Box(left, top, left + 100, top + 15)
    placed = place(points, halves, PANEL, 9, (taken,))
    assert place(points, halves, PANEL, 9, (taken,)) == placed  # the same each time
    for one, other in combinations(placed, 2):
        assert one.box.clear_of([other.box])
    for label in placed:
        x, y, name = points[label.index]
        assert label.box.inside(PANEL)
        assert label.box.clear_of([taken, *marks])
        width, height = text_size(name, 9)
        assert label.box.right - label.box.left >= width
        assert label.box.bottom - label.box.top >= height - 1e-9
        crossed = [other for other in placed if label.leader_end and other.box.crossed_by((x, y), label.leader_end)]
        assert set(crossed) <= {label}


@pytest.mark.parametrize(
    ("start", "end", "crosses"),
    [((0, 5), (20, 5), True), ((0, 0), (20, 4), False), ((5, -5), (5, 20), False), ((12, 6), (13, 7), True)],
)
def test_crossing(start, end, crosses):
    assert Box(10, 4.5, 15, 8).crossed_by(start, end) is crosses


@pytest.mark.parametrize(
    ("wished", "high", "found"),
    [
        ([50, 52], 100, [46, 56]),  # two that collide share their mean: 51 less and more 5
        ([52, 50], 100, [56, 46]),
        ([10, 90], 100, [10, 90]),
        ([-5, -5], 100, [0, 10]),
        ([99, 99], 100, [90, 100]),
        ([1, 2, 3], 10, [0, 5, 10]),  # no room for 10 apart
        ([], 10, []),
    ],
)
def test_spread(wished, high, found):
    assert spread(wished, 10, 0, high) == pytest.approx(found)


@pytest.mark.parametrize(
    ("covered", "has_leader"),
    [
        (0, False),
        (60, True),  # the nearest place is beyond what covers the mark, so that a line joins them
        (130, None),  # farther than 0.4 of the panel's 300 pixels: no label
    ],
)
def test_a_distant_label_has_a_leader_and_none_is_too_far(covered, has_leader):
    taken = Box(200 - covered, 150 - covered, 200 + covered, 150 + covered)
    placed = place([(200, 150, "name")], [MARK], PANEL, 9, (taken,))
    assert [label.leader_end is not None for label in placed] == ([] if has_leader is None else [has_leader])
    if not covered:
        (label,) = placed
        assert label.box.left == pytest.approx(200 + MARK + 2)  # to the right, 2 free pixels from its mark


def test_boxes_along_a_line_leave_its_ends_free():
    # 40 pixels, down to the right: ten steps and eleven boxes of 4 pixels, seven of them without two at both ends
    boxes = along((100, 50), (124, 82), free=2)
    middles = [((box.left + box.right) / 2, (box.top + box.bottom) / 2) for box in boxes]
    assert [x for x, _ in middles] == pytest.approx([100 + 2.4 * step for step in range(2, 9)])
    assert [y for _, y in middles] == pytest.approx([50 + 3.2 * step for step in range(2, 9)])
    assert [box.right - box.left for box in boxes] == pytest.approx([4.0] * 7)
    assert along((7, 7), (7, 7)) == [Box(5, 5, 9, 9)]
