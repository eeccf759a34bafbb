"""How much faster the same cells run: on other machines, and in other variants than eager mode."""

import pandas as pd

from measure.domain.variants import VARIANTS
from measure.domain.words import EAGER
from report.analysis import available
from report.analysis.long_lists import evenly
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import matching

CELL = ["model", "batch"]

MANY = 3
"""So many other machines are told of; of more, those at the ends and in the middle."""


def between_machines(paper: Paper) -> list[tuple[Machine, pd.DataFrame]]:
    """Return each other machine that shares cells with the first that figures show, and those cells; at least one.

    A row has both latencies (``latency_s``, ``other_s``), the ``speed_up`` of the other machine, and the ``predicted``
    one: the ratio of the rates that the roofs allow at the model's intensity by footprint, empty where one of them was
    not measured.
    """
    available.machines(paper)
    first = paper.shown[0]
    found = [(other, _shared(first, other)) for other in paper.machines if other is not first]
    gap = available.DataMissingError(
        f"No other machine in the cache shares a cell with the {available.title(first)}; to compare it with one, "
        "run `python -m measure` and then `python -m measure pack` there, and "
        "`python -m measure add-machine FILE.zip` here."
    )
    return available.at_least_one([(other, shared) for other, shared in found if not shared.empty], gap)


def told(paper: Paper) -> tuple[list[tuple[Machine, pd.DataFrame]], int]:
    """Return the machines of ``between_machines`` that are told of one by one, and how many there are.

    Of many the slowest, the fastest and one in the middle.
    """
    found = between_machines(paper)
    if len(found) <= MANY:
        return found, len(found)
    return evenly(sorted(found, key=lambda pair: float(pair[1].speed_up.median())), MANY), len(found)


def _shared(first: Machine, other: Machine) -> pd.DataFrame:
    """Return the cells of both machines; empty where one of them has none."""
    try:
        rows = available.cells(first).merge(available.cells(other), on=CELL, suffixes=("", "_other"))
    except available.DataMissingError:
        return pd.DataFrame()
    rows = rows.rename(columns={"latency_s_other": "other_s"}).sort_values(CELL)
    return rows[[*CELL, "latency_s", "other_s"]].assign(
        speed_up=rows.latency_s / rows.other_s, predicted=rows.attainable_flop_per_s_other / rows.attainable_flop_per_s
    )


def at_lower_precision(machine: Machine) -> pd.DataFrame:
    """One row is a cell of eager mode at both precisions, with the ``gain`` of the lower one; at least one."""
    cells, lower = available.cells(machine, None), machine.lower_precision
    base, lowered = (matching(cells, precision=precision) for precision in (BASE_PRECISION, lower))
    pairs = base.merge(lowered, on=CELL, suffixes=("", "_lower"))
    what = f"Nothing was measured at both {BASE_PRECISION} and {lower} on the {available.title(machine)}"
    gap = available.missing_on(machine, what, flags=f"--precisions {BASE_PRECISION} {lower}", does="does")
    return available.at_least_one(pairs.assign(gain=pairs.latency_s / pairs.latency_s_lower), gap)


def over_eager(machine: Machine, precision: str | None = None) -> pd.DataFrame:
    """One row is a cell of a variant, with the ``speed_up`` over eager mode measured in the same sitting; at least one.

    Of one precision, or of all where it is None.
    """
    at, flags = ("", "") if precision is None else (f" at {precision}", f"--precisions {precision} ")
    name = available.title(machine)
    what = f"No cell of the {name} has been measured in eager mode and as a variant in one sitting{at}"
    worth_a_trial = " ".join(variant.name for variant in VARIANTS if machine.chip_kind in variant.tried_on)
    flags += f"--variants {EAGER} {worth_a_trial}"
    gap = available.missing_on(machine, what, "workload", "inference", flags=flags, does="measures some")
    rows = matching(machine.variants, status="ok", precision=precision)
    return available.at_least_one(rows[rows.speed_up.notna()], gap)
