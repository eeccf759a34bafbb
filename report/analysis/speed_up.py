"""The machines of the cache against the first of them: how much faster the same cells run."""

import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.load.paper import Machine, Paper

CELL = ["model", "batch"]


def compared(paper: Paper) -> list[tuple[Machine, pd.DataFrame]]:
    """Each other machine that shares cells with the first that figures show, and those cells; at least one.

    A row has both latencies (``latency_s``, ``other_s``), the ``speed_up`` of the other machine, and the ``predicted``
    one: the ratio of the rates that the roofs allow at the model's intensity by footprint, empty where one of them was
    not measured.
    """
    available.machines(paper)
    first = paper.shown[0]
    found = []
    for other in paper.machines:
        shared = pd.DataFrame() if other is first else _shared(first, other)
        if not shared.empty:
            found.append((other, shared))
    if not found:
        raise available.DataMissingError(
            f"No other machine in the cache shares a cell with the {available.title(first)}; to compare it with one, "
            "run python -m measure there and copy its folder from data/machines into this one."
        )
    return found


def _shared(first: Machine, other: Machine) -> pd.DataFrame:
    """The cells of both machines; empty where one of them has none."""
    sides = [or_missing(available.cells)(machine) for machine in (first, other)]
    frames = [side for side in sides if isinstance(side, pd.DataFrame)]
    if len(frames) < 2:
        return pd.DataFrame()
    rows = frames[0].merge(frames[1], on=CELL, suffixes=("", "_other"))
    return pd.DataFrame(
        {
            "model": rows.model,
            "batch": rows.batch,
            "latency_s": rows.latency_s,
            "other_s": rows.latency_s_other,
            "speed_up": rows.latency_s / rows.latency_s_other,
            "predicted": rows.attainable_flop_per_s_other / rows.attainable_flop_per_s,
        }
    ).sort_values(CELL)
