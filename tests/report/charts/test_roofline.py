from report.charts.axes import LogAxis
from report.charts.roofline import corners, lines, outline
from report.load.roofs import Roof

X = LogAxis(1, 100, 200, "intensity")
Y = LogAxis(1e9, 1e12, 200, "rate", vertical=True)


def test_a_roof_bends_at_its_ridge():
    # 100 GFLOP/s and 10 GB/s meet at 10 FLOP/B; at 1 FLOP/B 10 GFLOP/s are attainable.
    points = [(corner["intensity"], corner["rate"]) for corner in corners(Roof(100e9, 10e9), X)]
    assert points == [(1, 10e9), (10, 100e9), (100, 100e9)]


def test_a_ridge_outside_the_axis_is_no_corner():
    points = [(corner["intensity"], corner["rate"]) for corner in corners(Roof(100e9, 1e12), X)]
    assert points == [(1, 100e9), (100, 100e9)]


def test_outline_and_lines():
    frame = outline(
        [({"roof": "a", "printed": False}, Roof(100e9, 10e9)), ({"roof": "b", "printed": True}, Roof(2e11, 1e10))], X
    )
    assert frame.roof.tolist() == ["a"] * 3 + ["b"] * 3
    assert lines(frame, X, Y, "roof", "printed").to_dict()["mark"]["type"] == "line"
