import numpy as np
import pytest
from helpers.predicted import additive, call, demand

from measure.cache.predictions import TERMS
from measure.predicting.model import LatencyModel, add_neighbours, fit, fit_setting
from measure.predicting.timings import fit_rows

NO_PRIOR = np.zeros(2)


def rows(count):
    """Times of 3 a of the first term and 0.5 of the second, that no other coefficients give."""
    terms = np.array([[1.0 + k % 5, 2.0 + k % 3] for k in range(count)])
    return terms, terms @ np.array([3.0, 0.5])


def test_what_a_sum_was_made_of_is_found_whatever_one_row_says():
    terms, times = rows(30)
    assert fit(terms, times, np.ones(30), NO_PRIOR) == pytest.approx([3.0, 0.5], rel=1e-6)
    times[4] *= 10
    assert fit(terms, times, np.ones(30), NO_PRIOR) == pytest.approx([3.0, 0.5], rel=0.01)


def test_terms_that_rows_do_not_tell_apart_share_what_they_take():
    # The second takes 2 s in each row and the third 8 s: of the 8 s that the times have beside 3 a, each gives 4
    terms = np.array([[1.0 + k % 5, 2.0, 8.0] for k in range(30)])
    times = 3 * terms[:, 0] + 8
    for order in (terms, terms[:, ::-1]):
        found = fit(order, times, np.ones(30), np.zeros(3))
        assert sorted(found) == pytest.approx([0.5, 2.0, 3.0], rel=1e-6)


def test_a_prior_weighs_as_much_as_a_row_and_a_term_that_no_row_has_stays_there():
    terms, times = rows(30)
    for prior in (7.0, 0.0):
        found = fit(np.column_stack([terms, np.zeros(30)]), times, np.ones(30), np.array([3.0, 0.5, prior]))
        assert found == pytest.approx([3.0, 0.5, prior], rel=1e-6)
    # Of one row that says 4 and a prior of 2 that weighs the same: (a / 4 - 1)^2 + (a / 2 - 1)^2 is least where
    # (a / 4 - 1) / 4 + (a / 2 - 1) / 2 = 0, at a = (1/4 + 1/2) / (1/16 + 1/4) = 2.4
    found = fit(np.array([[1.0]]), np.array([4.0]), np.ones(1), np.array([2.0]))
    assert found == pytest.approx([2.4], rel=1e-3)


LEVEL = [[0.5 + 0.04 * sign, 0.5 - 0.04 * sign] for sign in (1, -1, 1, -1, 1)]


@pytest.mark.parametrize(
    ("make_ups", "offsets", "expected"),
    [
        # A neighbour at distance 0 weighs 1 / 0.02 = 50, the belief in the terms 0.2 / 0.02 = 10
        ([[0.5, 0.5]], [0.3], 0.3 * 50 / 60),
        # Nearer ones have more say: at distances 0 and 0.08 (0.04 moved from one to the other) 50 and 1 / 0.1 = 10
        ([[0.5, 0.5], [0.54, 0.46]], [0.3, -0.3], (50 * 0.3 - 10 * 0.3) / (50 + 10 + 10)),
        # Four count
        ([[0.5, 0.5]] * 4 + [[0.0, 1.0]], [0.2] * 4 + [9.0], 0.2 * 200 / 210),
        # One at distance 0 weighs 50; five at 0.08, 10 each, share three places: 3 * 10 in all, their mean offset 0.2
        ([[0.5, 0.5], *LEVEL], [0.3, 0.0, 0.1, 0.2, 0.3, 0.4], (50 * 0.3 + 30 * 0.2) / 90),
        ([*LEVEL, [0.5, 0.5]], [0.4, 0.3, 0.2, 0.1, 0.0, 0.3], (50 * 0.3 + 30 * 0.2) / 90),
    ],
)
def test_neighbours_of_like_make_up_tell_an_offset(make_ups, offsets, expected):
    found = LatencyModel(np.zeros(1), np.array(make_ups), np.array(offsets)).offsets_of(np.array([[0.5, 0.5]]))
    assert float(found[0]) == pytest.approx(expected)


def test_calls_of_one_make_up_say_their_median():
    # One call of 1e4 us takes 10 ms; four of the calls have one make-up, but for rounding
    one, other = demand(4.0, moved=2.0), demand(4.0, moved=9.0)
    rows = fit_rows([call(f"net{k}", 1.0, asked) for k, asked in enumerate((one, other, one, one, one))])
    rows.make_ups[2] += 1e-16
    best = np.zeros(len(TERMS))
    best[TERMS.index("call")] = 1e4
    rows.latency_s[:] = 0.01 * np.exp([0.1, -0.4, 0.9, 0.2, 0.5])
    found = add_neighbours(rows, best)
    assert len(found.make_ups) == 2
    assert sorted(found.offsets) == pytest.approx([-0.4, (0.2 + 0.5) / 2])


def test_what_latencies_are_made_of_is_predicted_and_a_layer_that_was_not_timed_is_at_its_roof():
    timed = fit_rows(additive(models=400))
    model = fit_setting(timed)
    assert np.median(model.predict(timed.terms, timed.make_ups) / timed.latency_s) == pytest.approx(1, rel=0.01)
    assert model.coefficients[TERMS.index("convolution arithmetic")] == pytest.approx(2.0, rel=0.02)
    assert model.coefficients[TERMS.index("attention memory")] == pytest.approx(1.0)
