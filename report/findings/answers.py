"""The answer of each chapter in a sentence or two: they stand first, and turn when the data do."""

from measure.domain.values import significant
from measure.domain.words import INFERENCE
from report.analysis import available, elsewhere, elsewhere_pairs, operator_shares, remedies
from report.analysis.available import DataMissingError, Missing, finding, on_each_machine, or_missing
from report.analysis.effect import median_of
from report.analysis.layer_costs import at_shown_batch
from report.analysis.predictors import FLOP, comparable
from report.findings import conclusions, predictors
from report.findings.chips import ridge_medians
from report.load import chips as chip_table
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import extremes, matching
from report.text.prose import by_number, intensity, number, percent, si


@finding
def chips(paper: Paper) -> str:
    """Say how many operations a byte chips ask for, by the kinds that ask for least and most."""
    rows = available.chips(paper)
    medians = ridge_medians(chip_table.headline(rows[~chip_table.on_chip(rows)]))["median"]
    if medians.empty:
        raise DataMissingError("The table data/chips.csv has too few chips of a kind for a median; add rows to it.")
    low, high = medians.index[0], medians.index[-1]
    text = (
        f"Chips promise more arithmetic than their memory can feed: the median {chip_table.KINDS[low]} needs "
        f"{intensity(medians[low])} before memory stops being the limit"
    )
    return f"{text}." if low == high else f"{text}, the median {chip_table.KINDS[high]} {intensity(medians[high])}."


@finding
def workload(paper: Paper) -> str:
    """Say what a larger batch does to the bytes of a model, and so to its place under a roof."""
    rows = comparable(available.workloads(paper))
    groups = [rows[rows.batch == batch].set_index("model") for batch in (rows.batch.min(), rows.batch.max())]
    first, last = groups
    parameters = [float((each.parameter_byte / each.footprint_byte).median()) for each in groups]
    if rows.batch.nunique() == 1:
        return (
            f"In the median model parameters are {percent(parameters[0])} of the bytes at batch size "
            f"{rows.batch.min()}."
        )
    growth = (last.footprint_intensity / first.footprint_intensity).median()
    return (
        f"The batch size decides what a network's bytes are: parameters are {percent(parameters[0])} of them at batch "
        f"size {rows.batch.min()} in the median model, and {percent(parameters[1])} at {rows.batch.max()}. Each byte "
        f"then serves {significant(growth)} times the arithmetic."
    )


@on_each_machine
def benchmarks(paper: Paper, machine: Machine) -> str:
    """Say whether FLOP order the models, and what twice the FLOP cost; of too few models, how long they take."""
    cells = available.cells(machine)
    ranked = or_missing(predictors.ranked_of)(machine)
    found = {} if isinstance(ranked, Missing) else ranked
    ranks = [rank for batch, each in found.items() for rank in each if batch is not None and rank.predictor == FLOP]
    if not ranks:
        first = cells[cells.batch == cells.batch.min()]
        quick, slow = extremes(first, "latency_s")
        return (
            f"On the {available.title(machine)} a batch of {quick.batch} takes {si(quick.latency_s, 's')} "
            f"({quick.model}) to {si(slow.latency_s, 's')} ({slow.model}); {number(len(first), 'model')} "
            f"{by_number(len(first), 'is', 'are')} too few to say what predicts that."
        )
    least = min(rank.spearman.value for rank in ranks)
    law = ranks[0].law
    alike = law.interval is not None and law.interval[0] <= 1 <= law.interval[1]
    joint = "and" if alike == (least >= predictors.GRADES[1][0]) else "but"
    twice = "twice as long, within the interval" if alike else f"{significant(2**law.exponent, 2)} times as long"
    return (
        f"On the {available.title(machine)} FLOP order the models {predictors.graded(least)} (Spearman's ρ is "
        f"{significant(least, 2)} at the least), {joint} at batch size {ranks[0].batch} twice the FLOP take {twice}."
    )


