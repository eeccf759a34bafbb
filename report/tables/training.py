"""The tables of training: backward beside forward, and steps beside the least times of what they ask for."""

from typing import Any

import pandas as pd

from measure.domain.values import SPACE, significant
from report.analysis import available, ratio_reasons
from report.analysis.available import or_missing
from report.analysis.long_lists import listed
from report.load.paper import BASE_PRECISION, Paper
from report.tables.pipe import MEASURED_IN, NONE, between, failure, known, others, pipe
from report.text.frame_rows import each
from report.text.prose import escape, percent, si


@or_missing
def ratios(paper: Paper) -> str:
    """List forward and backward pass of the training cells of the machines shown, the highest ratio in time first."""
    found = available.rows_of_each(paper, lambda machine: ratio_reasons.explained(paper, machine))
    cells, left = listed(found, "time_ratio")
    cells = cells.sort_values(["device", "batch", "time_ratio"], ascending=[True, True, False])
    rows = [
        [
            row.device, escape(row.model), str(row.batch), si(row.forward_s, "s"), si(row.backward_s, "s"),
            _ratio(row), significant(row.flop_ratio, 4), _peak_shares(row), escape(row.reason) or NONE,
        ]
        for row in each(cells)
    ]  # fmt: skip
    header = "Device | Model | Batch > | Forward > | Backward > | Ratio in time > | In FLOP > | Of peak > | Difference"
    return pipe(header, rows + others(header, left, MEASURED_IN), of="Device")


def _ratio(row: Any) -> str:
    """Return the measured ratio with its interval."""
    middle = significant(row.time_ratio)
    if pd.isna(row.time_ratio_low):
        return middle
    return f"{middle} ({significant(row.time_ratio_low)}{SPACE}to{SPACE}{significant(row.time_ratio_high)})"


def _peak_shares(row: Any) -> str:
    if pd.isna(row.forward_peak_share):
        return NONE
    return f"{percent(row.forward_peak_share)}; {percent(row.backward_peak_share)}"


@or_missing
def steps(paper: Paper) -> str:
    """List the training cells of the machines shown beside their least times and their memory, failed ones too."""
    tried = available.rows_of_each(paper, lambda machine: machine.steps)
    cells = tried[tried.precision == BASE_PRECISION].sort_values(["device", "batch", "model"])
    if cells.empty:
        available.rows_of_each(paper, available.steps)
    cells, left = listed(cells, "latency_s")
    header = "Device | Model | Batch > | Step > | 95 % interval > | FLOP at peak > | By operators > | Step over it >"
    header += " | Memory > | Counted >"
    return pipe(header, [_step(row) for row in each(cells)] + others(header, left, MEASURED_IN), of="Device")


def _step(row: Any) -> list[str]:
    cell = [row.device, escape(row.model), str(row.batch)]
    bounds = [known(row.flop_bound_s, si, "s"), known(row.operator_bound_s, si, "s")]
    counted = known(row.training_peak_byte, si, "B")
    if row.status != "ok" or pd.isna(row.latency_s):
        return [*cell, NONE, failure(row), *bounds, NONE, NONE, counted]
    interval = between(row.latency_low_s, row.latency_high_s, "s")
    over = known(row.latency_s / row.operator_bound_s, significant)
    return [*cell, si(row.latency_s, "s"), interval, *bounds, over, known(row.peak_byte, si, "B"), counted]
