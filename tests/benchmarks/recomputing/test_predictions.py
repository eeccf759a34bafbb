import numpy as np
import pandas as pd
import pytest
from recomputing import predictions
from recomputing.timed_calls import SETTING, TERMS, Calls

BEAD = ("Bead 2", "made", "2.4", "fp16", "eager", "inference")


def calls(latencies, make_ups, terms=None, batch=8, setting=BEAD, name="net"):
    rows = pd.DataFrame([setting] * len(latencies), columns=SETTING).assign(
        chip_kind="gpu", architecture=[f"{name}{k}" for k in range(len(latencies))], family="net", batch=batch,
        latency_s=latencies, flop_s=1.0, parameter_s=2.0,
    )  # fmt: skip
    terms = np.ones((len(rows), 1)) if terms is None else terms
    return Calls(rows, terms, np.array(make_ups, float), np.ones((len(rows), 2)))


def test_a_fit_finds_what_a_sum_was_made_of_with_little_say_for_one_that_is_far_off():
    terms = np.array([[1.0 + k % 5, 2.0 + k % 3] for k in range(30)])
    times = terms @ [3.0, 0.5]
    found = predictions.robust_fit(terms, times, np.ones(30), np.zeros(2))
    assert found == pytest.approx([3.0, 0.5], rel=1e-6)
    times[4] *= 10
    assert predictions.robust_fit(terms, times, np.ones(30), np.zeros(2)) == pytest.approx([3.0, 0.5], rel=0.01)


def test_a_prior_weighs_as_much_as_a_row():
    # (a / 4 - 1)^2 + (a / 2 - 1)^2 is least at a = (1/4 + 1/2) / (1/16 + 1/4) = 2.4
    found = predictions.robust_fit(np.array([[1.0]]), np.array([4.0]), np.ones(1), np.array([2.0]))
    assert found == pytest.approx([2.4], rel=1e-3)


def test_neighbours_that_are_equally_near_share_the_places_that_are_left():
    level = [[0.54, 0.46], [0.46, 0.54], [0.54, 0.54], [0.46, 0.46], [0.58, 0.5], [0.58, 0.5], [0.58, 0.5]]
    known = calls(np.exp([0.3, 0.0, 0.1, 0.2, 0.3, 0.0, 0.4, 9.0]), [[0.5, 0.5], *level])
    # One at distance 0 weighs 50; five at 0.08, 10 each, share three places: 30 in all, their mean offset 0.2, as
    # those of one make-up tell their median, 0.4
    found = predictions.neighbourly(known, calls([1.0], [[0.5, 0.5]]), np.ones(1))
    assert np.log(found) == pytest.approx([(50 * 0.3 + 30 * 0.2) / (50 + 30 + 10)])


def test_simple_estimates_are_off_by_as_much_as_known_calls_in_the_median():
    known, asked = calls([3.0, 5.0, 9.0], np.zeros((3, 1))), calls([1.0], np.zeros((1, 1)))
    # 5 times the FLOP's time of 1 s; 2.5 times the parameters' 2 s; 2.5 times 1 s for each of two kinds
    for method in ("FLOP over peak", "parameters", "roofline"):
        assert predictions.SIMPLE[method](known, asked) == pytest.approx([5.0])


def test_labels_are_left_out_once_and_together():
    labels = pd.Series([f"net{k // 2}" for k in range(50)])
    found = list(predictions.parts(labels))
    assert len(found) == 10
    assert sum(part.astype(int) for part in found).tolist() == [1] * 50
    assert all((part[::2] == part[1::2]).all() for part in found)


def test_errors_are_of_the_prediction_over_the_latency():
    # Latencies of 0.5, 1 and 2 times the prediction: it is 100 %, 0 and 50 % off; 9 of 10: 50 + 0.8 * 50 %
    row = predictions._row(3, 3, np.array([0.5, 1.0, 2.0]))
    assert (row["median_error"], row["p90_error"], row["median_ratio"]) == pytest.approx((0.5, 0.9, 1.0))
    assert (row["low_ratio"], row["high_ratio"]) == pytest.approx((0.55, 1.9))


def test_batch_sizes_are_told_apart_where_there_are_several():
    two = calls([1.0, 1.0], np.zeros((2, 1)), batch=[1, 8])
    found = predictions._rows(("model", "terms", *BEAD), two, np.array([1.0, 2.0]), np.array([True, False]))
    assert {key[-1]: (row["calls"], row["coverage"]) for key, row in found.items()} == {
        "all": (2, 0.5), "1": (1, 1.0), "2 to 15": (1, 0.0),
    }  # fmt: skip
    same = calls([1.0, 1.0], np.zeros((2, 1)))
    assert [key[-1] for key in predictions._rows(BEAD, same, np.ones(2), None)] == ["all"]


def test_a_setting_of_many_models_and_the_pool_of_all_are_fitted():
    terms = np.zeros((120, len(TERMS)))
    terms[:, TERMS.index("convolution arithmetic")] = np.arange(1, 121)
    made = calls(2.0 * np.arange(1, 121), np.zeros((120, 1)), terms)
    found = predictions.recompute(made)
    pool = ("any GPU", "", "", "16 bits", "", "inference")
    # All take twice their arithmetic, but the prior of 1 has the say of one row in 120, and is drawn to (as above)
    # (120 / 2 + 1) / (120 / 4 + 1) = 61 / 31; where no row tells, a layer is at its roof
    assert found.coefficients[*pool, "convolution arithmetic"] == pytest.approx(61 / 31, rel=1e-3)
    assert found.coefficients[*BEAD, "attention memory"] == pytest.approx(1.0)
    assert {key[:2] for key in found.errors} == {
        ("model", method) for method in (predictions.OURS, *predictions.SIMPLE)
    }
