"""Test whether two measurements of the same cells and roofs differ.

A round counts as one value, the logarithm of its median: its samples share a process, and disturbances are relative.
Three rounds a side are too few for a permutation test or a bootstrap. A t-test of one cell among a hundred detects
changes only from eight times the spread. The moderated t-test detects three times: it moves each cell's variance
towards the variance of all cells by as much as the cells agree (G. K. Smyth, Linear Models and Empirical Bayes Methods
for Assessing Differential Expression, Statistical Applications in Genetics and Molecular Biology 3, 2004). The price:
in 100 simulations of twenty unchanged cells, 4 to 6 flagged a cell, and 7 to 9 if the cells' spreads differed widely.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import exp, inf, log, sqrt
from pathlib import Path
from statistics import fmean, median, variance
from typing import Any, NamedTuple

from measure.domain.cell import Cell
from measure.domain.groups import CollectiveCell, DataParallelCell, undisturbed
from measure.domain.latency import Rounds
from measure.domain.records import Environment
from measure.domain.statistics import CONFIDENCE, critical, estimate_median, two_sided_p
from measure.domain.words import same_shape, was_disturbed

# The basis of an interval: the spread between this cell's rounds (and others), the spread of other cells alone, or
# the samples within one process because no cell has a second round
ROUNDS, OTHERS, PROCESS = "rounds", "others' rounds", "one process"
RUNS, ROOFS = "runs", "roofs"  # the tables that are compared, and those of groups of processes
COLLECTIVE_ROUNDS, STEP_ROUNDS = "collectives", "data_parallel_steps"
# The change from A to B, if both have a result. Within error: not significant, and the interval excludes a change that
# matters. Undecided: not significant and the interval includes one, or a side was loaded.
SLOWER, FASTER, WITHIN_ERROR, UNDECIDED = CHANGES = ("slower", "faster", "within error", "undecided")
MATTERS = 0.05  # the least change that matters, unless the user names another


@dataclass(frozen=True)
class Repeats:
    """One side's measurement of a cell or roof: the median (s) of each round with a result.

    ``error`` is the standard error of ``log_s`` within processes; None if a round has one sample only. ``samples``
    counts the smallest round. Without a result ``status`` and ``reason`` come from the first round; both are None if
    the side did not measure it.
    """

    medians_s: tuple[float, ...] = ()
    error: float | None = None
    samples: int = 0
    status: str | None = "ok"
    reason: str | None = None
    input_shape: str | None = None
    flags: str | None = None

    @property
    def log_s(self) -> float:
        return fmean(map(log, self.medians_s))

    @property
    def latency_s(self) -> float | None:
        """The geometric mean of the rounds' medians."""
        return exp(self.log_s) if self.medians_s else None

    @property
    def rounds(self) -> int | None:
        return len(self.medians_s) or None


NOT_MEASURED = Repeats(status=None)


class RoofKernel(NamedTuple):
    roof_kernel: str
    size: int
    precision: str
    pace: str

    def describe(self) -> str:
        return " ".join(str(part) for part in self if part)


@dataclass(frozen=True)
class Side:
    """The measurements of one machine in one environment."""

    folder: Path
    environment: Environment
    cells: dict[Cell, Repeats]
    roofs: dict[RoofKernel, Repeats]
    collectives: Mapping[CollectiveCell, Repeats] = field(default_factory=dict)
    steps: Mapping[DataParallelCell, Repeats] = field(default_factory=dict)


KEYS: dict[str, Any] = {  # of the rows of each table
    RUNS: Cell, ROOFS: RoofKernel, COLLECTIVE_ROUNDS: CollectiveCell, STEP_ROUNDS: DataParallelCell,
}  # fmt: skip
THINGS = {RUNS: "cell", ROOFS: "roof", COLLECTIVE_ROUNDS: "collective", STEP_ROUNDS: "data-parallel step"}


