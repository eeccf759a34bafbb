import numpy as np
import pytest
from helpers.predicted import COSTS, additive

from measure.cache.predictions import TERMS
from measure.predicting.model import AT_THE_ROOF, adapt, fit, likely
from measure.predicting.study import parts, rows_of

NO_PRIOR = np.zeros(2)


def rows(count):
    """Times of 3 a of the first term and 0.5 of the second, that no other coefficients give."""
    terms = np.array([[1.0 + k % 5, 2.0 + k % 3] for k in range(count)])
    return terms, np.zeros(count), terms @ np.array([3.0, 0.5])


def test_launches_and_the_device_overlap():
    # The device's part of 2 * 1.5 = 3 s and launches of 4 s take 5 s together
    assert likely(np.array([2.0]), np.array([[1.5]]), np.array([4.0])) == pytest.approx([5.0])


def test_what_a_sum_was_made_of_is_found_whatever_one_row_says():
    terms, launch_s, times = rows(30)
    assert fit(terms, launch_s, times, np.ones(30), NO_PRIOR) == pytest.approx([3.0, 0.5], rel=1e-6)
    hidden = np.linspace(0.0, 3.0, 30)  # the launches of a host
    assert fit(terms, hidden, np.hypot(times, hidden), np.ones(30), NO_PRIOR) == pytest.approx([3.0, 0.5], rel=1e-6)
    times[4] *= 10
    assert fit(terms, launch_s, times, np.ones(30), NO_PRIOR) == pytest.approx([3.0, 0.5], rel=0.01)


def test_rows_that_a_host_limits_say_nothing_of_a_device():
    terms, launch_s, times = rows(30)
    launch_s[::2] = 100.0
    found = fit(terms, launch_s, np.where(launch_s > 0, 100.0, times), np.ones(30), NO_PRIOR)
    assert found == pytest.approx([3.0, 0.5], rel=0.02)


def test_terms_that_rows_do_not_tell_apart_share_what_they_take():
    # The second takes 2 s in each row and the third 8 s: of the 8 s that the times have beside 3 a, each gives 4
    terms = np.array([[1.0 + k % 5, 2.0, 8.0] for k in range(30)])
    times = 3 * terms[:, 0] + 8
    for order in (terms, terms[:, ::-1]):
        found = fit(order, np.zeros(30), times, np.ones(30), np.zeros(3))
        assert sorted(found) == pytest.approx([0.5, 2.0, 3.0], rel=1e-6)


def test_a_prior_weighs_as_much_as_a_row_and_a_term_that_no_row_has_stays_there():
    terms, launch_s, times = rows(30)
    for prior in (7.0, 0.0):
        asked = np.column_stack([terms, np.zeros(30)]), launch_s, times, np.ones(30), np.array([3.0, 0.5, prior])
        assert fit(*asked) == pytest.approx([3.0, 0.5, prior], rel=1e-6)
    # Of one row that says 4 and a prior of 2 that weighs the same: (a / 4 - 1)^2 + (a / 2 - 1)^2 is least where
    # (a / 4 - 1) / 4 + (a / 2 - 1) / 2 = 0, at a = (1/4 + 1/2) / (1/16 + 1/4) = 2.4
    one = np.ones(1)
    assert fit(np.array([[1.0]]), 0 * one, 4 * one, one, np.array([2.0])) == pytest.approx([2.4], rel=1e-3)


def test_one_time_scales_all_coefficients_and_many_tell_each():
    terms, launch_s, times = rows(30)
    of_pool = np.array([1.5, 1.0])
    # The second row takes 3 * 2 + 0.5 * 3 = 7.5 s; the pool lets expect 1.5 * 2 + 1 * 3 = 6: 1.25 times as much
    found, host = adapt(of_pool, terms[1:2], launch_s[:1], times[1:2])
    assert (found, host) == (pytest.approx(1.25 * of_pool, rel=0.05), 1.0)
    assert adapt(of_pool, terms, launch_s, times)[0] == pytest.approx([3.0, 0.5], rel=0.1)
    # What the pool does not charge, a few times do not invent
    assert adapt(np.array([3.0, 0.0]), terms[:1], launch_s[:1], times[:1])[0][1] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(("arithmetic", "memory", "launches"), [(1.6, 1.6, 1.0), (1.5, 1.0, 1.0), (1.0, 1.0, 1.8)])
def test_some_times_tell_arithmetic_from_memory_and_a_host_from_its_device(arithmetic, memory, launches):
    """Arithmetic of 4 and 1 s, bytes of 1 and 4 s, launches of 4 and 0 s: each row shows one of the three."""
    terms, launch_s = np.zeros((6, len(TERMS))), np.array([0.0, 0.0, 4.0] * 2)
    terms[:, 0], terms[:, 3] = [4.0, 1.0, 0.5] * 2, [1.0, 4.0, 0.5] * 2
    times = np.hypot(arithmetic * terms[:, 0] + memory * terms[:, 3], launches * launch_s)
    found, host = adapt(np.ones(len(TERMS)), terms, launch_s, times, has_own_host=True)
    assert (found[0], found[3]) == pytest.approx((arithmetic, memory), rel=0.1)
    assert host == pytest.approx(launches, rel=0.1)
    assert adapt(np.ones(len(TERMS)), terms, launch_s, times)[1] == 1.0


def test_what_latencies_are_made_of_is_predicted_and_a_layer_that_was_not_timed_is_at_its_roof():
    terms, launch_s, times = parts(rows_of(additive(models=400), COSTS))
    found = fit(terms, launch_s, times, np.ones(len(times)), AT_THE_ROOF)
    assert np.median(likely(found, terms, launch_s) / times) == pytest.approx(1, rel=0.01)
    assert found[TERMS.index("convolution arithmetic")] == pytest.approx(2.0, rel=0.02)
    assert found[TERMS.index("dense arithmetic")] == pytest.approx(1.0)
