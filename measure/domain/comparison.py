"""Compares two sides, cell by cell and roof by roof: the rows that ``compare`` prints.

Tests whether two measurements of the same things differ: ratio, interval and p-value, from few rounds of many cells.

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

One side of a comparison: a machine's measurements in one environment, found by the name that a user gives.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, log, sqrt
from pathlib import Path
from statistics import fmean, median, variance
from typing import Any, NamedTuple

from measure.cache.folders import MachineFolder, machine_names
from measure.cache.records import Cell, Environment, RoofMeasurement
from measure.domain.latency import Rounds, of_cells
from measure.domain.statistics import CONFIDENCE, critical, estimate_median, two_sided_p
from measure.domain.words import same_shape
from measure.errors import UserError, did_you_mean

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


class RoofKernel(NamedTuple):
    """The key of a roof on any machine."""

    roof_kernel: str
    size: int
    precision: str
    pace: str


@dataclass(frozen=True)
class Measured:
    """The repeats of a cell or roof where any round is ``ok``, else its first status and reason.

    ``flags`` are those of all rounds, ``input_shape`` is that of a cell's inputs, where it is known.
    """

    status: str
    reason: str | None
    repeats: Repeats | None
    flags: frozenset[str] = frozenset()
    input_shape: str | None = None


@dataclass(frozen=True)
class Side:
    """The measurements in an environment of a machine."""

    folder: Path
    environment: Environment
    cells: dict[Cell, Measured]
    roofs: dict[RoofKernel, Measured]


def find(a: str, b: str, data: Path) -> tuple[Side, Side]:
    """Read the two sides that the arguments name.

    An argument is a machine's folder, its name in ``data``, or a data folder: then the machine that the other argument
    also names or has, or the only one. A suffix ``@`` with the beginning of an environment's id selects that one
    instead of the newest. Raises UserError where that is ambiguous, or nothing.
    """
    (path_a, _, chosen_a), (path_b, _, chosen_b) = (_split(argument) for argument in (a, b))
    folder_a, folder_b = _machines(_located(path_a, data), _located(path_b, data), data)
    one, other = _environment(folder_a, chosen_a), _environment(folder_b, chosen_b)
    if folder_a.resolve() == folder_b.resolve() and one == other:
        known = ", ".join(row.environment_id for row in _opened(folder_a).environments())
        raise UserError(
            f"{a} and {b} are the same measurements; name two folders or two environments of {folder_a}, "
            f"as {folder_a}@ID (it has {known})"
        )
    return _read(folder_a, one), _read(folder_b, other)


def find_all(arguments: Sequence[str], data: Path) -> list[Side]:
    """Read more than two sides: each a machine's folder, its name in ``data``, or a data folder with one machine.

    Raises UserError where one is ambiguous, nothing, or named twice.
    """
    found: dict[tuple[Path, str], Side] = {}
    for argument in arguments:
        path, _, chosen = _split(argument)
        located = _located(path, data)
        _check_is_cache(located, data)
        folder = located if _is_machine(located) else _machine(located, located)
        environment = _environment(folder, chosen)
        key = folder.resolve(), environment.environment_id
        if key in found:
            raise UserError(f"{argument}: the same measurements are named twice; leave one out")
        found[key] = _read(folder, environment)
    return list(found.values())


def _split(argument: str) -> tuple[str, str, str]:
    """Return path, ``@`` and environment; a folder may have an ``@`` in its name."""
    if Path(argument).is_dir() or "@" not in argument:
        return argument, "", ""
    return argument.rpartition("@")


def _located(path: str, data: Path) -> Path:
    named = data / "machines" / path
    return named if not Path(path).exists() and _is_machine(named) else Path(path)


def _opened(folder: Path) -> MachineFolder:
    """Open the machine's tables, wherever its folder lies."""
    return MachineFolder(folder.parent, folder.name, folder)


def _is_machine(path: Path) -> bool:
    return (path / "machine.csv").is_file()


def _machines(a: Path, b: Path, data: Path) -> tuple[Path, Path]:
    for path in (a, b):
        _check_is_cache(path, data)
    shared = sorted(set(machine_names(a)) & set(machine_names(b)))
    if len(shared) > 1:
        raise UserError(f"{a} and {b} both have {', '.join(shared)}; name one, as {a / 'machines' / shared[0]}")
    if shared:
        return a / "machines" / shared[0], b / "machines" / shared[0]
    return _machine(a, b), _machine(b, a)


def _check_is_cache(path: Path, data: Path) -> None:
    if not _is_machine(path) and not machine_names(path):
        raise UserError(
            f"{path} is neither a machine's folder, with a machine.csv in it, nor a data folder, with "
            f"machines/NAME/machine.csv in it; name one{did_you_mean(str(path), machine_names(data))}"
        )


def _machine(path: Path, other: Path) -> Path:
    """Return the machine's folder that a path is, or that lies in it."""
    if _is_machine(path):
        return path
    names = machine_names(path)
    if _is_machine(other) and other.resolve().name in names:
        return path / "machines" / other.resolve().name
    if len(names) > 1:
        raise UserError(
            f"{path} has {', '.join(names)}, and none of them is in {other}; "
            f"name one, as {path / 'machines' / names[0]}"
        )
    return path / "machines" / names[0]


def _environment(folder: Path, chosen: str) -> Environment:
    """Return the environment whose id begins so, or the newest if none is chosen."""
    if not chosen:
        return _opened(folder).newest_environment()
    known = _opened(folder).environments()
    fitting = [row for row in known if row.environment_id.startswith(chosen)]
    if len({row.environment_id for row in fitting}) != 1:
        ids = ", ".join(row.environment_id for row in known) or "none"
        raise UserError(f"{folder}: {chosen!r} does not select one environment; name one of {ids}")
    return fitting[-1]


