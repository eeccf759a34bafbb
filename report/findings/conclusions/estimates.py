"""What misleads whoever reckons instead of measuring: FLOP, predictors, datasheets, printed figures."""

from math import isnan
from statistics import median

from measure.domain.values import significant
from report.analysis import available, datasheet
from report.analysis.available import DataMissingError, missing, missing_on
from report.analysis.effect import Effect, median_of
from report.analysis.predictors import FLOP, common_batches, comparable
from report.findings.conclusions.conclusion import (
    LITTLE,
    Answer,
    largest,
    largest_median,
    of_batches,
    of_machine,
    of_paper,
)
from report.findings.conclusions.spread import apart, closer
from report.findings.predictors import ranked_of
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.published.verdict import DIFFERS, NOT_COMPARABLE, Comparison, by_cause, comparisons
from report.text.frame_rows import extremes, matching
from report.text.prose import by_number, number, si


@of_machine(4, "FLOP", "fig-on-roof", is_margin=True)
def flop(paper: Paper, machine: Machine) -> Answer:
    """Say by what factor two models differ in the time that a FLOP takes."""
    cells = available.cells(machine)
    cells = cells[cells.forward_flop > 0]
    same = comparable(cells)
    groups = {batch: same[same.batch == batch] for batch in common_batches(same)}
    effects = {
        batch: apart(rows.latency_s / rows.forward_flop, rows.model) for batch, rows in groups.items() if len(rows) > 1
    }
    if not effects:
        what = f"Too few models were measured on the {available.title(machine)} to hold one against another"
        raise missing_on(machine, what, does="measures more")
    batch = largest(effects)
    slow, quick = extremes(groups[batch], "flop_per_s")
    advice = "do not scale" if effects[batch].factor > LITTLE else "scale"
    return (
        of_batches(effects),
        f"{advice} one model's time to another by their FLOP: the time for a FLOP differs between two models by a "
        f"factor of {largest_median(effects, 'all pairs of ')}.",
        f"The extremes are {slow.model} with {si(slow.flop_per_s, 'FLOP/s')} and {quick.model} with "
        f"{si(quick.flop_per_s, 'FLOP/s')}.",
    )


@of_machine(5, "Estimating a latency", "sec-predictors")
def predictor(paper: Paper, machine: Machine, confidence: float) -> Answer:
    """Say how much nearer latencies are to the line through the best predictor than to that through FLOP.

    Where FLOP are the best, than to that through the second best.
    """
    batch, ranks = next((batch, ranks) for batch, ranks in ranked_of(machine).items() if batch is not None)
    best, *others = ranks
    other = next((rank for rank in others if FLOP in (rank.predictor, best.predictor)), None)
    if other is None:
        raise DataMissingError(f"On the {available.title(machine)} no predictor of latency can be held against FLOP.")
    columns = best.predictor.column, other.predictor.column
    rows = matching(available.cells(machine), batch=batch)
    rows = rows[(rows[list(columns)] > 0).all(axis=1)]
    effect = closer(rows[columns[0]], rows[columns[1]], rows.latency_s, rows.model, confidence)
    near, far = (best, other) if effect.factor >= 1 else (other, best)
    joint = "not" if effect.side else "or"
    advice = f"estimate a latency by {near.predictor.name}, {joint} by {far.predictor.name}"
    return (
        {"": effect},
        f"{advice}: {other.predictor.name} err by {effect} times as much as {best.predictor.name} in the median of "
        f"{number(effect.count, 'model')} at batch size {batch}.",
        f"Half of them are off the line through {far.predictor.name} by more than a factor of "
        f"{significant(far.law.typical_factor)}, off that through {near.predictor.name} by more than "
        f"{significant(near.law.typical_factor)}.",
    )


@of_machine(6, "Peak", "fig-hierarchy", is_margin=True)
def peak(paper: Paper, machine: Machine) -> Answer:
    """Hold the datasheet's peak against the measured one."""
    measured = available.roof(machine)
    printed = datasheet.roof(paper, machine, BASE_PRECISION)
    if printed is None:
        raise DataMissingError(datasheet.gap(paper, machine, BASE_PRECISION))
    row, over = machine.roofs[machine.roofs.precision == BASE_PRECISION].iloc[0], printed.peak_flop_per_s
    low, high = float(over / row.peak_high_flop_per_s), float(over / row.peak_low_flop_per_s)
    interval = None if isnan(low + high) else (low, high)
    effect = Effect(over / measured.peak_flop_per_s, lambda _: interval, 1)
    advice = {
        1: "count on the measured peak, not on the datasheet's",
        0: "count on the datasheet's peak",
        -1: "do not take the datasheet's peak for a bound",
    }[effect.side]
    return {"": effect}, f"{advice}: at {BASE_PRECISION} it is {effect} times the measured one.", ""


@of_paper(2, "Printed figures", "fig-published-flop", "sec-published", is_margin=True)
def printed_figures(paper: Paper) -> Answer:
    """Say how many printed figures differ from ours, and by what factor, whichever of the two is larger.

    An error that stands in many rows is one cause, with the median of their factors.
    """
    found = [row for row in comparisons(paper) if row.verdict.outcome != NOT_COMPARABLE]
    if not found:
        what = "No printed figure has one of ours beside it"
        raise missing(what, sections=["workload"], does="counts what most of them need")
    wrong = [row for row in found if row.verdict.outcome == DIFFERS]
    causes = by_cause(found)
    factors = [median(map(_off, beside)) for rows in causes.values() if (beside := [row for row in rows if row.ratio])]
    text = f"{len(wrong) or 'none'} of {number(len(found), 'printed figure')} that can be compared "
    text += by_number(len(wrong), "differs", "differ")
    effect, advice, most = Effect(1.0, lambda _: None, 0), "build on printed figures", ""
    if factors:
        effect, farthest = median_of(factors), max((row for row in wrong if row.ratio), key=_off)
        advice = "recompute a printed figure before you build on it"
        text += f", by a factor of {effect} in the median of {number(len(causes), 'cause')}"
        most = f"At the most it is {significant(_off(farthest), 2)} ({farthest.subject}: {farthest.quantity})."
    return {"": effect}, f"{advice}: {text}.", most


def _off(row: Comparison) -> float:
    """Return the factor between a printed figure and ours."""
    assert row.ratio is not None
    return max(row.ratio, 1 / row.ratio)
