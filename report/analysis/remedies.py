"""What would make a cell faster: the largest term of its waterfall, and a remedy for it by rule."""

from typing import Any

import pandas as pd

from report.analysis.operator_groups import GROUPS
from report.analysis.waterfall import BOUND, RESIDUAL, terms
from report.load.cells import INFERENCE_CELL
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import each, matching

LARGER_BATCH, KEPT_MEMORY, FUSION, LOWER_PRECISION = ("larger batch", "kept memory", "fusion", "lower precision")
OTHER_LAYOUT, NOTHING, AGAIN = "other layout", "nothing left to gain", "measure again"

HALF = 0.5
"""A larger batch is the remedy where one that was profiled brings the term of each input to this share or less, and
kept memory where the operating system takes this share of a group's term or more."""

ARITHMETIC = (BOUND, "matrix product")
"""Terms that a lower precision shortens, on a machine that is faster at one."""

BY_TERM = {RESIDUAL: AGAIN, "convolution": OTHER_LAYOUT, "depthwise convolution": OTHER_LAYOUT}
"""The remedies of other terms. What stands nowhere here moves bytes or waits for launches: fusion saves both."""


def largest(paper: Paper, machine: Machine) -> pd.DataFrame:
    """One row is a profiled cell: its largest ``term``, that term's ``share`` of the latency, and its ``remedy``."""
    rows = terms(paper, machine)
    most = rows.loc[rows.groupby(INFERENCE_CELL).time_s.idxmax()]
    return most.assign(remedy=[_remedy(row, rows, machine) for row in each(most)])


def _remedy(row: Any, rows: pd.DataFrame, machine: Machine) -> str:
    larger = matching(rows[rows.batch > row.batch], model=row.model, term=row.term)
    if row.term != RESIDUAL and (larger.time_s / larger.batch <= HALF * row.time_s / row.batch).any():
        return LARGER_BATCH
    if row.term in GROUPS and row.system_share >= HALF * row.share:
        return KEPT_MEMORY
    if row.term in ARITHMETIC:
        peaks = machine.roofs.set_index("precision").peak_flop_per_s
        return LOWER_PRECISION if peaks.max() > peaks[BASE_PRECISION] else NOTHING
    return BY_TERM.get(row.term, FUSION)
