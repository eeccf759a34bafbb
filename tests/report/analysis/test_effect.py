import numpy as np
import pytest

from report.analysis.effect import Effect, adjusted_confidence, median_of, with_interval


def effect(factor, interval, count=6):
    """An effect with the same interval at every confidence."""
    return Effect(factor, lambda confidence: interval, count)


def known_to(confidence):
    """An effect that is clear of 1 up to this confidence."""
    return Effect(2.0, lambda asked: (1.5, 3.0) if asked <= confidence else (0.5, 8.0), 6)


def test_an_effect():
    assert effect(0.25, None).size == 4
    assert [effect(2.0, interval).side for interval in (None, (1.1, 3), (0.9, 3), (0.5, 0.9))] == [0, 1, 0, -1]
    # 6.6 / 2.0 is a wide interval, 1.9 / 1.7 a narrow one
    assert str(effect(3.07, (1.98, 6.56))) == "3.1 (2.0 to 6.6)"
    assert with_interval(1.8, (1.7, 1.9)) == "1.80 (1.70 to 1.90)"
    assert with_interval(1.8, None) == "1.8"


@pytest.mark.parametrize(
    ("low", "told"),
    [
        (1.04, "1.3 (1.04 to 1.6)"),
        (0.998, "1.3 (0.998 to 1.6)"),
        (1, "1.3 (1.0 to 1.6)"),
        (1.00001, "1.3 (1.0 to 1.6)"),
    ],
)
def test_an_end_beside_1_is_told_from_it(low, told):
    assert with_interval(1.3, (low, 1.6)) == told


def test_median_of():
    # Of six values the ends enclose the median with 1 - 2 / 64, 97 %; of five with 94 % only
    found = median_of([6, 1, 5, 2, 4, 3])
    assert (found.factor, found.interval, found.count) == (3.5, (1, 6), 6)
    assert median_of([5, 1, 4, 2, 3]).interval is None


def test_at_another_confidence():
    # Of eight values the second and the seventh enclose the median with 1 - 2 (1 + 8) / 256, 93 %, the ends with 99 %
    found = median_of(range(1, 9))
    assert found.interval == (1, 8)
    assert found.at(0.9).interval == (2, 7)
    assert found.at(0.995).interval is None
    assert found.at(0.9).factor == found.factor == 4.5


@pytest.mark.parametrize(
    ("known", "picked", "tested"),
    [
        ((0.9999, 0.9999, 0.9, 0.9), 2, 4),  # 1 - 2 · 5 % / 4 is 97.5 %, at which two are clear
        ((0.96, 0.96, 0.9, 0.9), 1, 4),  # at 97.5 % neither is, at 98.75 % none
        ((0.99, 0.96, 0.96, 0.96), 4, 4),  # at 95 % all are
        ((0.9999, 0.98, 0.975, 0.9), 3, 4),  # at 1 - 3 · 5 % / 4, 96.25 %, three are
        ((0.9999, 0.9, 0.9, 0.9), 1, 4),  # at 98.75 % one is
    ],
)
def test_the_confidence_allows_for_the_number_tested(known, picked, tested):
    assert adjusted_confidence([known_to(each) for each in known]) == pytest.approx(1 - picked * 0.05 / tested)


def test_one_or_none_tested_keep_the_confidence():
    assert adjusted_confidence([known_to(0.99)]) == pytest.approx(0.95)
    assert adjusted_confidence([]) == 0.95


def test_of_effects_that_are_none_few_are_told():
    # Medians of 20 signs, as likely above 1 as below: of those families without any effect, at 95 % most tell one
    # of 20, and adjusted no more than 5 % may (Benjamini and Hochberg: all told are false then).
    random = np.random.default_rng(5)
    families = [[median_of(np.exp(random.normal(size=20))) for _ in range(20)] for _ in range(200)]

    def told(family, confidence):
        return any(effect.at(confidence).side for effect in family)

    assert sum(told(family, 0.95) for family in families) > 80
    assert sum(told(family, adjusted_confidence(family)) for family in families) <= 16  # 10 and two deviations of 3.1
