from math import inf

from measure.domain.roofs import Roofline
from report.charts.axes import LogAxis
from report.charts.roofline import corners, lines, outline, room

X = LogAxis(1, 100, 200, "intensity")
Y = LogAxis(1e9, 1e12, 200, "rate", vertical=True)


def test_a_roof_bends_at_its_ridge():
    # 100 GFLOP/s and 10 GB/s meet at 10 FLOP/B; at 1 FLOP/B 10 GFLOP/s are attainable.
    points = [(corner["intensity"], corner["rate"]) for corner in corners(Roofline(100e9, 10e9), X)]
    assert points == [(1, 10e9), (10, 100e9), (100, 100e9)]


def test_a_ridge_outside_the_axis_is_no_corner():
    points = [(corner["intensity"], corner["rate"]) for corner in corners(Roofline(100e9, 1e12), X)]
    assert points == [(1, 100e9), (100, 100e9)]


def test_outline_and_lines():
    frame = outline(
        [
            ({"roof": "a", "printed": False}, Roofline(100e9, 10e9)),
            ({"roof": "b", "printed": True}, Roofline(2e11, 1e10)),
        ],
        X,
    )
    assert frame.roof.tolist() == ["a"] * 3 + ["b"] * 3
    assert lines(frame, X, Y, "roof", "printed").to_dict()["mark"]["type"] == "line"


def test_no_name_covers_a_roof():
    # Flat at 100 GFLOP/s, the third part of the way down from 1 TFLOP/s of three decades; the ridge is in the middle
    flat, *slope = room([Roofline(100e9, 10e9)], X, Y)
    assert (flat.left, flat.right) == (0, 200)
    assert abs((flat.top + flat.bottom) / 2 - 200 / 3) < 1e-6
    assert slope
    assert all(box.right <= 101 and box.top >= flat.top for box in slope)
    # A flat part alone, where no bandwidth is known
    assert len(list(room([Roofline(100e9, inf)], X, Y))) == 1
