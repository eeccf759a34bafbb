"""What training steps take: backward beside forward, their rates, and the step beside its least times."""

import pandas as pd

from report.analysis import available, ratio_reasons
from report.analysis.available import on_each_machine
from report.analysis.layer_costs import at_shown_batch
from report.findings.utilisation import named
from report.findings.waterfall import counts
from report.load.paper import Machine, Paper
from report.text.frame_rows import extremes, highest
from report.text.quantities import listing, number, percent, si, significant


def span(rows: pd.DataFrame, column: str) -> str:
    """Say a median over models with both ends: ``2.1 in the median of 24 models, from 1.7 (a) to 2.9 (b)``."""
    text = f"{significant(rows[column].median())} in the median of {number(len(rows), 'model')}"
    least, most = extremes(rows, column)
    if least.model == most.model:
        return text
    return f"{text}, from {significant(least[column])} ({least.model}) to {significant(most[column])} ({most.model})"


@on_each_machine
def ratios(paper: Paper, machine: Machine) -> str:
    """Say backward over forward in time, its spread, and how often it is what the FLOP say."""
    rows = at_shown_batch(available.steps(machine))
    agree = ratio_reasons.agree(rows)
    higher = int((~agree & (rows.time_ratio > rows.flop_ratio)).sum())
    lower = int((~agree & (rows.time_ratio < rows.flop_ratio)).sum())
    return (
        f"On the {available.title(machine)} at batch size {rows.batch.iloc[0]}, the time of the backward pass over "
        f"that of the forward pass is {span(rows, 'time_ratio')}; the same of the FLOP is "
        f"{significant(rows.flop_ratio.median(), 4)} in the median. The two agree within "
        f"{percent(ratio_reasons.AGREEING)}, or within the interval of the former, in "
        f"{int(agree.sum()) or 'none'} of {number(len(rows), 'model')}; in {higher or 'none'} the time grows more "
        f"than the FLOP, in {lower or 'none'} less."
    )


@on_each_machine
def reasons(paper: Paper, machine: Machine) -> str:
    """Say which layers make the two ratios differ."""
    rows = at_shown_batch(ratio_reasons.explained(paper, machine))
    where = f"On the {available.title(machine)}"
    apart = rows[~rows.agrees]
    if apart.empty:
        return f"{where} no model has ratios that differ."
    known = apart[apart.cause != ""]
    if known.empty:
        return (
            f"{where} the layers that make the ratios differ are not known; python -m measure --device "
            f"{machine.environment.device} --sections workload operators times them."
        )
    slower, faster = known.time_ratio > known.flop_ratio, known.time_ratio < known.flop_ratio
    parts = [
        f"where the backward pass takes {how} than its FLOP say, most of the gap comes from "
        f"{counts(known[side].cause, 'model')}"
        for how, side in (("longer", slower), ("less", faster))
        if side.any()
    ]
    return f"{where}, {listing(parts)}."


@on_each_machine
def rates(paper: Paper, machine: Machine) -> str:
    """Say the FLOP/s of the passes, apart, and their shares of the peak."""
    available.roof(machine)
    rows = at_shown_batch(available.steps(machine))
    parts = []
    for stage in ("forward", "backward"):
        best = highest(rows, f"{stage}_flop_per_s")
        parts.append(
            f"{percent(rows[f'{stage}_peak_share'].median())} in the {stage} pass (at most "
            f"{si(best[f'{stage}_flop_per_s'], 'FLOP/s')}, {percent(best[f'{stage}_peak_share'])}, {best.model})"
        )
    faster = rows[rows.backward_flop_per_s > rows.forward_flop_per_s]
    return (
        f"On the {available.title(machine)} the models achieve in the median, of the peak, {listing(parts)}; the "
        f"backward pass has the higher rate in {len(faster) or 'none'} of {number(len(rows), 'model')}"
        f"{named(sorted(faster.model))}."
    )


@on_each_machine
def estimates(paper: Paper, machine: Machine) -> str:
    """Say how far the measured step is from its FLOP at the peak, and from its operators' least time."""
    available.roof(machine)
    rows = at_shown_batch(available.steps(machine))
    rows = rows.assign(share=rows.update_s / rows.latency_s, over_flop=rows.latency_s / rows.flop_bound_s)
    text = (
        f"On the {available.title(machine)} at batch size {rows.batch.iloc[0]}, a measured step is FLOP over peak "
        f"times {span(rows, 'over_flop')}."
    )
    bounded = rows[rows.operator_bound_s.notna()]
    if not bounded.empty:
        bounded = bounded.assign(over=bounded.latency_s / bounded.operator_bound_s)
        waiting = (bounded.operator_bound_s / bounded.flop_bound_s).median()
        text += (
            f" The least time of its operators, one after the other, is {significant(waiting)} times FLOP over "
            f"peak in the median, and the measured step is that times {span(bounded, 'over')}."
        )
    update = highest(rows, "share")
    return (
        f"{text} The update takes {percent(rows.share.median())} of a step in the median, at most "
        f"{percent(update.share)} ({update.model})."
    )
