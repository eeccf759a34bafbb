"""What to run a model with: the precision, the batch size, the variant, the device."""

from report.analysis import available, saturation, speed_ups
from report.analysis.available import missing_on
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
)  # fmt: skip
from report.load.paper import BASE_PRECISION, LOWER_PRECISION, Machine, Paper
from report.text.frame_rows import matching
from report.text.quantities import listing, number, percent, significant


@of_machine(1, "Precision", "sec-throughput", "fig-attained")
def precision(paper: Paper, machine: Machine) -> Answer:
    """Say what a lower precision buys, by batch size."""
    cells = available.cells(machine, None)
    base, lower = (matching(cells, precision=precision) for precision in (BASE_PRECISION, LOWER_PRECISION))
    pairs = base.merge(lower, on=["model", "batch"], suffixes=("", "_lower"))
    if pairs.empty:
        what = f"Nothing was measured at both {BASE_PRECISION} and {LOWER_PRECISION} on the {available.title(machine)}"
        raise missing_on(machine, what, flags=f"--precisions {BASE_PRECISION} {LOWER_PRECISION}", does="does")
    effects = by_batch(pairs.assign(gain=pairs.latency_s / pairs.latency_s_lower), "gain")
    advice = advised(
        effects,
        take=f"run inference at {LOWER_PRECISION}",
        leave=f"at {BASE_PRECISION}",
        avoid=f"stay at {BASE_PRECISION}",
        neither=f"expect no speed of {LOWER_PRECISION}",
    )
    batch = largest(effects)
    return (
        effects[batch],
        f"{advice}: the speed at {LOWER_PRECISION} over that at {BASE_PRECISION} is {medians(effects)}.",
        f"inference at batch size {batch} runs {effects[batch]} times as fast at {LOWER_PRECISION} as at "
        f"{BASE_PRECISION}",
    )


@of_machine(2, "Batch size", "fig-throughput", "tbl-saturation")
def batch_size(paper: Paper, machine: Machine) -> Answer:
    """Say what a larger batch buys or costs, and up to which size it buys much."""
    saturated, cells = saturation.of_machine(machine), available.cells(machine)
    first = int(cells.batch.min())
    alone = cells[cells.batch == first][["model", "throughput_per_s"]]
    rows = cells[cells.batch > first].merge(alone, on="model", suffixes=("", "_first"))
    if rows.empty:
        where = f"on the {available.title(machine)} at batch size {first} and at a larger one"
        raise missing_on(machine, f"No model was measured {where}", "inference")
    effects = by_batch(rows.assign(gain=rows.throughput_per_s / rows.throughput_per_s_first), "gain")
    better, worse = on_side(effects, 1), on_side(effects, -1)
    batch = max(better, key=lambda size: effects[size].factor) if better else largest(effects)
    if better:
        advice = f"collect inputs into batches of {batch}"
    elif worse:
        advice = f"keep to batch size {first}"
    else:
        advice = "expect no throughput of a larger batch"
    counts = saturated.batch.value_counts()
    return (
        effects[batch],
        f"{advice}: the throughput over that at batch size {first} is {medians(effects)}. The smallest batch size with "
        f"{percent(saturation.SHARE)} of the best throughput is {int(counts.index[0])} for {int(counts.iloc[0])} of "
        f"{number(len(saturated), 'model')}.",
        f"the throughput at batch size {batch} is {effects[batch]} times that at {first}",
    )


@of_machine(3, "Variant", "tbl-variants")
def variant(paper: Paper, machine: Machine) -> Answer:
    """Say what the variant that matters most brings over eager mode, by batch size."""
    rows = speed_ups.over_eager(machine, BASE_PRECISION)
    tried = {str(name): by_batch(cells, "speed_up") for name, cells in rows.groupby("variant")}
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
    return (
        strongest[name],
        f"{advice}: the speed with it over that in eager mode is {medians(effects)}.",
        f"inference at batch size {largest(effects)} runs {strongest[name]} times as fast with {name} as without",
    )


@of_paper(1, "Device", "tbl-speed-ups")
def device(paper: Paper) -> Answer:
    """Say how much faster another machine runs the same cells than the first that figures show."""
    found = speed_ups.between_machines(paper)
    other, cells = next((pair for pair in found if pair[0] in paper.shown), found[0])
    name, first = available.title(other), available.title(paper.shown[0])
    effects = by_batch(cells, "speed_up")
    faster, slower = on_side(effects, 1), on_side(effects, -1)
    if faster and slower:
        advice = f"run on the {name}{at(faster, effects)}, on the {first}{at(slower, effects)}"
    elif faster:
        advice = f"prefer the {name} to the {first}{at(faster, effects)}"
    elif slower:
        advice = f"prefer the {first} to the {name}{at(slower, effects)}"
    else:
        advice = f"do not choose between the {name} and the {first} by speed"
    batch = largest(effects)
    text = f"{advice}: the speed of the {name} over that of the {first} is {medians(effects)}"
    predicted = cells[cells.predicted.notna()].groupby("batch").predicted.median()
    parts = [f"{significant(predicted[size])} at {size}" for size in effects if size in predicted.index]
    if parts:
        text += f", where the measured roofs would have it {listing(parts)}"
    return (
        effects[batch],
        f"{text}.",
        f"the {name} runs the same cell {effects[batch]} times as fast as the {first} at batch size {batch}",
    )