@dataclass(frozen=True)
class ComparedRow:
    """A cell, a roof, a collective or a data-parallel step on both sides, and their difference.

    ``ratio`` is B over A with its 95 % interval. ``change`` is None if a side has no result or one sample, or if the
    input shapes differ.
    """

    key: Cell | RoofKernel | CollectiveCell | DataParallelCell
    a: Repeats = NOT_MEASURED
    b: Repeats = NOT_MEASURED
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None
    p_value: float | None = None
    adjusted_p_value: float | None = None
    basis: str | None = None
    change: str | None = None

    @property
    def table(self) -> str:
        return next(table for table, key in KEYS.items() if isinstance(self.key, key))

    @property
    def has_one_input_shape(self) -> bool:
        return same_shape(self.a.input_shape, self.b.input_shape)

    @property
    def is_loaded(self) -> bool:
        """Return whether other programs disturbed all rounds of a side: the difference may be theirs."""
        return any(was_disturbed(side.flags) for side in (self.a, self.b))

    @property
    def is_comparable(self) -> bool:
        return bool(self.has_one_input_shape and self.a.medians_s and self.b.medians_s)

    def is_regression(self, allowed: float) -> bool:
        """Return whether a cell no longer runs, or is significantly slower by more than this share of A's latency."""
        if self.table != RUNS or not self.has_one_input_shape:
            return False
        no_longer_runs = self.a.status == "ok" and self.b.status not in ("ok", None)
        return no_longer_runs or (self.change == SLOWER and (self.ratio or 0) > 1 + allowed)

    def columns(self) -> dict[str, Any]:
        """Return a row of ``compare --csv``; a value is None if it is unknown or does not apply."""
        names = (
            "model", "batch", "roof_kernel", "size", "precision", "phase", "variant", "pace", "collective",
            "message_byte", "communication", "processes", "backend",
        )  # fmt: skip
        values: dict[str, Any] = {"table": self.table} | {name: getattr(self.key, name, None) for name in names}
        for name in ("status", "reason", "input_shape", "flags", "rounds", "latency_s"):
            values |= {f"a_{name}": getattr(self.a, name), f"b_{name}": getattr(self.b, name)}
        return values | {field.name: getattr(self, field.name) for field in fields(self)[3:]}


def of_cell(rounds: Rounds) -> Repeats:
    run, timed = rounds.deciding, []
    for latencies in rounds.latencies:
        found = estimate_median(latencies)
        timed.append((found.median, found.low or min(latencies), found.high or max(latencies), len(latencies)))
    if not timed:
        return Repeats(status=run.status, reason=run.reason, input_shape=run.input_shape)
    return replace(_merge(timed), input_shape=run.input_shape, flags=";".join(sorted(rounds.flags)) or None)


def of_group(rows: Sequence[Any]) -> Repeats:
    """Summarise the rounds of a collective or a data-parallel step, at least one: the undisturbed ones, if any."""
    chosen = undisturbed(rows)
    flags = sorted({flag for row in chosen for flag in (row.flags or "").split(";") if flag})
    shape = getattr(rows[0], "input_shape", None)
    return replace(of_roof(chosen or rows), input_shape=shape, flags=";".join(flags) or None)


def of_roof(rows: Sequence[Any]) -> Repeats:
    """Summarise the rounds of a roof kernel, at least one; or of another row with a median and its interval."""
    timed = [
        (row.latency_s, row.latency_low_s, row.latency_high_s, row.sample_count)
        for row in rows
        if row.latency_s and row.latency_low_s and row.latency_high_s and row.sample_count
    ]
    return _merge(timed) if timed else Repeats(status=rows[0].status, reason=rows[0].reason)


def _merge(rounds: Sequence[tuple[float, float, float, int]]) -> Repeats:
    """Merge rounds, each as median (s), ends of its interval (s; the extremes below six samples), and samples."""
    medians_s, _, _, samples = zip(*rounds, strict=True)
    if min(samples) < 2:
        return Repeats(medians_s, None, min(samples))
    squares = sum(error_of_interval(low, high, count) ** 2 for _, low, high, count in rounds)
    return Repeats(medians_s, sqrt(squares) / len(rounds), min(samples))


