"""What the models ask for, whatever they run on."""

import pandas as pd

from measure.domain.models import DECODE, MEASURED_SHAPES, SOUND, LanguageTask, parse_task
from measure.domain.values import significant
from report.analysis import available
from report.analysis.available import finding
from report.analysis.bounds import demands
from report.analysis.long_lists import ALWAYS
from report.analysis.predictors import comparable
from report.findings import chips
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import at_ends, each, extremes
from report.text.prose import intensity, listing, number, percent, si


def count(paper: Paper) -> str:
    models = available.workloads(paper)
    families = models.family.nunique()
    return f"{number(models.model.nunique(), 'model')} of {number(families, 'family', 'families')}"


@finding
def scope(paper: Paper) -> str:
    """Say for the abstract what was counted and collected, without any machine."""
    return f"We count what {count(paper)} ask for, and set it against the sourced roofs of {chips.count(paper)}."


def _span(models: pd.DataFrame, column: str, unit: str) -> str:
    """Say the least and the most, each with its model."""
    low, high = extremes(models, column)
    if low.model == high.model:
        return f"{si(low[column], unit)} ({low.model})"
    return f"{si(low[column], unit)} ({low.model}) to {si(high[column], unit)} ({high.model})"


@finding
def spans(paper: Paper) -> str:
    models = available.workloads(paper, batch=1)
    return (
        f"The {count(paper)} ask for {_span(models, 'forward_flop', 'FLOP')} for one input. They have "
        f"{_span(models, 'parameter_count', ' parameters')}. Their footprints at {BASE_PRECISION} take "
        f"{_span(models, 'footprint_byte', 'B')}."
    )


@finding
def inputs(paper: Paper) -> str:
    """Say the shapes of the inputs, the commonest first, how long sounds are, and what language models read."""
    every = available.workloads(paper, batch=1)
    tasks = [task for model in every.model if (task := parse_task(model))]
    rows = every[every.model.map(parse_task).isna()]
    shapes = rows.groupby("input_shape").model.apply(sorted)
    parts = []
    for shape, names in shapes.sort_values(key=lambda names: -names.str.len(), kind="stable").items():
        models = names[0] if len(names) == 1 else number(len(names), "model")
        parts.append(f"{str(shape).replace('x', '×')} for {models}")
    text = f"One input has the shape {listing(parts)}." if parts else ""
    sounds, rate = rows[(rows.family == "audio") & rows.model.isin(list(MEASURED_SHAPES))].input_shape, SOUND[0]
    for shape in sorted(set(sounds[sounds.str.isdigit()])):
        text += f" Of sound, {shape} samples are {si(int(shape) / rate, 's', 2)} at {si(rate, 'Hz', 2)}."
    return f"{text} {_read(tasks)}".strip()


def _read(tasks: list[LanguageTask]) -> str:
    """Say how many tokens language models read, and after how many they generate one; nothing of none."""
    parts = []
    for what, lengths in (
        ("read", {task.length for task in tasks if task.phase != DECODE}),
        ("generate one token after", {task.length for task in tasks if task.phase == DECODE}),
    ):
        ends = " to ".join(str(length) for length in dict.fromkeys([min(lengths), max(lengths)])) if lengths else ""
        parts += [f"{what} {ends} tokens"] if lengths else []
    return f"Language models {listing(parts)}." if parts else ""


def _is_decoded(model: str) -> bool:
    """Return whether a model generates a token, which is done in inference alone."""
    task = parse_task(model)
    return task is not None and task.phase == DECODE


@finding
def unlike(paper: Paper) -> str:
    """Say how far parameters are from standing for FLOP."""
    models = available.workloads(paper, batch=1)
    if len(models) < 2:
        return "With one model, FLOP and parameters cannot be compared."
    low, high = extremes(models.assign(ratio=models.forward_flop / models.parameter_count), "ratio")
    return (
        f"A parameter takes part in {significant(low.ratio)} FLOP in {low.model} and in {significant(high.ratio)} in "
        f"{high.model}, so the number of parameters alone does not tell the work."
    )


@finding
def flop_and_footprint(paper: Paper) -> str:
    """Say how far FLOP follow footprints, and parameters, in order."""
    models = available.workloads(paper, batch=1)
    if len(models) < 3:
        return "With fewer than three models, no order of FLOP and footprints can be told."
    ranks = models[["forward_flop", "footprint_byte", "parameter_count"]].rank().corr().forward_flop
    return (
        f"In the order of the models FLOP follow the footprint with a rank correlation of "
        f"{significant(ranks.footprint_byte, 2)}, and the number of parameters with "
        f"{significant(ranks.parameter_count, 2)} (Spearman's, of {number(len(models), 'model')})."
    )


