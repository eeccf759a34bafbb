"""Variants of cells of inference, such as another layout of memory, against the same cells in eager mode."""

import pandas as pd

from measure.cache.variants import VARIANTS
from measure.cache.words import EAGER
from report.analysis import available
from report.load.cells import INFERENCE_CELL
from report.load.paper import Machine
from report.text.frame_rows import matching


def compared(machine: Machine, precision: str | None = None) -> pd.DataFrame:
    """One row is a measured cell of a variant, with the ``speed_up`` over eager mode; at least one.

    Of one precision, or of all where it is None. ``eager_s`` is the latency (s) of the same cell in eager mode.
    """
    at, flags = ("", "") if precision is None else (f" at {precision}", f"--precisions {precision} ")
    what = f"No cell of the {available.title(machine)} has been measured in eager mode and as a variant{at}"
    worth_a_trial = " ".join(variant.name for variant in VARIANTS if machine.chip_kind in variant.tried_on)
    flags += f"--variants {EAGER} {worth_a_trial}"
    gap = available.missing_on(machine, what, "workload", "inference", flags=flags, does="measures some")
    rows = matching(machine.variants, status="ok", precision=precision)
    rows = available.at_least_one(rows[rows.latency_s.notna()], gap)
    eager = available.cells(machine, precision)[[*INFERENCE_CELL, "latency_s"]]
    rows = rows.merge(eager.rename(columns={"latency_s": "eager_s"}), on=INFERENCE_CELL)
    return available.at_least_one(rows, gap).assign(speed_up=rows.eager_s / rows.latency_s)
