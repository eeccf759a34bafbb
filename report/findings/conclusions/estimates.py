"""What misleads whoever reckons instead of measuring: FLOP, predictors, datasheets, printed figures."""

from math import isnan

from report.analysis import available, datasheet
from report.analysis.available import DataMissingError
from report.analysis.effect import Effect, median_of
from report.analysis.predictors import FLOP, common_batches
from report.findings.conclusions.conclusion import LITTLE, Conclusion, largest, told
from report.findings.conclusions.spread import apart, closer
from report.findings.predictors import ranked_of
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.published.comparisons import comparisons
from report.published.verdict import DIFFERS, OPEN, Comparison
from report.text.frame_rows import highest, lowest
from report.text.quantities import number, si, significant

CHARTS = {"cpu": "fig-latency-cpu", "gpu": "fig-latency-gpu"}
"""Where latencies stand against predictors, by the kind of machine."""


def flop(paper: Paper, of: Machine) -> Conclusion:
    """By what factor two models differ in the time that a FLOP takes."""
    cells, title = available.cells(of), available.title(of)
    cells = cells[cells.forward_flop > 0]
    groups = {batch: cells[cells.batch == batch] for batch in common_batches(cells)}
    effects = {
        batch: apart(own.latency_s / own.forward_flop, own.model)
        for batch, own in groups.items()
        if len(own) > 1
    }
    if not effects:
        raise DataMissingError(
            f"Too few models were measured on the {title} to hold one against another; python -m measure --device "
            f"{of.environment.device} measures more."
        )
    batch = largest(effects)
    slow, quick = lowest(groups[batch], "flop_per_s"), highest(groups[batch], "flop_per_s")
    advice = "do not scale" if effects[batch].factor > LITTLE else "scale"
    return Conclusion(
        "FLOP",
        effects[batch],
        title,
        f"{advice} one model's time to another by their FLOP: the time for a FLOP differs between two models by a "
        f"factor of {told(effects, 'all pairs of ')}. At {batch} the extremes are {slow.model} with "
        f"{si(slow.flop_per_s, 'FLOP/s')} and {quick.model} with {si(quick.flop_per_s, 'FLOP/s')}.",
        f"the time for a FLOP differs between two models by a factor of {effects[batch]} at batch size {batch}",
        (CHARTS[of.kind], "fig-on-roof"),
    )


def predictor(paper: Paper, of: Machine) -> Conclusion:
    """How much nearer latencies are to the line through the best predictor than to that through FLOP.

    Where FLOP are the best, than to that through the second best.
    """
    title = available.title(of)
    batch, ranks = next((batch, ranks) for batch, ranks in ranked_of(of).items() if batch is not None)
    others = [rank for rank in ranks[1:] if rank.predictor == FLOP or ranks[0].predictor == FLOP]
    if not others:
        raise DataMissingError(f"On the {title} no predictor of latency can be held against FLOP.")
    best, other = ranks[0], others[0]
    columns = best.predictor.column, other.predictor.column
    rows = available.cells(of)
    rows = rows[(rows.batch == batch) & (rows[list(columns)] > 0).all(axis=1)]
    effect = closer(rows[columns[0]], rows[columns[1]], rows.latency_s, rows.model)
    near, far = (best, other) if effect.factor >= 1 else (other, best)
    joint = "not" if effect.side else "or"
    return Conclusion(
        "Estimating a latency",
        effect,
        title,
        f"estimate a latency by {near.predictor.name}, {joint} by {far.predictor.name}: at batch size {batch} half of "
        f"{number(effect.count, 'model')} are off the line through {far.predictor.name} by more than a factor of "
        f"{significant(far.law.typical_factor)}, off that through {near.predictor.name} by more than "
        f"{significant(near.law.typical_factor)}; the error of {other.predictor.name} over that of "
        f"{best.predictor.name} is {effect}.",
        f"{other.predictor.name} err by {effect} times as much as {best.predictor.name} at batch size {batch}",
        (CHARTS[of.kind], "tbl-predictors"),
    )


def peak(paper: Paper, of: Machine) -> Conclusion:
    """The datasheet's peak over the measured one."""
    measured = available.roof(of)
    printed = datasheet.roof(paper, of, BASE_PRECISION)
    if printed is None:
        raise DataMissingError(datasheet.gap(paper, of, BASE_PRECISION))
    row, over = of.roofs[of.roofs.precision == BASE_PRECISION].iloc[0], printed.peak_flop_per_s
    low, high = float(over / row.peak_high_flop_per_s), float(over / row.peak_low_flop_per_s)
    effect = Effect(over / measured.peak_flop_per_s, None if isnan(low + high) else (low, high), 1)
    advice = {
        1: "reckon with the measured peak, not with the datasheet's",
        0: "reckon with the datasheet's peak",
        -1: "do not take the datasheet's peak for a bound",
    }[effect.side]
    return Conclusion(
        "Peak",
        effect,
        available.title(of),
        f"{advice}: at {BASE_PRECISION} it is {effect} times the measured one.",
        f"the datasheet's {BASE_PRECISION} peak is {effect} times the measured one",
        ("tbl-datasheet", "fig-hierarchy"),
    )


def printed_figures(paper: Paper) -> Conclusion:
    """How many printed figures differ from ours, and by what factor, whichever of the two is larger."""
    found = [row for row in comparisons(paper) if row.verdict.outcome != OPEN]
    if not found:
        raise DataMissingError(
            "No printed figure has one of ours beside it; python -m measure --sections workload counts what most of "
            "them need."
        )
    wrong = [row for row in found if row.verdict.outcome == DIFFERS]
    beside = [row for row in wrong if row.ratio]
    studies = number(len({row.study for row in found}), "study", "studies")
    text = f"of {number(len(found), 'printed figure')} of {studies} that can be compared, {len(wrong) or 'none'} differ"
    effect, advice, most = Effect(1.0, None, 0), "build on printed figures", ""
    if beside:
        effect, farthest = median_of(map(_off, beside)), max(beside, key=_off)
        advice = "recompute a printed figure before you build on it"
        text += f", by a factor of {effect} in the median of these"
        most = f", by {significant(_off(farthest), 2)} at the most ({farthest.subject}: {farthest.quantity})"
    return Conclusion(
        "Printed figures",
        effect,
        "",
        f"{advice}: {text}{most}.",
        text,
        ("fig-published-flop", "sec-published"),
    )


def _off(row: Comparison) -> float:
    """The factor between a printed figure and ours."""
    assert row.ratio is not None
    return max(row.ratio, 1 / row.ratio)
