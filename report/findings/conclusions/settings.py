"""What to run a model with: the precision, the batch size, the variant, the device."""

from statistics import median_low

import pandas as pd

from measure.cache.words import EAGER
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
    medians,
    of_machine,
    of_paper,
    on_side,
    the_largest,
)  # fmt: skip
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import matching
from report.text.quantities import listing, number, percent, significant


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
    return [*effects.values()], f"{text} {medians(effects)}.", f"{text} {medians(the_largest(effects))}."


@of_machine(2, "Batch size", "sec-throughput")
def batch_size(paper: Paper, machine: Machine, confidence: float) -> Answer:
    """Say what a larger batch buys or costs in each variant that was swept, and up to which size it buys much.

    In eager mode memory that is returned and fetched again may hide what a larger batch brings.
    """
    cells, swept = available.cells(machine), saturation.of_machine(machine)
    first = int(cells.batch.min())
    advice, briefs = [], []
    tested: list[Effect] = []
    for variant, saturated in swept.groupby("variant", sort=False):
        rows = cells if variant == EAGER else matching(machine.variants, variant=variant, precision=BASE_PRECISION)
        effects = _by_larger_batch(rows[rows.status == "ok"], first, confidence)
        if not effects:
            continue
        runs, sizes = mode(str(variant)), sorted(saturated.batch)
        ends = f", from {sizes[0]} to {sizes[-1]}" if sizes[0] < sizes[-1] else ""
        best = _best(effects) or largest(effects)
        told = f"{runs} {_advice_on_batches(effects, first)}: the throughput over that at batch size {first} is"
        advice.append(
            f"{told} {medians(effects)}, and the smallest batch size with {percent(saturation.SHARE)} of the best is "
            f"{median_low(sizes)} in the median of {number(len(saturated), 'model')}{ends}"
        )
        briefs.append(f"{told} {medians({best: effects[best]})}")
        tested += effects.values()
    if not tested:
        where = f"on the {available.title(machine)} at batch size {first} and at a larger one"
        raise missing_on(machine, f"No model was measured {where}", "inference")
    return tested, f"{'; '.join(advice)}.", f"{'; '.join(briefs)}."


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
    tested = [effect for by_size in tried.values() for effect in by_size.values()]
    return tested, f"{text} {medians(effects)}.", f"{text} {medians(the_largest(effects))}."


@of_paper(1, "Device", "tbl-speed-ups")
def device(paper: Paper, confidence: float) -> Answer:
    """Say how much faster another machine runs the same cells than the first that figures show."""
    found = speed_ups.between_machines(paper)
    other, cells = next((pair for pair in found if pair[0] in paper.shown), found[0])
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
    what = f"{advice}: the speed of the {name} over that of the {first} is"
    text = f"{what} {medians(effects)}"
    predicted = cells[cells.predicted.notna()].groupby("batch").predicted.median()
    parts = [f"{significant(predicted[size])} at {size}" for size in effects if size in predicted.index]
    if parts:
        text += f", where the measured roofs would have it {listing(parts)}"
    return [*effects.values()], f"{text}.", f"{what} {medians(the_largest(effects))}."
