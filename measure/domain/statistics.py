"""Estimators for repeated timings."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import erfc, exp, hypot, inf, log, sqrt
from statistics import NormalDist, fmean, median

CONFIDENCE = 0.95
FEWEST_MODELS = 6  # that a number over models needs, to be shown
ONE_STANDARD_ERROR = 0.6827  # the confidence of an interval of one standard error to each side

# The confidence of the interval between rounds, so that it covers the median 95 times in a hundred. Rounds are added
# until it is narrow enough, and each look is a chance to stop by luck. With looks after three to nine rounds, simulated
# cells are covered 93 to 97 times in a hundred, and 91 at a confidence of 95 %.
CONFIDENCE_OF_ROUNDS = 0.96


@dataclass(frozen=True)
class Estimate:
    """A median and its confidence interval, in the unit of the values; too few values have no interval."""

    median: float
    low: float | None
    high: float | None

    @property
    def relative_half_width(self) -> float | None:
        return None if self.low is None or self.high is None else (self.high - self.low) / 2 / self.median


def quotient(dividend: Estimate, divisor: Estimate) -> Estimate:
    """Return the quotient of two independent medians above 0; without an interval if one of them has none.

    The widths of their logarithms add in squares: each side of the quotient takes the dividend's width on that side
    and the divisor's on the other.
    """
    value = dividend.median / divisor.median
    if dividend.low is None or dividend.high is None or divisor.low is None or divisor.high is None:
        return Estimate(value, None, None)
    below = hypot(log(dividend.median / dividend.low), log(divisor.high / divisor.median))
    above = hypot(log(dividend.high / dividend.median), log(divisor.median / divisor.low))
    return Estimate(value, value * exp(-below), value * exp(above))


@cache
def order_statistic_ranks(count: int, confidence: float = CONFIDENCE) -> tuple[int, int] | None:
    """Return the ranks (from 0) of the two sorted values that enclose the median with at least this confidence.

    The number of values below the median is binomial(count, 1/2) whatever the distribution, so the symmetric pair
    of ranks (k, count-1-k) misses the median with probability 2 * P(X <= k). None if even the extremes are too narrow
    (at 95 %: below six values). Source: H. A. David, H. N. Nagaraja, Order Statistics, section 7.1.
    """
    below, best, ways = 0.0, None, 1
    for rank in range(count // 2):
        below += ways / 2**count
        if 2 * below > 1 - confidence:
            break
        best, ways = (rank, count - 1 - rank), ways * (count - rank) // (rank + 1)
    return best


def estimate_median(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """Return the median with its distribution-free interval. Raises StatisticsError for no values."""
    ranks, ordered = order_statistic_ranks(len(values), confidence), sorted(values)
    low, high = (None, None) if ranks is None else (ordered[ranks[0]], ordered[ranks[1]])
    return Estimate(median(values), low, high)


# ``critical`` of ``CONFIDENCE_OF_ROUNDS`` for two to nine rounds, from SciPy, which takes long to import
STUDENT_OF_ROUNDS = (
    15.89454484386529, 4.848732213850609, 3.481908760321212, 2.9985278732065854,
    2.7565085219094736, 2.612241847061312, 2.5167524241332693, 2.448984989640778,
)  # fmt: skip


@cache
def critical(confidence: float, freedom: float) -> float:
    """Return an interval's half width in standard errors: the t that |T| of Student's distribution stays below.

    Degrees of freedom need not be whole; infinitely many give the normal distribution, which needs no SciPy.
    """
    if freedom == inf:
        return NormalDist().inv_cdf((1 + confidence) / 2)
    if confidence == CONFIDENCE_OF_ROUNDS and freedom in range(1, len(STUDENT_OF_ROUNDS) + 1):
        return STUDENT_OF_ROUNDS[int(freedom) - 1]
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + confidence) / 2))


def two_sided_p(t: float, freedom: float) -> float:
    """Return the probability that |T| of Student's distribution is at least |t|."""
    if freedom == inf:
        return erfc(abs(t) / sqrt(2))
    from scipy.special import stdtr

    return 2 * float(stdtr(freedom, -abs(t)))


def estimate_rounds(rounds: Sequence[Sequence[float]]) -> Estimate:
    """Return the median of the rounds' medians with its interval; a single round has the interval of its own median,
    and two have none: Student's would be 16 standard errors wide, and span decades where they differ.

    Samples of a round share a process and its minutes. So the interval is for the mean over rounds of their
    medians' logarithms (disturbances are relative), by the bootstrap of hierarchical data, which draws rounds whole:
    drawing samples too would count their spread twice (A. C. Davison and D. V. Hinkley, Bootstrap Methods and their
    Application (1997), section 3.8). Its standard error has a closed form. Percentiles of few rounds are too narrow:
    three rounds reach at most from the lowest to the highest, which miss the median once in four times. Hence two
    corrections for R rounds (T. C. Hesterberg, What Teachers Should Know About the Bootstrap, The American Statistician
    69 (2015), 371-386): the root of R/(R - 1), and Student's quantile. Rounds may agree by luck, so the interval is no
    narrower than one standard error of the samples within them; a round of fewer than three samples takes the error of
    the others.

    Raises StatisticsError for no rounds, or a round without values.
    """
    if len(rounds) == 1:
        return estimate_median(rounds[0])
    if len(rounds) == 2:
        return Estimate(fmean(median(values) for values in rounds), None, None)
    within = [estimate_median(values, ONE_STANDARD_ERROR) for values in rounds]
    logs = [log(each.median) for each in within]
    count, centre, middle = len(rounds), fmean(logs), median(each.median for each in within)
    # The root of R/(R - 1) makes it the sample's deviation; the standard library's function takes far longer.
    error = hypot(*(each - centre for each in logs)) / sqrt(count * (count - 1))
    between = critical(CONFIDENCE_OF_ROUNDS, count - 1) * error
    # Rounds without an error take the mean square error of the others; the mean over all rounds divides it by count.
    bounded = [each for each in within if each.low and each.high]
    scale = sqrt(max(len(bounded), 1) * count)
    below = hypot(*(log(each.median / each.low) for each in bounded if each.low)) / scale
    above = hypot(*(log(each.high / each.median) for each in bounded if each.high)) / scale
    low, high = exp(centre - max(between, below)), exp(centre + max(between, above))
    return Estimate(middle, min(middle, low), max(middle, high))


def is_drifting(values: Sequence[float], tolerance: float) -> bool:
    """Return whether later values differ from earlier values by more than chance and more than the tolerance.

    Chance is judged by the rank test for a trend (H. B. Mann, Nonparametric Tests Against Trend, Econometrica 13
    (1945), 245-259) at 1 %, the tolerance by the medians of the two halves, relative to the first.
    """
    count = len(values)
    if count < 2:
        return False
    score = sum((later > earlier) - (later < earlier) for earlier, later in combinations(values, 2))
    spread = sqrt(count * (count - 1) * (2 * count + 5) / 18)
    first, second = median(values[: count // 2]), median(values[(count + 1) // 2 :])
    return abs(score) - 1 > critical(0.99, inf) * spread and abs(second - first) > tolerance * first
