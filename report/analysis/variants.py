"""Variants of cells of inference, such as another layout of memory, against the same cells in eager mode."""

import pandas as pd

from measure.cache.records import EAGER
from measure.cache.variants import VARIANTS
from report.analysis import available
from report.analysis.available import DataMissingError
from report.load.cells import INFERENCE_CELL
from report.load.paper import Machine


def compared(of: Machine, precision: str | None = None) -> pd.DataFrame:
    """One row is a measured cell of a variant, with the ``speed_up`` over eager mode; at least one.

    Of one precision, or of all where it is None. ``eager_s`` is the latency (s) of the same cell in eager mode.
    """
    rows = of.variants[(of.variants.status == "ok") & of.variants.latency_s.notna()]
    if precision is not None:
        rows = rows[rows.precision == precision]
    if not rows.empty:
        eager = available.cells(of, precision)[[*INFERENCE_CELL, "latency_s"]]
        rows = rows.merge(eager.rename(columns={"latency_s": "eager_s"}), on=INFERENCE_CELL)
    if rows.empty:
        worth_a_trial = " ".join(each.name for each in VARIANTS if of.kind in each.tried_on)
        flag = "" if precision is None else f" --precisions {precision}"
        raise DataMissingError(
            f"No cell of the {available.title(of)} has been measured in eager mode and as a variant"
            f"{'' if precision is None else f' at {precision}'}; python -m measure --device {of.environment.device} "
            f"--sections workload inference{flag} --variants {EAGER} {worth_a_trial} measures some."
        )
    return rows.assign(speed_up=rows.eager_s / rows.latency_s)
