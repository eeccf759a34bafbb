import pandas as pd

from report.charts.axes import LogAxis
from report.figures.thinning import FEW, NAMES, SIDE, counts, covered, ends, named, one_a_place, thinned

# 100 pixels a decade
X = LogAxis(1, 100, 200, "x")
Y = LogAxis(1, 100, 200, "y", vertical=True)


def points(places, **columns):
    """Points at these pixels from the left and from the top."""
    at = pd.DataFrame([(X.value(across), Y.value(down)) for across, down in places], columns=["x", "y"])
    return at.assign(model=[f"m{number}" for number in range(len(places))], **columns)


def test_points_in_one_place_are_one_mark_with_their_number():
    found = one_a_place(points([(11, 11), (52, 11), (14, 14), (11, 16), (12, 12)]), X, "x", Y, "y")
    # Places are 5 pixels wide: from 10 to 15, the fourth is one below
    assert dict(zip(found.model, found.models, strict=True)) == {"m0": 3, "m1": 1, "m3": 1}
    assert SIDE == 5


def test_a_point_without_a_logarithm_is_in_no_place():
    found = one_a_place(points([(11, 11), (52, 11)]).assign(x=[0.0, 10.0]), X, "x", Y, "y")
    assert list(found.model) == ["m1"]


def test_points_of_different_groups_share_no_mark():
    found = one_a_place(points([(11, 11)] * 3, batch=[1, 8, 8]), X, "x", Y, "y", ("batch",))
    assert list(zip(found.model, found.batch, found.models, strict=True)) == [("m0", 1, 1), ("m1", 8, 2)]


def test_few_points_are_all_drawn():
    few, many = (points([(11, 11)] * count) for count in (FEW, FEW + 1))
    assert thinned(few, X, "x", Y, "y") is few
    (mark,) = thinned(many, X, "x", Y, "y").itertuples()
    assert mark.models == FEW + 1
    assert (counts(few), covered([few])) == ([], "")
    drawn = thinned(many, X, "x", Y, "y")
    assert counts(drawn) == ["models"]
    assert "one mark" in covered([few, drawn])


def test_of_many_points_those_at_the_ends_are_named():
    diagonal = points([(number, 150 - number) for number in range(1, NAMES + 1)])
    assert named(diagonal, "x") is diagonal
    more = pd.concat([diagonal, points([(100, 199)])], ignore_index=True)
    # The first is leftmost, the one added rightmost and lowest; the last of the diagonal is highest
    assert list(named(more, "x", "y").index) == list(ends(more, "x", "y").index) == [0, NAMES - 1, NAMES]
