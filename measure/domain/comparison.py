"""Tests whether two measurements of the same cells and roofs differ: ratio, 95 % interval and p-value of each.

Samples of a round share a process and are not independent, so a round counts as one value, its median. Three rounds a
side are too few for a permutation test (of the 20 ways to divide six values, the two most extreme have a tenth of the
probability) and for a bootstrap (which shows two thirds of the variance of three values). A t-test of one cell has
four degrees of freedom: corrected for a hundred cells, it detects changes only from eight times the spread on. But all
cells were measured alike. The moderated t-test of G. K. Smyth (Linear Models and Empirical Bayes Methods for Assessing
Differential Expression, Statistical Applications in Genetics and Molecular Biology 3, 2004) is made for few repeats of
many quantities: it takes the variance of each cell as a draw from a distribution that it fits to all cells, and moves
it towards the centre by as much as the cells agree. It then detects changes of three times the spread. If the cells do
not agree at all, it is the plain t-test. The fit has a price: in simulations of twenty unchanged cells, 4 to 6 of 100
comparisons flagged at least one, and 7 to 9 if the cells' spreads differed by factors.

Latencies are compared by their logarithms: disturbances are relative, and the interval of a ratio is then symmetric.
"""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt
from pathlib import Path
from statistics import fmean, median, variance
from typing import TYPE_CHECKING, Any, NamedTuple

from measure.domain.statistics import CONFIDENCE, critical, estimate_median, two_sided_p
from measure.domain.words import same_shape

if TYPE_CHECKING:
    from measure.cache.records import Environment, RoofMeasurement
    from measure.domain.latency import Cell, Rounds

ROUNDS, OTHERS, PROCESS = "rounds", "others' rounds", "one process"
"""The basis of an interval: the spread between this cell's rounds (and others), that of other cells alone, or the
samples within one process because no cell has a second round."""

RUNS, ROOFS = "runs", "roofs"
"""The tables that are compared."""

SLOWER, FASTER, WITHIN_ERROR = "slower", "faster", "within error"
"""The change from A to B, if both have a result."""


@dataclass(frozen=True)
class Repeats:
    """One side's measurements of one cell or roof: the median (s) of each round.

    ``error`` is the standard error of ``log_s`` as the samples leave it, without a difference between processes; None
    if a round has one sample only. ``samples`` is the number of samples of the smallest round.
    """

    medians_s: tuple[float, ...]
    error: float | None
    samples: int

    @property
    def log_s(self) -> float:
        return fmean(map(log, self.medians_s))

    @property
    def latency_s(self) -> float:
        """The geometric mean of the rounds' medians."""
        return exp(self.log_s)


RepeatsPair = tuple[Repeats, Repeats]


@dataclass(frozen=True)
class RoundVariance:
    """The variance of the logarithm between rounds, with its degrees of freedom."""

    variance: float
    freedom: float


@dataclass(frozen=True)
class CommonVariance:
    """The distribution of the cells' variances: its centre, and its weight in degrees of freedom.

    ``freedom`` counts all rounds together: no test can have more.
    """

    variance: float
    weight: float
    freedom: float


@dataclass(frozen=True)
class Difference:
    """B over A with its 95 % interval, and the p-value before and after correction; None if the error is unknown."""

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
    return merge_rounds([Repeats((median(each),), _error_of_samples(each), len(each)) for each in rounds])


def merge_rounds(rounds: Sequence[Repeats]) -> Repeats:
    """Merge summaries of one round each."""
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
    """Derive the standard error of a median's logarithm from its 95 % interval or, below six samples, its extremes.

    The extremes of n values enclose the median with probability 1 - 2^(1-n). None for one sample.
    """
    if samples < 2:
        return None
    return log(high / low) / 2 / critical(min(CONFIDENCE, 1 - 2.0 ** (1 - samples)), inf)


