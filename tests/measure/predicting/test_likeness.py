import numpy as np
import pytest

from measure.predicting.model import Neighbours, merge_equal


def offset(make_ups, offsets, asked):
    found = Neighbours(np.array(make_ups), np.array(offsets)).offsets_of(np.array([asked]))
    return float(found[0])


def test_the_same_make_up_tells_nearly_all_and_caution_the_rest():
    # A neighbour at distance 0 weighs 1 / 0.02 = 50, the belief in the terms 0.2 / 0.02 = 10
    assert offset([[0.5, 0.5]], [0.3], [0.5, 0.5]) == pytest.approx(0.3 * 50 / 60)


def test_nearer_neighbours_have_more_say():
    # At distances 0 and 0.08 (0.04 moved from one to the other) they weigh 50 and 1 / 0.1 = 10
    found = offset([[0.5, 0.5], [0.54, 0.46]], [0.3, -0.3], [0.5, 0.5])
    assert found == pytest.approx((50 * 0.3 - 10 * 0.3) / (50 + 10 + 10))


def test_four_neighbours_count():
    near = [[0.5, 0.5]] * 4
    assert offset([*near, [0.0, 1.0]], [0.2] * 4 + [9.0], [0.5, 0.5]) == pytest.approx(0.2 * 200 / 210)


def test_neighbours_that_are_equally_near_share_the_places_that_are_left():
    # One at distance 0 weighs 50; five at 0.08, 10 each, share three places: 3 * 10 in all, their mean offset 0.2
    level = [[0.5 + 0.04 * sign, 0.5 - 0.04 * sign] for sign in (1, -1, 1, -1, 1)]
    expected = (50 * 0.3 + 30 * 0.2) / (50 + 30 + 10)
    assert offset([[0.5, 0.5], *level], [0.3, 0.0, 0.1, 0.2, 0.3, 0.4], [0.5, 0.5]) == pytest.approx(expected)
    assert offset([*level, [0.5, 0.5]], [0.4, 0.3, 0.2, 0.1, 0.0, 0.3], [0.5, 0.5]) == pytest.approx(expected)


def test_without_neighbours_the_terms_are_right():
    assert Neighbours(np.zeros((0, 2)), np.zeros(0)).offsets_of(np.ones((3, 2))).tolist() == [0, 0, 0]


def test_calls_of_one_make_up_say_their_median():
    make_ups = np.array([[0.5, 0.5], [0.1, 0.9], [0.5, 0.5], [0.5, 0.5]])
    # One is the other but for rounding
    make_ups[2] += 1e-16
    found = merge_equal(make_ups, np.array([0.1, -0.4, 0.9, 0.2]))
    assert found.make_ups == pytest.approx(np.array([[0.1, 0.9], [0.5, 0.5]]))
    assert found.offsets.tolist() == [-0.4, 0.2]
