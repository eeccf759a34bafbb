"""The tables of training: backward beside forward, and steps beside the least times of what they ask for."""

from typing import Any

import pandas as pd

from report import available, ratio_reasons
from report.available import or_missing
from report.chips import KINDS
from report.paper import BASE_PRECISION, Paper
from report.prose import escape
from report.quantities import SPACE, percent, si, significant
from report.rows import each
from report.tables import LEFT, NONE, RIGHT, between, pipe


def _known(value: float, text: str) -> str:
    return NONE if pd.isna(value) else text


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
    header += [
        ("Ratio in time", RIGHT),
        ("In FLOP", RIGHT),
        ("Forward of peak", RIGHT),
        ("Backward of peak", RIGHT),
    ]
    return pipe(
        [*header, ("What makes the difference", LEFT)],
        [
            [
                row.device, escape(row.model), str(row.batch), si(row.forward_s, "s"), si(row.backward_s, "s"),
                _ratio(row), significant(row.flop_ratio, 4),
                _known(row.forward_peak_share, percent(row.forward_peak_share)),
                _known(row.backward_peak_share, percent(row.backward_peak_share)),
                escape(row.reason) or NONE,
            ]
            for row in each(cells.sort_values(["device", "batch", "time_ratio"], ascending=[True, True, False]))
        ],
    )  # fmt: skip


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
    header += [("FLOP", RIGHT), ("FLOP at peak", RIGHT), ("By operators", RIGHT), ("Step over it", RIGHT)]
    header += [("Update", RIGHT), ("Memory", RIGHT), ("Counted", RIGHT)]
    return pipe(header, [_step(row) for row in each(cells)])


def _step(row: Any) -> list[str]:
    name = [row.device, escape(row.model), str(row.batch)]
    flop = row.forward_flop + row.backward_flop
    counted = [
        _known(flop, si(flop, "FLOP")), _known(row.flop_bound_s, si(row.flop_bound_s, "s")),
        _known(row.operator_bound_s, si(row.operator_bound_s, "s")),
    ]  # fmt: skip
    memory = _known(row.training_peak_byte, si(row.training_peak_byte, "B"))
    if row.status != "ok" or pd.isna(row.latency_s):
        why = f"{row.status}: {row.reason}" if row.reason else row.status
        return [*name, NONE, escape(why), *counted, NONE, NONE, NONE, memory]
    over = row.latency_s / row.operator_bound_s
    return [
        *name, si(row.latency_s, "s"),
        _known(row.latency_low_s, between(row.latency_low_s, row.latency_high_s, "s")), *counted,
        _known(over, significant(over)), percent(row.update_s / row.latency_s),
        _known(row.peak_byte, si(row.peak_byte, "B")), memory,
    ]  # fmt: skip
