"""What makes a cell faster: what was measured to do so, else what its largest term suggests to try.

A remedy is only what was measured to help this very cell: another variant, a lower precision or a larger batch that is
faster, interval and all. Where nothing measured does, the largest term of the cell's waterfall gives a hypothesis,
unless that was tried, too.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

import pandas as pd

from measure.domain.advice import KEPT_MEMORY, hypothesis, suggests_kept_memory
from report.analysis.operator_groups import GROUPS
from report.analysis.waterfall import RESIDUAL, terms
from report.load.cells import INFERENCE_CELL
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import each

INEFFICIENCY = "inefficiency"
"""The term of all groups of operators together, by which the bound and the others are to be held."""

MEASURED, HYPOTHESIS, NONE = "measured", "hypothesis", "none"
"""What a remedy rests on; ``NONE``: what the term suggests was measured, and does not help."""

AGAIN, NOTHING = "measure again", "nothing that was tried"


class Trial(NamedTuple):
    """Another way to run a cell that was measured: how many times as fast, and the lower end of that one's interval."""

    name: str
    gain: float
    low: float


@cache
def largest(paper: Paper, machine: Machine) -> pd.DataFrame:
    """One row is a profiled cell: its largest ``term``, that term's ``share`` of the latency, and its ``remedy``.

    The bound and the other terms are held against the inefficiency of all groups of operators together; where that is
    the largest, ``term`` is the group with the most of it. ``basis`` is what the remedy rests on, ``gain`` by what
    factor it was measured to be faster.
    """
    rows = terms(paper, machine)
    kinds = rows.assign(kind=rows.term.where(~rows.term.isin(GROUPS), INEFFICIENCY))
    sums = kinds.groupby([*INFERENCE_CELL, "kind"]).time_s.sum().reset_index()
    most = sums.loc[sums.groupby(INFERENCE_CELL).time_s.idxmax(), [*INFERENCE_CELL, "kind"]]
    chosen = kinds.merge(most, on=[*INFERENCE_CELL, "kind"])
    chosen = chosen.loc[chosen.groupby(INFERENCE_CELL).time_s.idxmax()].drop(columns="kind")
    cells, variants = _by_model(machine.cells[machine.cells.latency_s.notna()]), _by_model(machine.variants)
    lower = machine.lower_precision
    found = [_remedy(row, _trials(row, cells[row.model], variants[row.model]), lower) for row in each(chosen)]
    return chosen.assign(**{name: [row[name] for row in found] for name in ("remedy", "basis", "gain")})


def _remedy(row: Any, trials: Iterable[Trial], lower_precision: str) -> dict[str, Any]:
    tried = {trial.name: trial for trial in trials}
    helping = [trial for trial in tried.values() if trial.low > 1]
    if helping:
        best = max(helping, key=lambda trial: trial.gain)
        return {"remedy": best.name, "basis": MEASURED, "gain": best.gain}
    suggested = hypothesis(row.term, lower_precision)
    if row.term == RESIDUAL:
        suggested = AGAIN
    elif suggests_kept_memory(row.system_share):
        suggested = KEPT_MEMORY
    if suggested in tried:
        return {"remedy": NOTHING, "basis": NONE, "gain": None}
    return {"remedy": suggested, "basis": HYPOTHESIS, "gain": None}


def _by_model(frame: pd.DataFrame) -> Mapping[str, list[Any]]:
    """Return the rows of each model; of one that has none, none."""
    rows: defaultdict[str, list[Any]] = defaultdict(list)
    for row in each(frame):
        rows[row.model].append(row)
    return rows


def _trials(row: Any, cells: list[Any], variants: list[Any]) -> Iterator[Trial]:
    """Yield the other ways in which the cell of a row was measured, at the same batch size or a larger one."""
    for variant in variants:
        if (variant.batch, variant.precision) == (row.batch, BASE_PRECISION):
            yield Trial(variant.variant, variant.speed_up, variant.speed_up_low)
    (cell,) = (same for same in cells if (same.batch, same.precision) == (row.batch, BASE_PRECISION))
    for other in cells:
        if other.batch == row.batch and other.precision != BASE_PRECISION:
            yield _trial(other.precision, cell, other)
        elif other.batch > row.batch and other.precision == BASE_PRECISION:
            yield _trial(f"batch size {other.batch}", cell, other)


def _trial(name: str, cell: Any, other: Any) -> Trial:
    """Hold the time for an input in another cell against that in this one."""
    larger = other.batch / cell.batch
    return Trial(name, larger * cell.latency_s / other.latency_s, larger * cell.latency_low_s / other.latency_high_s)
