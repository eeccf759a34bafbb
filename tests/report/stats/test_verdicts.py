import pytest

from report.stats.value import Source, Value, agreement, bound

RIDGE = Value(5.0, "FLOP/B", 4.0, 6.0)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (2.0, 3.9, "memory-bound"),
        (2.0, 4.0, "at the ridge"),  # the intervals touch
        (5.9, 9.0, "at the ridge"),
        (6.0, 9.0, "at the ridge"),
        (6.1, 9.0, "compute-bound"),
    ],
)
def test_a_bound_is_told_only_if_the_intervals_do_not_meet(low: float, high: float, word: str) -> None:
    assert bound(Value(3.0, "FLOP/B", low, high), RIDGE) == word


def test_without_intervals_the_numbers_decide() -> None:
    assert bound(Value(3.9), Value(4.0)) == "memory-bound"
    assert bound(Value(4.0), Value(4.0)) == "at the ridge"
    assert bound(Value(6.5), RIDGE) == "compute-bound"


def test_a_missing_value_has_no_verdict_but_its_command() -> None:
    gap = Value(None, source=Source("roofs.csv", command="python -m measure --sections roofs"))
    assert 'command="python -m measure --sections roofs"' in bound(Value(3.0), gap)
    assert ".missing" in bound(gap, RIDGE)
    assert ".missing" in agreement(Value(None))


@pytest.mark.parametrize(
    ("low", "word"),
    [(0.81, "closely"), (0.8, "roughly"), (0.45, "roughly"), (0.4, "not told by so few"), (-0.1, "not told by so few"),
     (None, "not told by so few")],
)  # fmt: skip
def test_agreement_says_the_least_that_the_interval_bears_out(low: float | None, word: str) -> None:
    assert agreement(Value(0.9, low=low, high=None if low is None else 0.95, counted="samples")) == word