def error_of_interval(low: float, high: float, samples: int) -> float:
    """Derive the standard error of a median's logarithm from its 95 % interval or, below six samples, its extremes.

    The extremes of n values, two at least, enclose the median with probability 1 - 2^(1-n).
    """
    return log(high / low) / 2 / critical(min(CONFIDENCE, 1 - 2.0 ** (1 - samples)), inf)


class Spread(NamedTuple):
    """The variance of the logarithm between rounds, with its degrees of freedom and its weight for other cells."""

    variance: float
    freedom: float
    weight: float = 0.0


def round_variance(row: ComparedRow) -> Spread:
    """Pool the variance between the rounds of each side; zero degrees of freedom if neither has two rounds."""
    sides = [[log(value) for value in side.medians_s] for side in (row.a, row.b) if len(side.medians_s) > 1]
    freedom = sum(len(side) - 1 for side in sides)
    squares = sum(variance(side) * (len(side) - 1) for side in sides)
    return Spread(squares / freedom if freedom else 0.0, freedom)


def common_variance(rows: Iterable[ComparedRow]) -> Spread:
    """Fit the distribution of the cells' variances (Smyth 2004, section 6.2).

    A variance s² with d degrees of freedom about a centre c of weight w has E[log s²] = log c + ψ(d/2) - log(d/2) -
    ψ(w/2) + log(w/2) and Var[log s²] = ψ'(d/2) + ψ'(w/2). If the variances differ no more than by chance, the weight is
    infinite and the centre is their pooled mean. One cell says nothing about others: its weight is zero.
    """
    from scipy.special import polygamma, psi

    spreads = [round_variance(row) for row in rows if row.is_comparable]
    spreads = [spread for spread in spreads if spread.freedom]
    freedom = sum(spread.freedom for spread in spreads)
    least = 1e-5 * median(spread.variance for spread in spreads) if spreads else 0.0
    if len(spreads) < 2 or least == 0:
        return Spread(0.0, freedom)
    logs = [  # rounds that agree by chance have a variance with an extreme logarithm: hence the least
        log(max(spread.variance, least)) - float(psi(spread.freedom / 2)) + log(spread.freedom / 2)
        for spread in spreads
    ]
    beyond_chance = variance(logs) - fmean(float(polygamma(1, spread.freedom / 2)) for spread in spreads)
    if beyond_chance <= 0:
        pooled = sum(spread.variance * spread.freedom for spread in spreads) / freedom
        return Spread(pooled, freedom, inf)
    weight = 2 * inverse_trigamma(beyond_chance)
    return Spread(exp(fmean(logs) + float(psi(weight / 2)) - log(weight / 2)), freedom, weight)


def inverse_trigamma(value: float) -> float:
    """Solve ψ'(x) = value for x > 0; ψ' is the trigamma function."""
    from scipy.optimize import brentq
    from scipy.special import polygamma

    # 1/x < ψ'(x) < 1/x + 1/x², solved for x; the factors of 2 leave room for rounding.
    least, most = 1 / value / 2, (1 + sqrt(1 + 4 * value)) / value
    return float(brentq(lambda x: float(polygamma(1, x)) - value, least, most))


def moderate(spread: Spread, common: Spread) -> Spread:
    """Move a cell's variance towards the common centre, each weighted by its degrees of freedom."""
    freedom = spread.freedom + common.weight
    if common.weight == inf:
        return Spread(common.variance, common.freedom)
    if common.weight == 0:  # no cells to learn from, as between two machines that share roofs alone
        return spread
    squares = spread.variance * spread.freedom + common.variance * common.weight
    return Spread(squares / freedom, min(freedom, common.freedom))


