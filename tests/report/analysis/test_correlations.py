import tracemalloc

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from measure.domain.values import SPACE
from report.analysis import correlations, resampling
from report.analysis.correlations import Correlation, advantage, correlation, kendall, ranks, spearman, written

ONCE = np.ones((1, 4))
RNG = np.random.default_rng(7)
MODELS = pd.Series(list("abcdefgh"))


def test_by_hand():
    x, y = np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0])
    assert spearman(x, y, ONCE) == pytest.approx([1 - 6 * 2 / (4 * 15)])
    assert kendall(x, y, ONCE) == pytest.approx([(5 - 1) / 6])
    assert spearman(x, -(x**3), ONCE) == pytest.approx([-1])
    assert kendall(x, -(x**3), ONCE) == pytest.approx([-1])


@pytest.mark.parametrize("size", [3, 8, 60])
@pytest.mark.parametrize("digits", [0, 1, 6])  # few digits: many ties
def test_coefficients_agree_with_scipy(size, digits):
    x = RNG.normal(size=size).round(digits)
    y = (x + RNG.normal(size=size)).round(digits)
    x[:2], y[:2] = (-9, 9), (-9, 9)  # neither is the same for all
    once = np.ones((1, size))
    assert spearman(x, y, once) == pytest.approx([stats.spearmanr(x, y).statistic])
    assert kendall(x, y, once) == pytest.approx([stats.kendalltau(x, y).statistic])


def test_weights_are_repetitions():
    x, y = RNG.normal(size=(2, 12)).round(1)
    weight = RNG.integers(0, 4, size=(20, 12))
    found = {method: method(x, y, weight.astype(float)) for method in (spearman, kendall)}
    placed = ranks(x, weight.astype(float))
    for at, counts in enumerate(weight):
        many_x, many_y = np.repeat(x, counts), np.repeat(y, counts)
        assert np.repeat(placed[at], counts) == pytest.approx(stats.rankdata(many_x))
        assert found[spearman][at] == pytest.approx(stats.spearmanr(many_x, many_y).statistic)
        assert found[kendall][at] == pytest.approx(stats.kendalltau(many_x, many_y).statistic)


def plain_ranks(values, weight):
    """Ranks by comparing each value with each."""
    return weight @ ((np.sign(values - values[:, None]) + 1) / 2) + 0.5


def plain_kendall(x, y, weight):
    """Tau-b by comparing each point with each."""
    of_x, of_y = (np.sign(values[:, None] - values) for values in (x, y))
    ordered, in_x, in_y = (((weight @ order) * weight).sum(axis=1) for order in (of_x * of_y, of_x**2, of_y**2))
    return ordered / np.sqrt(in_x * in_y)


@pytest.mark.parametrize("digits", [1, 6])  # few digits: many ties
def test_ranks_and_pairs_are_those_of_each_point_with_each_to_the_last_digit(digits, monkeypatch):
    random = np.random.default_rng(11)
    x, y = random.normal(size=(2, 60)).round(digits)
    weight = random.multinomial(60, np.full(60, 1 / 60), 50).astype(float)
    assert (ranks(x, weight) == plain_ranks(x, weight)).all()
    assert (kendall(x, y, weight) == plain_kendall(x, y, weight)).all()
    monkeypatch.setattr(resampling, "BLOCK", 100)  # blocks of 2 columns
    assert (kendall(x, y, weight) == plain_kendall(x, y, weight)).all()


@pytest.mark.parametrize("method", correlations.METHODS.values())
def test_blocks_change_no_digit(method, monkeypatch):
    x, y = (pd.Series(values) for values in np.random.default_rng(11).normal(size=(2, 40)).round(1))
    models = pd.Series([f"m{at // 2}" for at in range(40)])
    whole = correlation(x, y, models, method), advantage(x, y, x + y, models)
    monkeypatch.setattr(resampling, "BLOCK", 1000)  # 25 resamples
    assert (correlation(x, y, models, method), advantage(x, y, x + y, models)) == whole


@pytest.mark.parametrize("method", correlations.METHODS.values())
def test_two_thousand_models_take_little_memory(method):
    models = pd.Series(np.arange(6000) % 2000)
    x, y = (pd.Series(values) for values in np.random.default_rng(11).normal(size=(2, 6000)))
    tracemalloc.start()
    try:
        found = correlation(x, x + y, models, method)
        _, most_byte = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.settled
    assert most_byte < 200e6  # all pairs alone take 8 * 6000 ** 2 = 288 MB


