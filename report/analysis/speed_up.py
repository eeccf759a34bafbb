"""The machines of the cache against the first of them: how much faster the same cells run."""

import pandas as pd

from report.analysis import available
from report.load.paper import Machine, Paper

CELL = ["model", "batch"]


def compared(paper: Paper) -> list[tuple[Machine, pd.DataFrame]]:
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
        "run python -m measure there and copy its folder from data/machines into this one."
    )
    return available.at_least_one([(other, shared) for other, shared in found if not shared.empty], gap)


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
