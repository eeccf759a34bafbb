"""The printed forward and backward passes beside exact counts and our measured steps."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from report.analysis import available
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.load.printed import BACKWARD_TO_FORWARD, FLOP
from report.published import counts
from report.published.agreement import Measured, counted, interval_between
from report.published.verdict import (
    DIFFERS,
    NOT_COMPARABLE,
    Comparison,
    Verdict,
    compares,
    judge,
    judge_measured,
    printed,
)
from report.text.frame_rows import each, highest, matching
from report.text.prose import command

LINEAR_ONLY = "the backward pass of the linear layers alone; that of convolutions is missing"
ONE_GRADIENT = "the backward pass with one of its two gradients, that of the weights"

STAGES = ("forward", "backward")

ANOTHER_CHIP = "because it was measured on another chip, where the passes take other shares"


@compares("training", 3)
def comparisons(paper: Paper) -> Iterator[Comparison]:
    """Yield of each row its forward and its backward pass, where they are printed, and their ratio."""
    rows = paper.published.training
    for row in each(rows):
        if row.quantity == FLOP:
            yield from _flop(paper, row, _repeated(rows, row))
        else:
            yield from _times(row)
            yield _time_ratio(paper, row)


def _repeated(rows: pd.DataFrame, row: Any) -> int:
    """Count the models for which the study prints this very ratio of this quantity."""
    same = matching(rows, study=row.study, quantity=row.quantity, ratio_as_printed=row.ratio_as_printed)
    return int(same.model.nunique())


def _name(row: Any) -> str:
    return row.model if pd.isna(row.batch) else f"{row.model}, batch size {row.batch:.0f}"


def _batch(row: Any) -> int:
    """Return the row's batch size; a ratio does not depend on it, so without one that at which training is shown."""
    return available.TRAINING_BATCH if pd.isna(row.batch) else int(row.batch)


def _turned(row: Any, forward: float, backward: float) -> float:
    """Return the ratio the way round that the row prints it."""
    return backward / forward if row.ratio_means == BACKWARD_TO_FORWARD else forward / backward


def _flop(paper: Paper, row: Any, models: int) -> Iterator[Comparison]:
    """Compare the passes and their ratio, which the study prints for so many models."""
    batch = _batch(row)
    asked = counts.workload(paper, row.model, batch)
    ours: dict[str, float] = {}
    others: dict[str, dict[str, float]] = {"forward": {}, "backward": {}, "ratio": {}}
    if asked is not None and pd.notna(asked.backward_flop):
        forward, backward = float(asked.forward_flop), float(asked.backward_flop)
        ours = {"forward": forward, "backward": backward}
        if forward and backward:
            ours["ratio"] = _turned(row, forward, backward)
        others["forward"] = {"the forward pass of one input": forward / batch}
        cell = {"model": row.model, "batch": batch, "precision": BASE_PRECISION}
        linear = matching(paper.layers, **cell, layer_kind="linear").backward_flop.astype(float).sum()
        others["backward"] = {LINEAR_ONLY: float(linear), ONE_GRADIENT: forward}
        others["ratio"] = {what: _turned(row, forward, flop) for what, flop in others["backward"].items() if flop > 0}
    missing = Verdict(NOT_COMPARABLE, f"its step has not been counted; {counts.counting(row.model, batch)} counts it")
    for stage in STAGES:
        figure, rounding = printed(row, stage)
        if pd.notna(figure):
            verdict = judge(figure, rounding, ours[stage], others[stage]) if ours else missing
            yield Comparison(row.study, _name(row), f"FLOP, {stage}", "FLOP", figure, ours.get(stage), verdict)
    figure, rounding = printed(row, "ratio_as_printed")
    ratio, verdict = ours.get("ratio"), missing
    if ours:
        verdict = judge(figure, rounding, ratio, others["ratio"])
    if models > 1 and not verdict.explained:
        verdict = Verdict(DIFFERS, f"because the same number stands for {models} models, whose ratios are their own")
    yield Comparison(row.study, _name(row), f"FLOP, {row.ratio_means}", "", figure, ratio, verdict)


def _times(row: Any) -> Iterator[Comparison]:
    """Yield the times of a chip that is not named: nothing to compare with."""
    verdict = Verdict(NOT_COMPARABLE, "it does not say on which chip, which decides a time")
    for stage in STAGES:
        figure, _ = printed(row, stage)
        if pd.notna(figure):
            yield Comparison(row.study, _name(row), f"time, {stage}", "s", figure, None, verdict)


def trained(machine: Machine, model: str, batch: float) -> Any | None:
    """Return the step of a model that a machine took at a batch size, else at the largest; None where it took none."""
    rows = matching(machine.steps, model=model, precision=BASE_PRECISION).dropna(subset="time_ratio")
    asked = matching(rows, batch=None if pd.isna(batch) else batch)
    return None if rows.empty else highest(rows if asked.empty else asked, "batch")


def time_ratio(step: Any) -> Measured:
    """Return the backward pass's time over the forward pass's."""
    ends = interval_between(float(step.time_ratio_low), float(step.time_ratio_high))
    return Measured(float(step.time_ratio), ends)


def measured(paper: Paper, model: str, batch: float) -> tuple[str, Any] | None:
    """Return the first machine shown that trained a model at a batch size (NaN: any), and its row."""
    found = ((available.title(machine), trained(machine, model, batch)) for machine in paper.shown)
    alike = ((title, step) for title, step in found if step is not None and (pd.isna(batch) or step.batch == batch))
    return next(alike, None)


def _time_ratio(paper: Paper, row: Any) -> Comparison:
    """Compare the ratio of the times, which machines share more than the times, with ours as we measured it."""
    figure, rounding = printed(row, "ratio_as_printed")
    quantity = f"time, {row.ratio_means}"
    found = measured(paper, row.model, row.batch)
    if found is None:
        reason = (
            "no such step was measured; "
            + command(
                f"python -m measure --sections workload training --models {row.model} "
                f"--training-batch-sizes {_batch(row)}"
            )
            + " measures it"
        )
        return Comparison(row.study, _name(row), quantity, "", figure, None, Verdict(NOT_COMPARABLE, reason))
    title, step = found
    ours = time_ratio(step)
    if row.ratio_means != BACKWARD_TO_FORWARD:
        ours = counted(1).over(ours)
    verdict = judge_measured(figure, rounding, ours, ANOTHER_CHIP)
    return Comparison(row.study, _name(row), quantity, "", figure, ours.value, verdict, ours.interval, title)
