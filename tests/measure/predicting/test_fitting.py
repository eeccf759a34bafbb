import numpy as np
import pytest

from measure.predicting.model import fit

NO_PRIOR = np.zeros(2)


def rows(count):
    """Times of 3 a of the first term and 0.5 of the second, that no other coefficients give."""
    terms = np.array([[1.0 + k % 5, 2.0 + k % 3] for k in range(count)])
    return terms, terms @ np.array([3.0, 0.5])


def test_what_a_sum_was_made_of_is_found():
    terms, times = rows(30)
    assert fit(terms, times, np.ones(30), NO_PRIOR) == pytest.approx([3.0, 0.5], rel=1e-6)


def test_one_row_that_took_ten_times_as_long_has_little_say():
    terms, times = rows(30)
    times[4] *= 10
    assert fit(terms, times, np.ones(30), NO_PRIOR) == pytest.approx([3.0, 0.5], rel=0.01)


def test_no_coefficient_is_negative():
    terms, times = rows(30)
    assert fit(terms, np.maximum(times - 3 * terms[:, 1], 0.1), np.ones(30), NO_PRIOR).min() >= 0


def test_a_term_that_no_row_has_stays_at_its_prior():
    terms, times = rows(30)
    wider = np.column_stack([terms, np.zeros(30)])
    found = fit(wider, times, np.ones(30), np.array([3.0, 0.5, 7.0]))
    assert found == pytest.approx([3.0, 0.5, 7.0], rel=1e-6)
    assert fit(wider, times, np.ones(30), np.zeros(3))[2] == 0


def test_terms_that_rows_do_not_tell_apart_share_what_they_take():
    # The second takes 2 s in each row and the third 8 s: of the 8 s that the times have beside 3 a, each gives 4
    terms = np.array([[1.0 + k % 5, 2.0, 8.0] for k in range(30)])
    times = 3 * terms[:, 0] + 8
    for order in (terms, terms[:, ::-1]):
        found = fit(order, times, np.ones(30), np.zeros(3))
        assert sorted(found) == pytest.approx([0.5, 2.0, 3.0], rel=1e-6)


def test_a_prior_weighs_as_much_as_a_row():
    # Of one row that says 4 and a prior of 2 that weighs the same: (a / 4 - 1)^2 + (a / 2 - 1)^2 is least where
    # (a / 4 - 1) / 4 + (a / 2 - 1) / 2 = 0, at a = (1/4 + 1/2) / (1/16 + 1/4) = 2.4
    found = fit(np.array([[1.0]]), np.array([4.0]), np.ones(1), np.array([2.0]))
    assert found == pytest.approx([2.4], rel=1e-3)


@pytest.mark.parametrize("times", [np.array([]), np.array([1.0, 0.0])])
def test_times_that_are_none_are_refused(times):
    with pytest.raises(ValueError, match="above 0"):
        fit(np.ones((len(times), 2)), times, np.ones(len(times)), NO_PRIOR)
