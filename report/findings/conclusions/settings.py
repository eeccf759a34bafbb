"""What to run a model with: the precision, the batch size, the variant, the device."""

from dataclasses import replace
from statistics import median_low

import pandas as pd

from measure.domain.values import significant
from measure.domain.words import EAGER
from report.analysis import available, saturation, speed_ups
from report.analysis.available import missing_on
from report.analysis.effect import Effect
from report.findings.benchmarks import mode
from report.findings.conclusions.conclusion import (
    Answer,
    advised,
    at,
    by_batch,
    largest,
    largest_median,
    median_at,
    of_batches,
    of_machine,
    of_paper,
    on_side,
)  # fmt: skip
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import matching
from report.text.prose import capitalised, number, percent


@of_machine(1, "Precision", "sec-throughput")
def precision(paper: Paper, machine: Machine, confidence: float) -> Answer:
    """Say what a lower precision buys, by batch size."""
    lower_one = machine.lower_precision
    effects = by_batch(speed_ups.at_lower_precision(machine), "gain", confidence)
    advice = advised(
        effects,
        take=f"run inference at {lower_one}",
        leave=f"at {BASE_PRECISION}",
        avoid=f"stay at {BASE_PRECISION}",
        neither=f"expect no speed of {lower_one}",
    )
    text = f"{advice}: the speed at {lower_one} over that at {BASE_PRECISION} is"
    return of_batches(effects), f"{text} {largest_median(effects)}.", ""


@of_machine(2, "Batch size", "sec-throughput")
def batch_size(paper: Paper, machine: Machine, confidence: float) -> Answer:
    """Say what a larger batch buys or costs in each variant that was swept, and up to which size it buys much.

    In eager mode memory that is returned and fetched again may hide what a larger batch brings.
    """
    cells, swept = available.cells(machine), saturation.of_machine(machine)
    first = int(cells.batch.min())
    advice, saturations = [], []
    tested: dict[str, Effect] = {}
    for variant, saturated in swept.groupby("variant", sort=False):
        rows = cells if variant == EAGER else matching(machine.variants, variant=variant, precision=BASE_PRECISION)
        effects = _by_larger_batch(rows[rows.status == "ok"], first, confidence)
        if not effects:
            continue
        runs, sizes = mode(str(variant)), sorted(saturated.batch)
        ends = f", from {sizes[0]} to {sizes[-1]}" if sizes[0] < sizes[-1] else ""
        best = _best(effects) or largest(effects)
        advice.append(
            f"{runs} {_advice_on_batches(effects, first)}: the throughput over that at batch size {first} is "
            f"{median_at(best, effects)}"
        )
        saturations.append(
            f"{runs} the smallest batch size with {percent(saturation.SHARE)} of the best throughput is "
            f"{median_low(sizes)} in the median of {number(len(saturated), 'model')}{ends}"
        )
        beside = "" if variant == EAGER else f"{variant}, "
        tested |= {f"{beside}{batch} in place of {first}": effect for batch, effect in effects.items()}
    if not tested:
        where = f"on the {available.title(machine)} at batch size {first} and at a larger one"
        raise missing_on(machine, f"No model was measured {where}", "inference")
    return tested, f"{'; '.join(advice)}.", f"{capitalised('; '.join(saturations))}."


def _by_larger_batch(cells: pd.DataFrame, first: int, confidence: float) -> dict[int, Effect]:
    """Return the throughput at each larger batch size over that at the first; none where there is no larger one."""
    alone = cells[cells.batch == first][["model", "throughput_per_s"]]
    rows = cells[cells.batch > first].merge(alone, on="model", suffixes=("", "_first"))
    if rows.empty:
        return {}
    return by_batch(rows.assign(gain=rows.throughput_per_s / rows.throughput_per_s_first), "gain", confidence)


def _best(effects: dict[int, Effect]) -> int | None:
    """Return the batch size with the highest throughput of those that are better than the first."""
    return max(on_side(effects, 1), key=lambda size: effects[size].factor, default=None)


def _advice_on_batches(effects: dict[int, Effect], first: int) -> str:
    if best := _best(effects):
        return f"collect inputs into batches of {best}"
    return f"keep to batch size {first}" if on_side(effects, -1) else "expect no throughput of a larger batch"


@of_machine(3, "Variant", "tbl-variants")
def variant(paper: Paper, machine: Machine, confidence: float) -> Answer:
    """Say what the variant that matters most brings over eager mode, by batch size; all that were tried are tested."""
    rows = speed_ups.over_eager(machine, BASE_PRECISION)
    tried = {str(name): by_batch(cells, "speed_up", confidence) for name, cells in rows.groupby("variant")}
    strongest = {name: effects[largest(effects)] for name, effects in tried.items()}
    name = max(tried, key=lambda name: (strongest[name].side != 0, strongest[name].size))
    effects = tried[name]
    advice = advised(
        effects,
        take=f"run inference with {name}",
        leave="without it",
        avoid=f"do without {name}",
        neither=f"expect no speed of {name}",
    )
    text = f"{advice}: the speed with it over that in eager mode is"
    tested: dict[str, Effect] = {}
    for each, by_size in tried.items():
        tested |= of_batches(by_size, each)
    return tested, f"{text} {largest_median(effects)}.", ""


@of_paper(1, "Device", "tbl-speed-ups")
def device(paper: Paper, confidence: float) -> Answer:
    """Say how much faster a device of another kind runs the same cells than the first that figures show.

    A second machine of one kind is no advice: its reader cannot choose it.
    """
    of_each_kind = replace(paper, machines=paper.shown)
    ((other, cells),) = speed_ups.between_machines(of_each_kind)
    name, first = available.title(other), available.title(paper.shown[0])
    effects = by_batch(cells, "speed_up", confidence)
    faster, slower = on_side(effects, 1), on_side(effects, -1)
    if faster and slower:
        advice = f"run on the {name}{at(faster, effects)}, on the {first}{at(slower, effects)}"
    elif faster:
        advice = f"prefer the {name} to the {first}{at(faster, effects)}"
    elif slower:
        advice = f"prefer the {first} to the {name}{at(slower, effects)}"
    else:
        advice = f"do not choose between the {name} and the {first} by speed"
    text = f"{advice}: the speed of the {name} over that of the {first} is {largest_median(effects)}."
    predicted = cells[cells.predicted.notna() & (cells.batch == largest(effects))].predicted
    more = f"The measured roofs would have it {significant(predicted.median())}." if len(predicted) else ""
    return of_batches(effects), text, more
