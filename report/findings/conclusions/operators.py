"""What the operators of a model cost beyond what the roof allows: in all, by running one by one, by their kind."""

from measure.domain.words import INFERENCE
from report.analysis import available, operator_shares, remedies
from report.analysis.available import Missing, missing, missing_on, or_missing
from report.findings.conclusions.conclusion import (
    LITTLE,
    Answer,
    by_batch,
    largest,
    largest_median,
    of_batches,
    of_machine,
    on_side,
)
from report.load.paper import Machine, Paper
from report.text.frame_rows import matching
from report.text.prose import number

FIRST = "before buying a faster chip"

FASTER_CHIP = "look for a faster chip or a leaner model"
"""What is left where the roof is reached."""

MOST = 0.5
"""Advice is what helps more than this share of the profiled cells."""


@of_machine(7, "Distance from the roof", "fig-on-roof", "fig-waterfall", is_margin=True)
def distance(paper: Paper, machine: Machine) -> Answer:
    """Say how many times as long as the roof allows a call takes, and what was measured to help most profiled cells."""
    available.roof(machine)
    cells = available.cells(machine)
    effects = by_batch(cells.assign(factor=1 / cells.attained), "factor")
    profiled = or_missing(remedies.largest)(paper, machine)
    advice, why = f"look at the software {FIRST}", ""
    if not isinstance(profiled, Missing):
        helped = profiled[profiled.basis == remedies.MEASURED].remedy.value_counts()
        if not helped.empty:
            best, count = helped.index[0], int(helped.iloc[0])
            why = f"Of what was measured {best} helps most in {count} of {number(len(profiled), 'profiled cell')}."
            if count > MOST * len(profiled):
                advice = f"use {best} {FIRST}"
    if effects[largest(effects)].side < 0:
        advice = FASTER_CHIP
    text = f"{advice}: the time of a call over the least that the measured roof allows is"
    return of_batches(effects), f"{text} {largest_median(effects)}.", why


@of_machine(8, "Fusion", "sec-waterfall", is_margin=True)
def fusion(paper: Paper, machine: Machine) -> Answer:
    """Hold the operators' least time one by one against the whole model's: fusing saves no more than the difference."""
    available.roof(machine)
    cells = available.cells(machine)
    cells = cells[cells.operator_bound_s.notna() & cells.model_bound_s.notna()]
    if cells.empty:
        what = f"The operators of the models measured on the {available.title(machine)} have not been counted"
        raise missing(what, sections=["workload"], does="counts them")
    effects = by_batch(cells.assign(factor=cells.operator_bound_s / cells.model_bound_s), "factor")
    much = effects[largest(effects)].factor > LITTLE
    advice = "fuse operators" if much else "do not expect much of fusing operators"
    what = "under the roof, the least time of operators run one by one over that of the model as a whole is"
    more = "No less traffic of memory can save more than that."
    return of_batches(effects), f"{advice}: {what} {largest_median(effects)}.", more


@of_machine(9, "Depthwise convolution", "fig-groups-on-roof")
def depthwise(paper: Paper, machine: Machine, confidence: float) -> Answer:
    """Say how many times as long a FLOP takes in a depthwise convolution as in the others of the same model."""
    rows = matching(operator_shares.on_roof(paper, machine), phase=INFERENCE)
    others, depthwise = (matching(rows, group=group) for group in ("convolution", "depthwise convolution"))
    pairs = others.merge(depthwise, on=["model", "batch"], suffixes=("", "_depthwise"))
    if pairs.empty:
        what = f"No model with depthwise convolutions was profiled on the {available.title(machine)}"
        raise missing_on(machine, what, "workload", "operators", flags="--models mobilenet_v2", does="profiles one")
    effects = by_batch(pairs.assign(factor=pairs.flop_per_s / pairs.flop_per_s_depthwise), "factor", confidence)
    text = (
        f"{'do not trust' if on_side(effects, 1) else 'trust'} the few FLOP of depthwise convolutions: the time of a "
        "FLOP in them over that of one in the same model's other convolutions is"
    )
    return of_batches(effects), f"{text} {largest_median(effects)}.", ""
