"""Compares two sides, cell by cell and roof by roof: the rows that ``compare`` prints."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, log
from statistics import fmean
from typing import Any

from measure.cache.records import Cell
from measure.cache.words import same_shape
from measure.comparing.difference import CommonSpread, Difference, Pair, common_spread, differences
from measure.comparing.sides import Measured, RoofKernel, Side

RUNS, ROOFS = "runs", "roofs"
"""The tables that are compared."""

SLOWER, FASTER, WITHIN_ERROR = "slower", "faster", "within error"
"""B compared with A, where both have a result."""


@dataclass(frozen=True)
class Comparison:
    """A cell of ``runs.csv`` or a roof of ``roofs.csv`` on both sides; one row of what ``--csv`` writes.

    ``a_status`` and ``b_status`` are empty where that side did not measure it. ``latency_s`` is the geometric mean of
    the rounds' medians, ``ratio`` B's over A's with its 95 % interval; ``basis`` says what that rests on
    (``measure/comparing/difference.py``). ``change`` is empty where no difference can be tested for: a side has no
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