def pair_variance(pair: RepeatsPair) -> RoundVariance:
    """Pool the variance between the rounds of each side; zero degrees of freedom if neither has two rounds."""
    sides = [[log(value) for value in side.medians_s] for side in pair if len(side.medians_s) > 1]
    freedom = sum(len(side) - 1 for side in sides)
    squares = sum(variance(side) * (len(side) - 1) for side in sides)
    return RoundVariance(squares / freedom if freedom else 0.0, freedom)


def common_variance(pairs: Sequence[RepeatsPair]) -> CommonVariance:
    """Fit the distribution from which the cells' variances are drawn (Smyth 2004, section 6.2).

    A variance s² with d degrees of freedom about a centre c of weight w has E[log s²] = log c + ψ(d/2) - log(d/2) -
    ψ(w/2) + log(w/2) and Var[log s²] = ψ'(d/2) + ψ'(w/2). If the variances differ no more than by chance, the weight is
    infinite and the centre is their pooled mean. One cell alone says nothing about others: its weight is zero.
    """
    from scipy.special import polygamma, psi

    spreads = [spread for spread in map(pair_variance, pairs) if spread.freedom]
    freedom = sum(spread.freedom for spread in spreads)
    least = 1e-5 * median(spread.variance for spread in spreads) if spreads else 0.0
    if len(spreads) < 2 or least == 0:
        return CommonVariance(0.0, 0.0, freedom)
    logs = [  # the variance of rounds that agree by chance has an extreme logarithm: hence the least
        log(max(spread.variance, least)) - float(psi(spread.freedom / 2)) + log(spread.freedom / 2)
        for spread in spreads
    ]
    beyond_chance = variance(logs) - fmean(float(polygamma(1, spread.freedom / 2)) for spread in spreads)
    if beyond_chance <= 0:
        pooled = sum(spread.variance * spread.freedom for spread in spreads) / freedom
        return CommonVariance(pooled, inf, freedom)
    weight = 2 * inverse_trigamma(beyond_chance)
    return CommonVariance(exp(fmean(logs) + float(psi(weight / 2)) - log(weight / 2)), weight, freedom)


def inverse_trigamma(value: float) -> float:
    """Return the x > 0 whose trigamma ψ'(x) is the value (> 0)."""
    from scipy.optimize import brentq
    from scipy.special import polygamma

    # 1/x < ψ'(x) < 1/x + 1/x², solved for x; the factors of 2 leave room for rounding.
    least, most = 1 / value / 2, (1 + sqrt(1 + 4 * value)) / value
    return float(brentq(lambda x: float(polygamma(1, x)) - value, least, most))


def moderate(spread: RoundVariance, common: CommonVariance) -> RoundVariance:
    """Move a cell's variance towards the common centre, each weighted by its degrees of freedom."""
    freedom = spread.freedom + common.weight
    if common.weight == inf:
        return RoundVariance(common.variance, common.freedom)
    if freedom == 0:
        return spread
    squares = spread.variance * spread.freedom + common.variance * common.weight
    return RoundVariance(squares / freedom, min(freedom, common.freedom))


def differences(pairs: Sequence[RepeatsPair], common: CommonVariance) -> list[Difference]:
    """Compare B with A in each pair, and correct the p-values for the number of pairs.

    The correction is that of Benjamini and Hochberg (J. R. Stat. Soc. B 57, 1995), because readers look at the cells
    that changed: of those flagged at 5 %, fewer than 5 % are false on average, and if nothing changed the chance of a
    single one is 5 %. Holm's correction holds that chance always, but misses small true differences if many cells
    change at once, as with a new driver.
    """
    raw = [_difference(pair, common) for pair in pairs]
    p_values = [one.p_value for one in raw if one.p_value is not None]
    if not p_values:
        return raw
    from scipy.stats import false_discovery_control

    adjusted = iter(false_discovery_control(p_values, method="bh").tolist())
    return [one if one.p_value is None else replace(one, adjusted_p_value=next(adjusted)) for one in raw]


