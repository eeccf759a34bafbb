import numpy as np
import pandas as pd
import pytest

from report.analysis import resampling

MODELS = pd.Series(["b", "a", "b", "c", "a"])


def test_a_model_is_drawn_with_all_its_points():
    drawn = resampling.weights(MODELS)
    assert drawn.shape == (resampling.DRAWS, 5)
    b, a, again_b, c, again_a = drawn.T
    assert (a == again_a).all()
    assert (b == again_b).all()
    assert (a + b + c == 3).all()
    assert len({tuple(row) for row in drawn}) == 10  # three of three with repetition: 3 + 6 + 1 ways


def test_resamples_are_paired_whatever_the_order_and_number_of_points():
    drawn = resampling.weights(MODELS)
    assert (resampling.weights(pd.Series(["a", "b", "c"])) == drawn[:, [1, 0, 3]]).all()


def test_moments_by_hand():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 7.0])
    xx, xy, yy = resampling.moments(x, y, np.array([[1.0, 1.0, 1.0], [2.0, 0.0, 1.0]]))
    # Means 2 and 13/3; then of 1, 1, 3 and 2, 2, 7: 5/3 and 11/3.
    assert xx == pytest.approx([2, 2 * (2 / 3) ** 2 + (4 / 3) ** 2])
    assert xy == pytest.approx([7 / 3 + 8 / 3, 2 * (2 / 3) * (5 / 3) + (4 / 3) * (10 / 3)])
    assert yy == pytest.approx([(49 + 1 + 64) / 9, 2 * (5 / 3) ** 2 + (10 / 3) ** 2])


@pytest.mark.parametrize(
    ("models", "below"),
    # Phi of minus sqrt(n / (n - 1)) t: 2.776 sqrt(5/4) = 3.104; 2.069 sqrt(24/23) = 2.113; towards 1.96
    [(5, 0.00096), (24, 0.0173), (100_000, 0.025)],
)
def test_intervals_are_wider_than_percentiles_for_few_models(models, below):
    draws = np.linspace(0, 1, 100_001)
    assert resampling.interval(draws, models) == pytest.approx((below, 1 - below), abs=2e-5)


def test_no_interval_of_four_models_or_of_no_value():
    assert resampling.interval(np.linspace(0, 1, 11), 4) is None
    assert resampling.interval(np.full(11, np.nan), 9) is None


def test_resamples_without_a_value_are_left_out():
    draws = np.array([np.nan, 3.0, np.nan, 3.0])
    assert resampling.interval(draws, 9) == (3.0, 3.0)


def test_at_a_higher_confidence_intervals_need_more_resamples():
    # Of five models the ends of 95 % leave 0.096 % beyond each, those of 99 % less: under one of a thousand resamples
    assert resampling.interval(np.linspace(0, 1, 1000), 5) is not None
    assert resampling.interval(np.linspace(0, 1, 1000), 5, 0.99) is None
    wide, narrow = (
        resampling.interval(np.linspace(0, 1, 1000), 24, 0.98),
        resampling.interval(np.linspace(0, 1, 1000), 24),
    )
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_a_statistic_of_every_resample(monkeypatch):
    def largest_share(weight):
        return weight.max(axis=1) / weight.sum(axis=1)

    whole = largest_share(resampling.weights(MODELS))
    assert (resampling.resampled(largest_share, MODELS) == whole).all()
    # Blocks of ceil(33 / 5) = 7 resamples, the last of 6: 142 * 7 + 6 = 1000
    monkeypatch.setattr(resampling, "BLOCK", 33)
    sizes = []
    found = resampling.resampled(lambda weight: sizes.append(len(weight)) or largest_share(weight), MODELS)
    assert (found == whole).all()
    assert (len(sizes), set(sizes[:-1]), sizes[-1]) == (143, {7}, 6)


def test_slopes_by_hand():
    x, y = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 7.0])
    each, twice, alone = resampling.slopes(x, y, np.array([[1.0, 1, 1], [2, 0, 1], [0, 3, 0]]))
    # Of the sums in the test of moments: 5 over 2, and of twice the first and the third 20/3 over 8/3
    assert (each, twice) == pytest.approx((5 / 2, 5 / 2))
    assert np.isnan(alone)
