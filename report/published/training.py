"""The printed forward and backward passes beside exact counts and our measured steps."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from measure.cache.hand_kept import BACKWARD_TO_FORWARD, FLOP
from report.analysis import available
from report.load.paper import BASE_PRECISION, Paper
from report.published import counts
from report.published.counts import COUNTED
from report.published.verdict import (
    DIFFERS,
    MEASURED_TOLERANCE,
    OPEN,
    Comparison,
    Verdict,
    interval_between,
    judge,
)
from report.text.frame_rows import each

LINEAR_ONLY = "the backward pass of the linear layers alone; that of convolutions is missing"
ONE_GRADIENT = "the backward pass with one of its two gradients, that of the weights"

ROUGH = 0.05
"""Up to this share a ratio that is printed at two digits is recognised as another quantity's."""


def comparisons(paper: Paper) -> Iterator[Comparison]:
    """Of each row its forward and its backward pass, where they are printed, and their ratio."""
    rows = paper.published.training
    for row in each(rows):
        if row.quantity == FLOP:
            yield from _flop(paper, row, repeated(rows, row))
        else:
            yield from _times(row)
            yield _time_ratio(paper, row)


def repeated(rows: pd.DataFrame, row: Any) -> int:
    """Of how many models the study prints this very ratio of this quantity."""
    same = rows[(rows.study == row.study) & (rows.quantity == row.quantity)]
    return int(same[same.ratio_as_printed == row.ratio_as_printed].model.nunique())


def linear_backward_flop(paper: Paper, model: str, batch: int) -> float:
    """The backward products of the linear layers of a model."""
    rows = paper.layers
    rows = rows[(rows.model == model) & (rows.batch == batch) & (rows.precision == BASE_PRECISION)]
    return float(rows[rows.kind == "linear"].backward_flop.astype(float).sum())


def _name(row: Any) -> str:
    return row.model if pd.isna(row.batch) else f"{row.model}, batch size {row.batch:.0f}"


def _turned(row: Any, forward: float, backward: float) -> float:
    """The ratio the way round that the row prints it."""
    return backward / forward if row.ratio_means == BACKWARD_TO_FORWARD else forward / backward


def _flop(paper: Paper, row: Any, models: int) -> Iterator[Comparison]:
    """A ratio does not depend on the batch size: without one, ours is that of the batch size training is shown at."""
    batch = available.TRAINING_BATCH if pd.isna(row.batch) else int(row.batch)
    asked = counts.workload(paper, row.model, batch)
    missing = Verdict(OPEN, f"its step has not been counted; {counts.command(row.model, batch)} counts it")
    linear = linear_backward_flop(paper, row.model, batch)
    forward = backward = None
    if asked is not None and pd.notna(asked.backward_flop):
        forward, backward = float(asked.forward_flop), float(asked.backward_flop)
    known = forward is not None
    source = COUNTED if known else ""
    others: dict[str, dict[str, float]] = {"forward": {}, "backward": {}, "ratio": {}}
    if forward is not None:
        others["forward"]["the forward pass of one input"] = forward / batch
        others["backward"] |= {LINEAR_ONLY: linear, ONE_GRADIENT: forward}
        others["ratio"] = {
            what: _turned(row, forward, value) for what, value in others["backward"].items() if value > 0
        }
    for stage, ours in (("forward", forward), ("backward", backward)):
        printed = getattr(row, stage)
        if pd.notna(printed):
            verdict = (
                judge(printed, getattr(row, f"{stage}_rounding"), ours, others[stage]) if known else missing
            )
            yield Comparison(row.study, _name(row), f"FLOP, {stage}", "FLOP", printed, ours, source, verdict)
    ratio = _turned(row, forward, backward) if forward and backward else None
    verdict = missing
    if known:
        verdict = judge(row.ratio_as_printed, row.ratio_as_printed_rounding, ratio, others["ratio"])
        if not verdict.explained:
            verdict = judge(
                row.ratio_as_printed, row.ratio_as_printed_rounding, ratio, others["ratio"], ROUGH
            )
    if models > 1 and not verdict.explained:
        verdict = Verdict(
            DIFFERS, f"because the same number stands for {models} models, whose ratios are their own"
        )
    yield Comparison(
        row.study, _name(row), f"FLOP, {row.ratio_means}", "", row.ratio_as_printed, ratio, source, verdict
    )


def _times(row: Any) -> Iterator[Comparison]:
    """Times of a chip that is not named: nothing to compare with."""
    for stage in ("forward", "backward"):
        printed = getattr(row, stage)
        if pd.notna(printed):
            verdict = Verdict(OPEN, "it does not say on which chip, which decides a time")
            yield Comparison(row.study, _name(row), f"time, {stage}", "s", printed, None, "", verdict)


def measured(paper: Paper, model: str, batch: float) -> tuple[str, Any] | None:
    """The first machine that figures show that trained a model at a batch size (any: the largest), and its row."""
    for machine in paper.shown:
        rows = machine.steps
        if rows.empty:
            continue
        rows = rows[(rows.model == model) & (rows.precision == BASE_PRECISION) & rows.time_ratio.notna()]
        rows = rows if pd.isna(batch) else rows[rows.batch == batch]
        if not rows.empty:
            return available.title(machine), rows.sort_values("batch").iloc[-1]
    return None


def _time_ratio(paper: Paper, row: Any) -> Comparison:
    """The ratio of the times, which machines share more than the times; with ours, as we measured it."""
    printed, rounding = row.ratio_as_printed, row.ratio_as_printed_rounding
    quantity = f"time, {row.ratio_means}"
    found = measured(paper, row.model, row.batch)
    if found is None:
        size = available.TRAINING_BATCH if pd.isna(row.batch) else int(row.batch)
        reason = (
            f"no such step was measured; python -m measure --sections workload training --models {row.model} "
            f"--training-batch-sizes {size} measures it"
        )
        return Comparison(row.study, _name(row), quantity, "", printed, None, "", Verdict(OPEN, reason))
    title, step = found
    ours = _turned(row, 1.0, float(step.time_ratio))
    ends = (_turned(row, 1.0, float(step.time_ratio_low)), _turned(row, 1.0, float(step.time_ratio_high)))
    interval = interval_between(*ends)
    uncertain = max(abs(end - ours) for end in interval) if interval else 0.0
    verdict = judge(printed, max(rounding, uncertain), ours, {}, MEASURED_TOLERANCE)
    if not verdict.explained:
        verdict = Verdict(
            DIFFERS, "because it was measured on another chip, where the passes take other shares"
        )
    return Comparison(row.study, _name(row), quantity, "", printed, ours, title, verdict, interval, True)