def _difference(pair: RepeatsPair, common: CommonVariance) -> Difference:
    a, b = pair
    shift = b.log_s - a.log_s
    between = pair_variance(pair)
    spread = moderate(between, common)
    basis = ROUNDS if between.freedom else OTHERS if spread.freedom else PROCESS
    squared = spread.variance * (1 / len(a.medians_s) + 1 / len(b.medians_s))
    freedom = spread.freedom
    if a.error is not None and b.error is not None and a.error**2 + b.error**2 > squared:
        # However well rounds agree, the samples within them leave this much uncertain.
        squared, freedom = a.error**2 + b.error**2, min(a.samples, b.samples) - 1
    if squared == 0:
        return Difference(exp(shift), basis)
    error = sqrt(squared)
    half = critical(CONFIDENCE, freedom) * error
    return Difference(exp(shift), basis, exp(shift - half), exp(shift + half), two_sided_p(shift / error, freedom))


class RoofKernel(NamedTuple):
    """The key of a roof on any machine."""

    roof_kernel: str
    size: int
    precision: str
    pace: str


@dataclass(frozen=True)
class SideResult:
    """One side's repeats of a cell or roof if any round is ``ok``, else the status and reason of the first.

    ``flags`` are those of all rounds. ``input_shape`` is that of a cell's inputs, None if unknown.
    """

    status: str
    reason: str | None
    repeats: Repeats | None
    flags: frozenset[str] = frozenset()
    input_shape: str | None = None


def cell_result(rounds: "Rounds") -> SideResult:
    """Summarise the rounds of a cell."""
    run = rounds.deciding
    if rounds.latencies:
        return SideResult("ok", None, repeats(rounds.latencies), rounds.flags, run.input_shape)
    return SideResult(run.status, run.reason, None, input_shape=run.input_shape)


def roof_result(rounds: Sequence["RoofMeasurement"]) -> SideResult:
    """Summarise the rounds of a roof kernel, one at least."""
    timed = []
    for row in rounds:
        if row.latency_s and row.latency_low_s and row.latency_high_s and row.sample_count:
            error = error_of_interval(row.latency_low_s, row.latency_high_s, row.sample_count)
            timed.append(Repeats((row.latency_s,), error, row.sample_count))
    if not timed:
        return SideResult(rounds[0].status, rounds[0].reason, None)
    return SideResult("ok", None, merge_rounds(timed))


@dataclass(frozen=True)
class Side:
    """The measurements of one machine in one environment."""

    folder: Path
    environment: "Environment"
    cells: "dict[Cell, SideResult]"
    roofs: dict[RoofKernel, SideResult]


@dataclass(frozen=True)
class ComparedRow:
    """A cell of ``runs.csv`` or a roof of ``roofs.csv`` on both sides: one row of ``compare --csv``.

    ``a_status`` or ``b_status`` is empty if that side did not measure it. ``latency_s`` is the geometric mean of the
    rounds' medians, ``ratio`` is B over A with its 95 % interval, and ``basis`` names what the interval rests on.
    ``change`` is empty if no difference can be tested: a side has no result or one sample, or the input shapes differ.
    """

    table: str
    model: str | None = None
    batch: int | None = None
    roof_kernel: str | None = None
    size: int | None = None
    precision: str | None = None
    phase: str | None = None
    variant: str | None = None
    pace: str | None = None
    a_status: str | None = None
    b_status: str | None = None
    a_reason: str | None = None
    b_reason: str | None = None
    a_input_shape: str | None = None
    b_input_shape: str | None = None
    a_flags: str | None = None
    b_flags: str | None = None
    a_rounds: int | None = None
    b_rounds: int | None = None
    a_latency_s: float | None = None
    b_latency_s: float | None = None
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None
    basis: str | None = None
    change: str | None = None

    @property
    def label(self) -> str:
        if self.table == RUNS:
            return f"{self.model} batch {self.batch} {self.precision} {self.phase} {self.variant}"
        return " ".join(str(part) for part in (self.roof_kernel, self.size, self.precision, self.pace) if part)

    @property
    def has_one_input_shape(self) -> bool:
        """True if the inputs of both sides have one shape; an unknown shape counts as equal."""
        return same_shape(self.a_input_shape, self.b_input_shape)

    @property
    def no_longer_runs(self) -> bool:
        """True if A has a result, and B tried the same and failed."""
        return self.has_one_input_shape and self.a_status == "ok" and self.b_status not in ("ok", None)

    def is_regression(self, allowed: float) -> bool:
        """Return whether B is significantly slower, by more than this share of A's latency."""
        return self.change == SLOWER and self.ratio is not None and self.ratio > 1 + allowed


