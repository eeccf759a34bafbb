"""The printed theoretical times of training steps: FLOP over peak, which a line of arithmetic checks."""

from collections.abc import Iterator
from typing import Any

from report.load.counting_programs import name
from report.load.paper import Paper
from report.published import counts
from report.published.comparisons import compares
from report.published.counts import COUNTED
from report.published.steps import step_counts
from report.published.verdict import OPEN, Comparison, Verdict, judge, printed
from report.text.frame_rows import each

MILLISECONDS = "the time in milliseconds, printed as seconds"

ROUNDED_COUNTS = 0.05
"""Studies print counts at two digits and take them from each other: up to this share one is recognised."""


@compares("step_estimates", 5)
def comparisons(paper: Paper) -> Iterator[Comparison]:
    """Yield two of each estimate: the FLOP that it begins with, and the time that follows from them."""
    batches = {(row.study, row.model): int(row.batch) for row in each(paper.training_steps)}
    for row in each(paper.published.step_estimates):
        subject = f"{row.model}, {row.gpu}"
        ours, verdict = _flop(paper, row, batches.get((row.study, row.model)))
        source = COUNTED if ours else ""
        yield Comparison(row.study, subject, "FLOP, estimate", "FLOP", row.flop, ours, source, verdict)
        time_s, rounding = printed(row, "time_s_as_printed")
        ours = float(row.flop / row.peak_flop_per_s)
        verdict = judge(time_s, rounding, ours, {MILLISECONDS: 1000 * ours})
        yield Comparison(row.study, subject, "theoretical time", "s", time_s, ours, "arithmetic", verdict)


def _flop(paper: Paper, row: Any, batch: int | None) -> tuple[float | None, Verdict]:
    """Return the FLOP of a step at the batch size at which the study measured that model, and the verdict on it.

    The printed figure is ours, a count by another rule, or roughly that, or what another program counts.
    """
    if batch is None:
        return None, Verdict(OPEN, "it does not say at which batch size")
    ours = counts.step_flop(counts.workload(paper, row.model_key, batch))
    if ours is None:
        return None, Verdict(OPEN, f"the step has not been counted; {counts.command(row.model_key, batch)} does")
    rules = step_counts(paper, row.model_key, batch)
    verdict = judge(*printed(row, "flop"), ours, rules)
    if not verdict.explained:
        rough = {f"about {what}": value for what, value in rules.items()}
        verdict = judge(*printed(row, "flop"), ours, rough, ROUNDED_COUNTS)
    if not verdict.explained:
        others = {
            f"about the multiply-adds of {row.model_key}'s forward pass alone by {name(program)}": batch * mac
            for program, mac in counts.by_program(paper, row.model_key).items()
        }
        nearest = dict(sorted(others.items(), key=lambda pair: abs(pair[1] - row.flop)))
        verdict = judge(*printed(row, "flop"), ours, nearest, ROUNDED_COUNTS)
    return ours, verdict