def estimate_changes(rows: Iterable[ComparedRow], common: Spread, matters: float = MATTERS) -> list[ComparedRow]:
    """Fill in the differences of the rows with two results, p-values corrected for the number of rows.

    A change of this share (``matters``) decides between "within error" and "undecided".

    On average fewer than 5 % of the cells flagged at 5 % are false (Benjamini and Hochberg, J. R. Stat. Soc. B 57,
    1995). Holm's correction would miss small differences if many cells change at once, as with a new driver.
    """
    from scipy.stats import false_discovery_control

    found = [_estimate_ratio(row, common) if row.is_comparable else row for row in rows]
    tested = [index for index, row in enumerate(found) if row.p_value is not None]
    adjusted = false_discovery_control([found[index].p_value for index in tested])
    for index, p_value in zip(tested, adjusted.tolist(), strict=True):
        row = found[index]
        change = SLOWER if (row.ratio or 0) > 1 else FASTER
        if p_value >= 1 - CONFIDENCE:
            low, high = row.ratio_low or 0.0, row.ratio_high or inf
            change = WITHIN_ERROR if 1 / (1 + matters) <= low and high <= 1 + matters else UNDECIDED
        found[index] = replace(row, adjusted_p_value=p_value, change=UNDECIDED if row.is_loaded else change)
    return found


def _estimate_ratio(row: ComparedRow, common: Spread) -> ComparedRow:
    a, b = row.a, row.b
    shift, between = b.log_s - a.log_s, round_variance(row)
    spread = moderate(between, common)
    basis = ROUNDS if between.freedom else OTHERS if spread.freedom else PROCESS
    squared, freedom = spread.variance * (1 / len(a.medians_s) + 1 / len(b.medians_s)), spread.freedom
    if a.error is not None and b.error is not None and a.error**2 + b.error**2 > squared:
        # The samples within rounds leave this much uncertain, even if the rounds agree.
        squared, freedom = a.error**2 + b.error**2, min(a.samples, b.samples) - 1
    row = replace(row, ratio=exp(shift), basis=basis)
    if squared == 0:
        return row
    half, p_value = critical(CONFIDENCE, freedom) * sqrt(squared), two_sided_p(shift / sqrt(squared), freedom)
    return replace(row, ratio_low=exp(shift - half), ratio_high=exp(shift + half), p_value=p_value)


def mean_ratio(rows: Iterable[ComparedRow]) -> tuple[float, float | None, float | None]:
    """Return the geometric mean of the ratios with its 95 % interval, None if a row has none. At least one row.

    The interval is for these cells, measured again: the errors of their logarithms add up as independent ones.
    """
    found = [row for row in rows if row.ratio]
    mean, halves = fmean(log(row.ratio or 1.0) for row in found), []
    for row in found:
        if row.ratio_low is None or row.ratio_high is None:
            return exp(mean), None, None
        halves.append(log(row.ratio_high / row.ratio_low) / 2)
    half = sqrt(sum(each**2 for each in halves)) / len(halves)
    return exp(mean), exp(mean - half), exp(mean + half)


def compare(a: Side, b: Side, matters: float = MATTERS) -> list[ComparedRow]:
    """Return cells, roofs, collectives and data-parallel steps; of each changes first, the slowest at the top, and rows
    without a ratio last.

    Each table is corrected for its own number of tests. Most roofs have one round, so they take the cells' spread.
    """

    def pair_up(one: Mapping[Any, Repeats], other: Mapping[Any, Repeats]) -> list[ComparedRow]:
        return [ComparedRow(key, one.get(key, NOT_MEASURED), other.get(key, NOT_MEASURED)) for key in {**one, **other}]

    def rank(row: ComparedRow) -> tuple[bool, bool, float]:
        return row.ratio is None, row.change not in (SLOWER, FASTER), -(row.ratio or 0)

    cells, roofs = pair_up(a.cells, b.cells), pair_up(a.roofs, b.roofs)
    collectives, steps = pair_up(a.collectives, b.collectives), pair_up(a.steps, b.steps)
    of_cells = common_variance(cells)
    tables = [(cells, of_cells), (roofs, of_cells), (collectives, common_variance(collectives))]
    tables.append((steps, common_variance(steps)))
    return [row for rows, common in tables for row in sorted(estimate_changes(rows, common, matters), key=rank)]