@on_each_machine
def roofs(paper: Paper, machine: Machine) -> str:
    """Say the measured roof, and what it asks of a kernel."""
    roof = available.roof(machine)
    return (
        f"The {available.title(machine)} delivers {si(roof.peak_flop_per_s, 'FLOP/s')} at {BASE_PRECISION} and "
        f"{si(roof.bandwidth_byte_per_s, 'B/s')}. A kernel that does fewer than {intensity(roof.ridge_flop_per_byte)} "
        "waits for memory."
    )


@on_each_machine
def utilisation(paper: Paper, machine: Machine) -> str:
    """Say how much of the attainable rate models get, and where most of the rest goes."""
    available.roof(machine)
    cells = available.cells(machine)
    least, most = extremes(cells, "attained")
    text = (
        f"On the {available.title(machine)} half of {number(len(cells), 'cell')} get less than "
        f"{percent(cells.attained.median())} of what the roof allows. The best gets {percent(most.attained)} "
        f"({most.model}), the worst {percent(least.attained)} ({least.model})."
    )
    profiled = or_missing(remedies.largest)(paper, machine)
    if isinstance(profiled, Missing):
        return text
    ranked = profiled.term.value_counts()
    return (
        f"{text} The largest part of a latency is most often {ranked.index[0]}: in {int(ranked.iloc[0])} of "
        f"{number(len(profiled), 'profiled cell')}."
    )


@on_each_machine
def training(paper: Paper, machine: Machine) -> str:
    """Say how many forward passes a step takes, against its FLOP."""
    rows = at_shown_batch(available.steps(machine))
    rows = available.at_least_one(
        rows[rows.flop_ratio.notna()],
        DataMissingError(
            f"On the {available.title(machine)} no training step of a model that multiplies was measured."
        ),
    )
    times, asked = rows.latency_s / rows.forward_s, 1 + rows.flop_ratio
    # as among the conclusions, of which it is one
    effect, said = median_of(times / asked, conclusions.confidence(paper)), significant(asked.median(), 2)
    held = {1: "more than", 0: "about what", -1: "less than"}[effect.side]
    told = f"{held} its FLOP say ({said})" if effect.interval else f"where its FLOP say {said}"
    return (
        f"On the {available.title(machine)} a training step takes {significant(times.median(), 2)} times as long as "
        f"its forward pass in the median of {number(len(rows), 'model')} at batch size {rows.batch.iloc[0]}, {told}."
    )


@on_each_machine
def kernels(paper: Paper, machine: Machine) -> str:
    """Say which group of operators takes most of the time of inference; where only training was profiled, of that."""
    every = operator_shares.groups(paper, machine)
    inference = matching(every, phase=INFERENCE)
    rows = every if inference.empty else inference
    shares = rows.groupby(["model", "phase", "batch", "group"]).time_s.sum()
    shares = shares / shares.groupby(["model", "phase", "batch"]).transform("sum")
    cells = shares.reset_index().pivot_table(
        index=["model", "phase", "batch"], columns="group", values="time_s", fill_value=0.0
    )
    medians = cells.median().sort_values(ascending=False)
    text = (
        f"On the {available.title(machine)} {medians.index[0]} takes {percent(medians.iloc[0])} of the operators' time "
        f"in the median of {number(len(cells), 'profiled cell')}"
    )
    return f"{text}, no other group more than {percent(medians.iloc[1])}." if len(medians) > 1 else f"{text}."


@finding
def published(paper: Paper) -> str:
    """Say what the GPU of which most models are known gives them, and what helps them most."""
    device, computed, most = elsewhere.most_published(paper)
    text = (
        f"The {device} gives the median of {number(most.model.nunique(), 'model')} {percent(most.peak_share.median())} "
        f"of its peak at {computed}."
    )
    changes = or_missing(elsewhere_pairs.changes)(paper)
    if isinstance(changes, Missing):
        return text
    best = max(changes, key=lambda change: change.spread.median)
    if best.spread.median <= 1:
        return f"{text} No change of software that others timed makes models faster in the median."
    return (
        f"{text} Of the changes that others timed {best.case} brings most: on the {best.device} models run "
        f"{significant(best.spread.median)} times as fast with it in the median."
    )
