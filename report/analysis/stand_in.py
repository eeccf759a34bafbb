"""The GPU that stands in where none was measured here: one on which others timed models of this paper.

A rule chooses it: of the GPUs whose datasheet is known it is the one with most of the paper's models at their inputs,
timed as plainly as here: in eager mode, at the base precision, without autocast.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

from measure.domain.roofs import Roofline
from measure.domain.words import INFERENCE
from report.analysis.elsewhere import CONDITIONS
from report.load.elsewhere import RATES, under_roof
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import each, matching
from report.text.prose import number

COPIED = "yes"
"""Where the copy of the input is within a time, as ``PublishedTiming`` writes it."""

ASKED = ("forward_flop", "footprint_byte", "parameter_count", "activation_byte", "traffic_byte")
"""What cells tell of their models: over batch sizes each is a line, and so exact between two that were counted."""


@dataclass(frozen=True, eq=False)
class StandIn:
    """A GPU that others timed: its name, the bibliography's keys of the source, and its roof by the datasheet.

    ``input_copied`` is whether the copy of the input to the GPU is within the times. ``cells`` have the columns of a
    machine's cells (``report.load.cells``) that follow from a latency without an interval.
    """

    device: str
    source: str
    input_copied: bool
    roof: Roofline
    cells: pd.DataFrame

    @property
    def batches(self) -> str:
        """The batch sizes at which it was timed, in words."""
        least, most = self.cells.batch.min(), self.cells.batch.max()
        return f"batch size {least}" if least == most else f"batch sizes {least} to {most}"

    @property
    def described(self) -> str:
        """What a figure's description says of it."""
        models = number(self.cells.model.nunique(), "model")
        return f"the {self.device}, on which others ({self.source}) timed {models} at {self.batches}"


@lru_cache(maxsize=8)
def of(paper: Paper) -> StandIn | None:
    """Return the GPU that stands in; None where one was measured here, or where others timed none of the models.

    Of several with as many models one whose times leave out the copy of the input goes first; then one with a single
    rate at the base precision, since torch may run convolutions at fp32 in TF32 where a chip has that; then
    the one with the highest peak.
    """
    if paper.machine("gpu") is not None:
        return None
    groups = [rows for _, rows in _timed(paper).groupby(["device", *CONDITIONS])]
    if not groups:
        return None
    chips = paper.chips[paper.chips.precision.isin(RATES[BASE_PRECISION])]
    rates = chips.groupby("chip").precision.nunique()

    def rank(rows: pd.DataFrame) -> tuple[Any, ...]:
        first = rows.iloc[0]
        plain = first.input_copied != COPIED, rates[first.device] == 1
        return rows.model.nunique(), *plain, first.peak_flop_per_s

    best = max(groups, key=rank)
    first = best.iloc[0]
    return StandIn(
        device=first.device,
        source=first.source,
        input_copied=first.input_copied == COPIED,
        roof=Roofline(first.peak_flop_per_s, first.bandwidth_byte_per_s),
        cells=best.drop_duplicates(["model", "batch"]).reset_index(drop=True),
    )


def _timed(paper: Paper) -> pd.DataFrame:
    """Return the cells of GPUs with a datasheet that others timed so, at inputs and batch sizes that were counted."""
    gpus = set(matching(paper.chips, chip_kind="gpu").chip)
    rows = matching(paper.elsewhere.timings, phase=INFERENCE, precision=BASE_PRECISION, autocast="", compiler="")
    rows = rows[rows.device.isin(gpus) & rows.peak_flop_per_s.notna()]
    workloads = matching(paper.workloads, precision=BASE_PRECISION).sort_values("batch")
    asked = {str(model): counted for model, counted in workloads.groupby("model")}
    shown = [row.model in asked and _is_shown(row, asked[row.model]) for row in each(rows)]
    rows = rows[pd.Series(shown, rows.index, dtype=bool)]
    counts = {
        column: [np.interp(row.batch, asked[row.model].batch, asked[row.model][column]) for row in each(rows)]
        for column in ASKED
    }
    rows = rows.assign(**counts, family=[asked[model].family.iloc[0] for model in rows.model])
    intensity = rows.forward_flop / rows.footprint_byte
    return under_roof(rows.assign(flop=rows.forward_flop), intensity).assign(
        footprint_intensity=intensity,
        operator_bound_s=np.nan,  # its operators would take a measured roof
    )


def _is_shown(row: Any, asked: pd.DataFrame) -> bool:
    """Return whether a timing is at the input at which the paper shows its model, and between batch sizes counted."""
    if pd.isna(row.input_size) or not asked.batch.min() <= row.batch <= asked.batch.max():
        return False
    return bool(asked.input_shape.iloc[0].endswith(f"x{row.input_size:.0f}" * 2))
