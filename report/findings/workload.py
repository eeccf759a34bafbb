"""What the models ask for, whatever they run on."""

import pandas as pd

from report import available
from report.available import finding
from report.paper import BASE_PRECISION, Paper
from report.quantities import intensity, listing, number, percent, si, significant
from report.rows import highest, lowest


def count(paper: Paper) -> str:
    models = available.workloads(paper)
    families = models.family.nunique()
    return f"{number(models.model.nunique(), 'model')} of {number(families, 'family', 'families')}"


def _span(models: pd.DataFrame, column: str, unit: str) -> str:
    """From the least to the most, each with its model, and the factor between."""
    low, high = lowest(models, column), highest(models, column)
    if low.model == high.model:
        return f"{si(low[column], unit)} ({low.model})"
    return (
        f"{si(low[column], unit)} ({low.model}) to {si(high[column], unit)} ({high.model}), "
        f"a factor of {significant(high[column] / low[column])}"
    )


@finding
def spans(paper: Paper) -> str:
    models = available.workloads(paper, batch=1)
    return (
        f"The {count(paper)} span {_span(models, 'forward_flop', 'FLOP')}, for one input, and "
        f"{_span(models, 'parameter_count', ' parameters')}. Their footprints at {BASE_PRECISION} span "
        f"{_span(models, 'footprint_byte', 'B')}."
    )


@finding
def inputs(paper: Paper) -> str:
    """The shapes of the inputs, the commonest first."""
    models = available.workloads(paper, batch=1)
    shapes = (
        models.groupby("input_shape")
        .model.apply(sorted)
        .sort_values(key=lambda names: -names.str.len(), kind="stable")
    )
    parts = []
    for shape, names in shapes.items():
        who = names[0] if len(names) == 1 else number(len(names), "model")
        parts.append(f"{str(shape).replace('x', '×')} for {who}")
    return f"One input has the shape {listing(parts)}."


@finding
def unlike(paper: Paper) -> str:
    """How far parameters are from standing for FLOP."""
    models = available.workloads(paper, batch=1)
    if len(models) < 2:
        return "With one model, FLOP and parameters cannot be compared."
    each = models.assign(ratio=models.forward_flop / models.parameter_count)
    low, high = lowest(each, "ratio"), highest(each, "ratio")
    return (
        f"A parameter takes part in {significant(low.ratio)} FLOP in {low.model} and in {significant(high.ratio)} in "
        f"{high.model}, so the number of parameters alone does not tell the work."
    )


@finding
def intensities(paper: Paper) -> str:
    """The extreme intensities at batch size 1, and what a larger batch makes of them."""
    rows = available.workloads(paper)
    one = available.workloads(paper, batch=1)
    low, high = lowest(one, "footprint_intensity"), highest(one, "footprint_intensity")
    text = (
        f"At batch size 1 the intensity by footprint runs from {intensity(low.footprint_intensity)} ({low.model}) to "
        f"{intensity(high.footprint_intensity)} ({high.model})."
    )
    largest = int(rows.batch.max())
    if largest == 1:
        return text
    pairs = one.merge(rows[rows.batch == largest], on="model", suffixes=("_one", "_many"))
    pairs["growth"] = pairs.footprint_intensity_many / pairs.footprint_intensity_one
    if pairs.empty:
        return text
    most, least = highest(pairs, "growth"), lowest(pairs, "growth")
    return (
        f"{text} From batch size 1 to {largest} it grows {significant(pairs.growth.median())} times in the "
        "median, most in "
        f"{most.model} ({significant(most.growth)} times) and least in {least.model} "
        f"({significant(least.growth)} times): "
        "a batch shares the reading of the parameters, and leaves the activations as they are."
    )


@finding
def parameter_share(paper: Paper) -> str:
    """What part of the footprint the parameters are, at the smallest and largest batch size."""
    rows = available.workloads(paper)
    shares = (rows.parameter_byte / rows.footprint_byte).groupby(rows.batch).median()
    parts = [f"{percent(share)} of the footprint at batch size {batch}" for batch, share in shares.items()]
    return f"In the median of the models, parameters are {listing(parts)}."
