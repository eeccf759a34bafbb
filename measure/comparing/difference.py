"""Tests whether two measurements of the same things differ: ratio, interval and p-value, from few rounds of many cells.

Samples within a round are not independent (they share a process, its memory and its minutes), so a round counts as
one value, its median. Three rounds a side are too few for a permutation test (of the 20 ways to divide six values,
the two most extreme have a tenth of the probability) and for a bootstrap of rounds (which shows two thirds of the
variance of three values). A t-test of one cell has four degrees of freedom: after correction for a hundred cells it
detects changes only from eight times the spread on. But the cells were measured alike. The moderated t-test of
G. K. Smyth (Linear Models and Empirical Bayes Methods for Assessing Differential Expression, Statistical Applications
in Genetics and Molecular Biology 3, 2004) is made for few repeats of many quantities: it takes each cell's variance
between rounds as a draw from a distribution that it fits to all of them, and moves it towards the centre by as much as
the cells agree. Changes of three times the spread are then detected. Where the cells do not agree at all it is the
t-test of each alone. The fit has its price: in simulations of twenty cells where nothing changed, at least one was
flagged in 4 to 6 of 100 comparisons, and in 7 to 9 where the cells' spreads differed by factors.

Latencies are compared by their logarithms: disturbances are relative, and a ratio's interval is then symmetric.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt
from statistics import fmean, median, variance

from measure.timing.statistics import CONFIDENCE, critical, estimate_median, two_sided_p

ROUNDS, OTHERS, PROCESS = "rounds", "others' rounds", "one process"
"""The basis of an interval: the spread between the rounds of the cell (and of others), that of other cells alone, or,
where no cell has a second round, the samples within one process."""


@dataclass(frozen=True)
class Repeats:
    """One side's measurements of one thing: the median (s) of each round, and the uncertainty that samples leave.

    ``error`` is the standard error of ``log_s`` if nothing differed between processes (None: a round has one sample
    only); ``samples`` the number of samples in the smallest round.
    """

    medians_s: tuple[float, ...]
    error: float | None
    samples: int

    @property
    def log_s(self) -> float:
        return fmean(map(log, self.medians_s))

    @property
    def latency_s(self) -> float:
        """Return the geometric mean of the rounds' medians."""
        return exp(self.log_s)


Pair = tuple[Repeats, Repeats]


@dataclass(frozen=True)
class Spread:
    """A variance between rounds (of the logarithm), and the degrees of freedom that it is known with."""

    variance: float
    freedom: float


@dataclass(frozen=True)
class CommonSpread:
    """Where the variances of cells come from: the centre, and its weight in degrees of freedom.

    ``freedom`` is that of all rounds together: no test can have more.
    """

    variance: float
    weight: float
    freedom: float


@dataclass(frozen=True)
class Difference:
    """B over A, with its 95 % interval, and the p-value before and after correction; ``basis`` is what they rest on.

    All but the ratio are None where nothing is known of its uncertainty.
    """

    ratio: float
    basis: str
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None

    @property
    def is_significant(self) -> bool:
        return self.adjusted_p_value is not None and self.adjusted_p_value < 1 - CONFIDENCE


def repeats(rounds: Sequence[Sequence[float]]) -> Repeats:
    """Summarise a cell's latencies (s), given round by round."""
    return joined([Repeats((median(latencies),), _error_of_samples(latencies), len(latencies)) for latencies in rounds])


def joined(rounds: Sequence[Repeats]) -> Repeats:
    """Join what was measured in one round each."""
    errors = [each.error for each in rounds if each.error is not None]
    return Repeats(
        tuple(each.medians_s[0] for each in rounds),
        sqrt(sum(error**2 for error in errors)) / len(rounds) if len(errors) == len(rounds) else None,
        min(each.samples for each in rounds),
    )


def _error_of_samples(latencies: Sequence[float]) -> float | None:
    estimate = estimate_median(latencies)
    if estimate.low is None or estimate.high is None:
        return error_of_interval(min(latencies), max(latencies), len(latencies))
    return error_of_interval(estimate.low, estimate.high, len(latencies))


def error_of_interval(low: float, high: float, samples: int) -> float | None:
    """Derive the standard error of a median's logarithm from its 95 % interval or, below six samples, their extremes.

    The extremes of n values enclose the median with probability 1 - 2^(1-n). None for one sample.
    """
    if samples < 2:
        return None
    return log(high / low) / 2 / critical(min(CONFIDENCE, 1 - 2.0 ** (1 - samples)), inf)


def pair_spread(pair: Pair) -> Spread:
    """Pool the variance between the rounds of each side; no freedom where neither has two rounds."""
    sides = [[log(value) for value in side.medians_s] for side in pair if len(side.medians_s) > 1]
    freedom = sum(len(side) - 1 for side in sides)
    squares = sum(variance(side) * (len(side) - 1) for side in sides)
    return Spread(squares / freedom if freedom else 0.0, freedom)