def test_a_resample_of_one_point_shows_no_order():
    values, weight = np.array([1.0, 2.0, 3.0]), np.array([[0.0, 3.0, 0.0]])
    assert spearman(values, values, weight).tolist() == [0]
    assert kendall(values, values, weight).tolist() == [0]


def test_what_one_model_alone_has_is_never_settled():
    has, slow = pd.Series([0.0] * 7 + [1]), pd.Series(range(8), dtype=float)
    found = correlation(has, slow, MODELS)
    assert found.value > 0.5
    assert not found.settled


@pytest.mark.parametrize("method", correlations.METHODS.values())
def test_the_same_order_is_settled_and_noise_is_not(method):
    x = pd.Series(range(8), dtype=float)
    found = correlation(x, x**2, MODELS, method)
    assert (found.value, found.interval) == (pytest.approx(1), pytest.approx((1, 1)))
    assert found.settled
    opposed = correlation(x, -x, MODELS, method)
    assert opposed.settled
    assert opposed.value == pytest.approx(-1)
    noise = correlation(x, pd.Series([4.0, 7, 1, 6, 2, 8, 3, 5]), MODELS, method)
    low, high = noise.interval
    assert low < 0 < high
    assert low < noise.value < high
    assert not noise.settled


def test_the_interval_is_near_that_of_a_parametric_method():
    x = RNG.normal(size=80)
    y = x + 0.7 * RNG.normal(size=80)
    found = correlation(pd.Series(x), pd.Series(y), pd.Series(range(80)).astype(str))
    fisher = stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).confidence_interval()
    assert found.interval == pytest.approx((fisher.low, fisher.high), abs=0.05)


def test_points_of_one_model_are_not_points_apart():
    x = pd.Series(RNG.normal(size=8))
    y = x + pd.Series(RNG.normal(size=8))
    once = correlation(x, y, MODELS)
    thrice = correlation(*(pd.concat([column] * 3, ignore_index=True) for column in (x, y, MODELS)))
    assert (thrice.value, thrice.interval) == (pytest.approx(once.value), pytest.approx(once.interval))
    assert (thrice.points, thrice.models) == (24, 8)


def test_points_at_which_one_is_not_known_do_not_count():
    x = pd.Series([1.0, 2, 3, None, 5, 6, 7, 0])
    y = pd.Series([1.0, 2, 3, 0, 5, 6, None, 8])
    found = correlation(x, y, MODELS)
    assert (found.points, found.models) == (6, 6)
    # 1 2 3 5 6 0 against 1 2 3 5 6 8: ranks 2 3 4 5 6 1 and 1 2 3 4 5 6, squares' sum 5 + 25
    assert found.value == pytest.approx(1 - 6 * 30 / (6 * 35))


def test_too_few_models_or_no_spread():
    x = pd.Series([1.0, 2, 3, 4])
    assert correlation(x, x, pd.Series(list("aabb"))) is None
    assert correlation(x, x * 0, pd.Series(list("abcd"))) is None
    few = correlation(x, x, pd.Series(list("abcd")))
    assert (few.value, few.interval, few.settled) == (pytest.approx(1), None, False)


def test_advantage():
    y = pd.Series(range(8), dtype=float)
    low, high = advantage(y, -y, y, MODELS)
    assert (low, high) == pytest.approx((2, 2))
    models, order = pd.Series(range(20)).astype(str), pd.Series(range(20), dtype=float)
    shuffled = pd.Series(RNG.permutation(20).astype(float))
    low, high = advantage(order, shuffled, order, models)
    assert 0 < low < high
    assert advantage(shuffled, order, order, models) == pytest.approx((-high, -low))
    noise = pd.Series([4.0, 7, 1, 6, 2, 8, 3, 5])
    assert advantage(y, y, y, MODELS) == (0, 0)
    assert advantage(y, y * 0, y, MODELS) is None
    assert advantage(y[:4], noise[:4], y[:4], MODELS[:4]) is None  # of four models nothing is settled


def test_written():
    assert written(0.934, (0.8, 0.97)).replace(SPACE, " ") == "0.93 (0.80 to 0.97)"
    assert written(-0.5, None) == "−0.50"
    assert str(Correlation(1.0, None, 3, 3)) == "1.00"
