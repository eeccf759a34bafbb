"""The printed theoretical times of training steps: FLOP over peak, which a line of arithmetic checks."""

from collections.abc import Iterator
from typing import Any

from report.load.counting_programs import name
from report.load.paper import Paper
from report.published import counts
from report.published.counts import COUNTED
from report.published.steps import step_counts
from report.published.verdict import OPEN, Comparison, Verdict, judge
from report.text.frame_rows import each

MILLISECONDS = "the time in milliseconds, printed as seconds"

ROUNDED_COUNTS = 0.05
"""Studies print counts at two digits and take them from each other: up to this share one is recognised."""


def comparisons(paper: Paper) -> Iterator[Comparison]:
    """Two of each estimate: the FLOP that it begins with, and the time that follows from them."""
    batches = {(row.study, row.model): int(row.batch) for row in each(paper.training_steps)}
    for row in each(paper.published.step_estimates):
        yield _flop(paper, row, batches.get((row.study, row.model)))
        yield _time(row)


def _flop(paper: Paper, row: Any, batch: int | None) -> Comparison:
    """The FLOP of a step at the batch size at which the study measured that model."""
    asked = None if batch is None else counts.workload(paper, row.model_key, batch)
    ours = None if asked is None else counts.step_flop(asked)
    if batch is None:
        verdict = Verdict(OPEN, "it does not say at which batch size")
    elif ours is None:
        verdict = Verdict(OPEN, f"the step has not been counted; {counts.command(row.model_key, batch)} does")
    else:
        verdict = _recognised(paper, row, batch, ours)
    return Comparison(
        row.study,
        f"{row.model}, {row.gpu}",
        "FLOP, estimate",
        "FLOP",
        row.flop,
        ours,
        COUNTED if ours else "",
        verdict,
    )


def _recognised(paper: Paper, row: Any, batch: int, ours: float) -> Verdict:
    """Ours, a count by another rule, or roughly that, or what another counter gives."""
    rules = step_counts(paper, row.model_key, batch)
    verdict = judge(row.flop, row.flop_rounding, ours, rules)
    if not verdict.explained:
        rough = {f"about {what}": value for what, value in rules.items()}
        verdict = judge(row.flop, row.flop_rounding, ours, rough, ROUNDED_COUNTS)
    if not verdict.explained:
        others = {
            f"about the multiply-adds of {row.model_key}'s forward pass alone by {name(counter)}": batch * mac
            for counter, mac in counts.counters(paper, row.model_key, None).items()
        }
        nearest = dict(sorted(others.items(), key=lambda pair: abs(pair[1] - row.flop)))
        verdict = judge(row.flop, row.flop_rounding, ours, nearest, ROUNDED_COUNTS)
    return verdict


def _time(row: Any) -> Comparison:
    ours = float(row.flop / row.peak_flop_per_s)
    verdict = judge(row.time_s_as_printed, row.time_s_as_printed_rounding, ours, {MILLISECONDS: 1000 * ours})
    return Comparison(
        row.study,
        f"{row.model}, {row.gpu}",
        "theoretical time",
        "s",
        row.time_s_as_printed,
        ours,
        "arithmetic",
        verdict,
    )