def compare(a: Side, b: Side) -> list[ComparedRow]:
    """Return cells, then roofs; changes first, the slowest at the top, and rows without a ratio last.

    Cells and roofs are two families of tests, each corrected for its own number. Most roofs have one round, so the
    cells' rounds say how much processes differ.
    """
    cell_pairs, roof_pairs = _pairs(a.cells, b.cells), _pairs(a.roofs, b.roofs)
    common = common_variance(list(cell_pairs.values()))
    tables: list[tuple[str, Mapping[Any, SideResult], Mapping[Any, SideResult], dict[Any, RepeatsPair]]] = [
        (RUNS, a.cells, b.cells, cell_pairs),
        (ROOFS, a.roofs, b.roofs, roof_pairs),
    ]
    rows = []
    for table, ours, theirs, pairs in tables:
        found = dict(zip(pairs, differences(list(pairs.values()), common), strict=True))
        compared = [_row(table, key, ours.get(key), theirs.get(key), found.get(key)) for key in {**ours, **theirs}]
        rows += sorted(compared, key=lambda row: (row.ratio is None, not _has_changed(row), -(row.ratio or 0.0)))
    return rows


def geometric_mean_ratio(rows: Iterable[ComparedRow]) -> float:
    """Return the geometric mean ratio of the rows that have one, at least one."""
    return exp(fmean(log(row.ratio) for row in rows if row.ratio is not None))


def _has_changed(row: ComparedRow) -> bool:
    return row.change in (SLOWER, FASTER)


def _pairs(a: Mapping[Any, SideResult], b: Mapping[Any, SideResult]) -> dict[Any, RepeatsPair]:
    """Pair the repeats of each key with a result on both sides and inputs of one shape."""
    pairs = {}
    for key, ours in a.items():
        theirs = b.get(key)
        if theirs and ours.repeats and theirs.repeats and same_shape(ours.input_shape, theirs.input_shape):
            pairs[key] = ours.repeats, theirs.repeats
    return pairs


def _row(
    table: str, key: Any, a: SideResult | None, b: SideResult | None, difference: Difference | None
) -> ComparedRow:
    values: dict[str, Any] = key._asdict()
    for name, side in (("a", a), ("b", b)):
        if side:
            flags = ";".join(sorted(side.flags)) or None
            values |= {f"{name}_status": side.status, f"{name}_reason": side.reason, f"{name}_flags": flags}
            values[f"{name}_input_shape"] = side.input_shape
        if side and side.repeats:
            values[f"{name}_rounds"] = len(side.repeats.medians_s)
            values[f"{name}_latency_s"] = side.repeats.latency_s
    if difference:
        values |= dataclasses.asdict(difference)
        values |= {"ratio_low": values.pop("low"), "ratio_high": values.pop("high")}
        if difference.is_significant:
            values["change"] = SLOWER if difference.ratio > 1 else FASTER
        elif difference.adjusted_p_value is not None:
            values["change"] = WITHIN_ERROR
    return ComparedRow(table, **values)