@finding
def intensities(paper: Paper) -> str:
    """Say the extreme intensities at batch size 1, and what a larger batch makes of them."""
    rows, one = available.workloads(paper), available.workloads(paper, batch=1)
    low, high = extremes(one, "footprint_intensity")
    text = (
        f"At batch size 1 the intensity by footprint runs from {intensity(low.footprint_intensity)} ({low.model}) to "
        f"{intensity(high.footprint_intensity)} ({high.model})."
    )
    largest = int(rows.batch.max())
    pairs = one.merge(rows[rows.batch == largest], on="model", suffixes=("_one", "_many"))
    if largest == 1 or pairs.empty:
        return text
    pairs["growth"] = pairs.footprint_intensity_many / pairs.footprint_intensity_one
    least, most = extremes(pairs, "growth")
    return (
        f"{text} From batch size 1 to {largest} it grows {significant(pairs.growth.median())} times in the median, "
        f"most in {most.model} ({significant(most.growth)} times) and least in {least.model} "
        f"({significant(least.growth)} times): a batch shares the reading of the parameters, and leaves the "
        "activations as they are."
    )


@finding
def parameter_share(paper: Paper) -> str:
    """Say what part of the footprint the parameters are, at the smallest and the largest batch size."""
    rows = comparable(available.workloads(paper))
    shares = (rows.parameter_byte / rows.footprint_byte).groupby(rows.batch).median()
    (batch, first), *others = at_ends(dict(zip(shares.index, shares, strict=True))).items()
    parts = [f"{percent(first)} of the footprint at batch size {batch}"]
    parts += [f"{percent(share)} at {batch}" for batch, share in others]
    return f"In the median of {number(rows.model.nunique(), 'model')}, parameters are {listing(parts)}."


@finding
def growth_limits(paper: Paper) -> str:
    """Say how far a larger batch can raise the intensity, by the parameters' share of the footprint."""
    found = list(demands(available.workloads(paper)))
    least, most = (end(found, key=lambda demand: demand.fixed_share) for end in (min, max))
    text = (
        f"In {most.model} {percent(most.fixed_share, 3)} of one input's footprint does not grow with the batch, so its "
        f"intensity can rise by a factor of {significant(1 / (1 - most.fixed_share))}."
    )
    if most.model == least.model:
        return text
    return (
        f"{text} In {least.model} that part is {percent(least.fixed_share, 3)}, and the factor is at most "
        f"{significant(1 / (1 - least.fixed_share))}."
    )


@finding
def gaps(paper: Paper) -> str:
    """Name the models that could not be counted and why, and the operators that have no formula."""
    sentences = [
        f"Not counted: {listing(sorted(set(rows.model)), ALWAYS)} ({status}: {reason})."
        for (status, reason), rows in paper.not_counted.groupby(["status", "reason"], sort=False)
    ]
    if paper.not_counted.empty:
        available.workloads(paper)
        sentences.append("Every model that was tried was counted.")
    gaps = paper.workloads[paper.workloads.backward_gap.notna()]
    gaps = gaps[~gaps.model.map(_is_decoded).astype(bool)]  # which has no backward pass
    for reason, rows in gaps.groupby("backward_gap", sort=False):
        batches = listing([str(batch) for batch in sorted(set(rows.batch))], ALWAYS)
        sentences.append(
            f"At batch size {batches} the backward pass of {listing(sorted(set(rows.model)), ALWAYS)} was not counted "
            f"({str(reason).removeprefix('backward not counted: ')})."
        )
    return " ".join([*sentences, _without_formula(paper)])


def _without_formula(paper: Paper) -> str:
    """Name the operators that do arithmetic and have no formula, each with its largest share of a model's traffic."""
    lacking: dict[str, dict[str, float]] = {}
    for row in each(paper.workloads[paper.workloads.uncounted.notna()]):
        for operator in row.uncounted.split(";"):
            name, _calls, share = operator.rsplit(":", 2)
            shares = lacking.setdefault(name, {})
            shares[row.model] = max(shares.get(row.model, 0.0), float(share))
    if not lacking:
        return "Every operator that does arithmetic has a formula."
    parts = []
    for name, shares in sorted(lacking.items()):
        where = [f"{model} (at most {percent(share)} of its traffic)" for model, share in shares.items()]
        parts.append(f"{name} in {listing(where, ALWAYS)}")
    return f"These operators do arithmetic and have no formula, so their FLOP are missing: {'; '.join(parts)}."
