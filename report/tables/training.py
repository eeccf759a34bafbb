"""The tables of training: backward beside forward, and steps beside the least times of what they ask for."""

from typing import Any

import pandas as pd

from report.analysis import available, ratio_reasons
from report.analysis.available import or_missing
from report.load.chips import KINDS
from report.load.paper import BASE_PRECISION, Paper
from report.tables.pipe import LEFT, NONE, RIGHT, between, pipe
from report.text.frame_rows import each
from report.text.prose import escape
from report.text.quantities import SPACE, percent, si, significant


def _known(value: float, unit: str) -> str:
    return NONE if pd.isna(value) else si(value, unit)


def _ratio(row: Any) -> str:
    """The measured ratio with its interval."""
    middle = significant(row.time_ratio)
    if pd.isna(row.time_ratio_low):
        return middle
    return f"{middle} ({significant(row.time_ratio_low)}{SPACE}to{SPACE}{significant(row.time_ratio_high)})"


@or_missing
def ratios(paper: Paper) -> str:
    """Forward and backward pass of every training cell of the machines shown, the highest ratio in time first."""
    cells = available.rows_of_each(paper, lambda of: ratio_reasons.explained(paper, of))
    header = [("Device", LEFT), ("Model", LEFT), ("Batch", RIGHT), ("Forward", RIGHT), ("Backward", RIGHT)]
    header += [("Ratio in time", RIGHT), ("In FLOP", RIGHT), ("Of peak", RIGHT), ("Difference", LEFT)]
    return pipe(
        header,
        [
            [
                row.device, escape(row.model), str(row.batch), si(row.forward_s, "s"), si(row.backward_s, "s"),
                _ratio(row), significant(row.flop_ratio, 4),
                _both(row.forward_peak_share, row.backward_peak_share),
                escape(row.reason) or NONE,
            ]
            for row in each(cells.sort_values(["device", "batch", "time_ratio"], ascending=[True, True, False]))
        ],
    )  # fmt: skip


def _both(forward: float, backward: float) -> str:
    return NONE if pd.isna(forward) else f"{percent(forward)}; {percent(backward)}"


@or_missing
def steps(paper: Paper) -> str:
    """Every training cell of the machines shown beside its least times and its memory, failed ones with a reason."""
    available.machines(paper)
    tried = [machine.steps.assign(device=KINDS[machine.kind]) for machine in paper.shown]
    cells = pd.concat(tried, ignore_index=True)
    cells = cells[cells.precision == BASE_PRECISION].sort_values(["device", "batch", "model"])
    if cells.empty:
        available.rows_of_each(paper, available.steps)
    header = [("Device", LEFT), ("Model", LEFT), ("Batch", RIGHT), ("Step", RIGHT), ("95 % interval", RIGHT)]
    header += [("FLOP at peak", RIGHT), ("By operators", RIGHT), ("Step over it", RIGHT)]
    header += [("Memory", RIGHT), ("Counted", RIGHT)]
    return pipe(header, [_step(row) for row in each(cells)])


def _step(row: Any) -> list[str]:
    name = [row.device, escape(row.model), str(row.batch)]
    bounds = [_known(row.flop_bound_s, "s"), _known(row.operator_bound_s, "s")]
    memory = _known(row.training_peak_byte, "B")
    if row.status != "ok" or pd.isna(row.latency_s):
        why = f"{row.status}: {row.reason}" if isinstance(row.reason, str) else row.status
        return [*name, NONE, escape(why), *bounds, NONE, NONE, memory]
    enclosed = NONE if pd.isna(row.latency_low_s) else between(row.latency_low_s, row.latency_high_s, "s")
    times = row.latency_s / row.operator_bound_s
    over = NONE if pd.isna(times) else significant(times)
    return [*name, si(row.latency_s, "s"), enclosed, *bounds, over, _known(row.peak_byte, "B"), memory]