def common_spread(pairs: Sequence[Pair]) -> CommonSpread:
    """Fit the distribution that the cells' variances are drawn from (Smyth 2004, section 6.2).

    A variance s² with d degrees of freedom about a centre c of weight w has E[log s²] = log c + ψ(d/2) - log(d/2) -
    ψ(w/2) + log(w/2) and Var[log s²] = ψ'(d/2) + ψ'(w/2). Where the variances differ no more than by chance, the
    weight is infinite and the centre is their pooled mean. One cell alone says nothing about others: no weight.
    """
    from scipy.special import polygamma, psi

    spreads = [spread for spread in map(pair_spread, pairs) if spread.freedom]
    freedom = sum(spread.freedom for spread in spreads)
    least = 1e-5 * median(spread.variance for spread in spreads) if spreads else 0.0
    if len(spreads) < 2 or least == 0:
        return CommonSpread(0.0, 0.0, freedom)
    logs = [  # rounds that agree by chance have a variance whose logarithm says too much: hence the least
        log(max(spread.variance, least)) - float(psi(spread.freedom / 2)) + log(spread.freedom / 2)
        for spread in spreads
    ]
    beyond_chance = variance(logs) - fmean(float(polygamma(1, spread.freedom / 2)) for spread in spreads)
    if beyond_chance <= 0:
        pooled = sum(spread.variance * spread.freedom for spread in spreads) / freedom
        return CommonSpread(pooled, inf, freedom)
    weight = 2 * inverse_trigamma(beyond_chance)
    return CommonSpread(exp(fmean(logs) + float(psi(weight / 2)) - log(weight / 2)), weight, freedom)


def inverse_trigamma(value: float) -> float:
    """Return the x > 0 whose trigamma ψ'(x) is the value (> 0)."""
    from scipy.optimize import brentq
    from scipy.special import polygamma

    # 1/x < ψ'(x) < 1/x + 1/x², solved for x; the factors of 2 leave room for rounding.
    least, most = 1 / value / 2, (1 + sqrt(1 + 4 * value)) / value
    return float(brentq(lambda x: float(polygamma(1, x)) - value, least, most))


def moderated(spread: Spread, common: CommonSpread) -> Spread:
    """Move a cell's variance towards the common centre, each weighted by its degrees of freedom."""
    freedom = spread.freedom + common.weight
    if common.weight == inf:
        return Spread(common.variance, common.freedom)
    if freedom == 0:
        return spread
    squares = spread.variance * spread.freedom + common.variance * common.weight
    return Spread(squares / freedom, min(freedom, common.freedom))


def differences(pairs: Sequence[Pair], common: CommonSpread) -> list[Difference]:
    """Compare B with A in each pair, the p-values corrected for the number of pairs."""
    raw = [_difference(pair, common) for pair in pairs]
    corrected = iter(benjamini_hochberg([one.p_value for one in raw if one.p_value is not None]))
    return [one if one.p_value is None else replace(one, adjusted_p_value=next(corrected)) for one in raw]


def _difference(pair: Pair, common: CommonSpread) -> Difference:
    a, b = pair
    shift = b.log_s - a.log_s
    between = pair_spread(pair)
    spread = moderated(between, common)
    basis = ROUNDS if between.freedom else OTHERS if spread.freedom else PROCESS
    squared = spread.variance * (1 / len(a.medians_s) + 1 / len(b.medians_s))
    freedom = spread.freedom
    if a.error is not None and b.error is not None and a.error**2 + b.error**2 > squared:
        # However well rounds agree, what samples leave uncertain within them remains.
        squared, freedom = a.error**2 + b.error**2, min(a.samples, b.samples) - 1
    if squared == 0:
        return Difference(exp(shift), basis)
    error = sqrt(squared)
    half = critical(CONFIDENCE, freedom) * error
    return Difference(exp(shift), basis, exp(shift - half), exp(shift + half), two_sided_p(shift / error, freedom))


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number (Y. Benjamini, Y. Hochberg, J. R. Stat. Soc. B 57, 1995).

    Readers of a comparison look at the cells that changed. Of those with a corrected value below 5 %, fewer than 5 %
    are false on average; where nothing changed, the chance of even one is 5 %. Holm's correction would always hold
    that chance to 5 %, but miss small true differences where many cells change at once, as with a new driver.
    """
    count = len(p_values)
    corrected = [1.0] * count
    least = 1.0
    ranked = sorted(range(count), key=p_values.__getitem__)
    for rank in range(count, 0, -1):
        index = ranked[rank - 1]
        least = min(least, p_values[index] * count / rank)
        corrected[index] = least
    return corrected