def _read(folder: Path, environment: Environment) -> Side:
    machine, wanted = _opened(folder), environment.environment_id
    runs = [row for row in machine.runs() if row.environment_id == wanted]
    samples = [row for row in machine.samples() if row.environment_id == wanted]
    roofs = [row for row in machine.roof_measurements() if row.environment_id == wanted]
    by_kernel: dict[RoofKernel, list[RoofMeasurement]] = defaultdict(list)
    for row in roofs:
        by_kernel[RoofKernel(row.roof_kernel, row.size, row.precision, row.pace)].append(row)
    return Side(
        folder,
        environment,
        {cell: _measured(rounds) for cell, rounds in of_cells(runs, samples).items()},
        {kernel: _roof(rounds) for kernel, rounds in by_kernel.items()},
    )


def _measured(rounds: Rounds) -> Measured:
    run = rounds.deciding
    if rounds.latencies:
        return Measured("ok", None, repeats(rounds.latencies), rounds.flags, run.input_shape)
    return Measured(run.status, run.reason, None, input_shape=run.input_shape)


def _roof(rounds: list[RoofMeasurement]) -> Measured:
    """Return what was measured of a roof kernel, in one round or several."""
    timed = [_in_one_round(row) for row in rounds]
    known = [each for each in timed if each is not None]
    if not known:
        return Measured(rounds[0].status, rounds[0].reason, None)
    return Measured("ok", None, joined(known))


def _in_one_round(row: RoofMeasurement) -> Repeats | None:
    if not (row.latency_s and row.latency_low_s and row.latency_high_s and row.sample_count):
        return None
    error = error_of_interval(row.latency_low_s, row.latency_high_s, row.sample_count)
    return Repeats((row.latency_s,), error, row.sample_count)


RUNS, ROOFS = "runs", "roofs"
"""The tables that are compared."""

SLOWER, FASTER, WITHIN_ERROR = "slower", "faster", "within error"
"""B compared with A, where both have a result."""


@dataclass(frozen=True)
class Comparison:
    """A cell of ``runs.csv`` or a roof of ``roofs.csv`` on both sides; one row of what ``--csv`` writes.

    ``a_status`` and ``b_status`` are empty where that side did not measure it. ``latency_s`` is the geometric mean of
    the rounds' medians, ``ratio`` B's over A's with its 95 % interval; ``basis`` says what that rests on
    (``measure/domain/comparison.py``). ``change`` is empty where no difference can be tested for: a side has no
    result, or one sample, or the inputs of the sides had another shape.
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
            return Cell.of(self).describe()
        return " ".join(str(part) for part in (self.roof_kernel, self.size, self.precision, self.pace) if part)

    @property
    def is_of_one_input(self) -> bool:
        """Return whether the inputs of both sides had one shape, as far as it is known."""
        return same_shape(self.a_input_shape, self.b_input_shape)

    @property
    def no_longer_runs(self) -> bool:
        """Return whether A has a result, and B tried the same and has none."""
        return self.is_of_one_input and self.a_status == "ok" and self.b_status not in ("ok", None)

    def regressed_by(self, part: float) -> bool:
        """Return whether B is significantly slower, by more than this part of A's latency."""
        return self.change == SLOWER and self.ratio is not None and self.ratio > 1 + part


def compare(a: Side, b: Side) -> list[Comparison]:
    """Return cells, then roofs, those that differ first, the slowest of them first; incomparable ones come last.

    Cells and roofs are two families of tests, each corrected for its own number. A roof is measured in one
    round; the cells' rounds say how much processes differ.
    """
    common = common_spread(list(_pairs(a.cells, b.cells).values()))
    cells = _compared(RUNS, a.cells, b.cells, common)
    roofs = _compared(ROOFS, a.roofs, b.roofs, common)
    return sorted(cells, key=_order) + sorted(roofs, key=_order)


def geometric_mean_ratio(rows: Iterable[Comparison]) -> float:
    """Return the geometric mean ratio of the rows that have one, of which there is at least one."""
    return exp(fmean(log(row.ratio) for row in rows if row.ratio is not None))


Key = Cell | RoofKernel


def _pairs(a: Mapping[Any, Measured], b: Mapping[Any, Measured]) -> dict[Key, Pair]:
    return {
        key: (ours.repeats, theirs.repeats)
        for key, ours in a.items()
        if ours.repeats and (theirs := b.get(key)) and theirs.repeats
        if same_shape(ours.input_shape, theirs.input_shape)
    }


def _compared(
    table: str, a: Mapping[Any, Measured], b: Mapping[Any, Measured], common: CommonSpread
) -> list[Comparison]:
    pairs = _pairs(a, b)
    found = dict(zip(pairs, differences(list(pairs.values()), common), strict=True))
    return [_row(table, key, a.get(key), b.get(key), found.get(key)) for key in {**a, **b}]


def _row(table: str, key: Key, a: Measured | None, b: Measured | None, difference: Difference | None) -> Comparison:
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
        values |= {"ratio_low": values.pop("low"), "ratio_high": values.pop("high"), "change": _change(difference)}
    return Comparison(table, **values)


def _change(difference: Difference) -> str | None:
    if difference.adjusted_p_value is None:
        return None
    if not difference.is_significant:
        return WITHIN_ERROR
    return SLOWER if difference.ratio > 1 else FASTER


def _order(row: Comparison) -> tuple[bool, bool, float]:
    return row.ratio is None, row.change not in (SLOWER, FASTER), -(row.ratio or 0.0)
