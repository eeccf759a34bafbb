"""What the models ask for, whatever they run on."""

import pandas as pd

from report.analysis import available
from report.analysis.available import finding
from report.analysis.bounds import demands
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import each, highest, lowest
from report.text.quantities import intensity, listing, number, percent, si, significant


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
    ratios = models.assign(ratio=models.forward_flop / models.parameter_count)
    low, high = lowest(ratios, "ratio"), highest(ratios, "ratio")
    return (
        f"A parameter takes part in {significant(low.ratio)} FLOP in {low.model} and in {significant(high.ratio)} in "
        f"{high.model}, so the number of parameters alone does not tell the work."
    )


@finding
def flop_and_footprint(paper: Paper) -> str:
    """How far FLOP follow footprints, and parameters, in order."""
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


@finding
def growth_limits(paper: Paper) -> str:
    """How far a larger batch can raise the intensity, by the parameters' share of the footprint."""
    found = list(demands(available.workloads(paper)))
    limits = pd.DataFrame(
        {
            "model": [demand.model for demand in found],
            "share": [demand.fixed_share for demand in found],
            "limit": [demand.limit for demand in found],
        }
    )
    most, least = highest(limits, "share"), lowest(limits, "share")
    text = f"In {most.model} {percent(most.share, 3)} of one input's footprint does not grow with the batch, so its "
    text += (
        f"intensity can rise by a factor of {significant(1 / (1 - most.share))}, to {intensity(most.limit)}"
    )
    if most.model == least.model:
        return f"{text}."
    return (
        f"{text}; in {least.model} that part is {percent(least.share, 3)}, and the factor is at most "
        f"{significant(1 / (1 - least.share))}, to {intensity(least.limit)}."
    )


@finding
def gaps(paper: Paper) -> str:
    """The models that could not be counted and why, and the operators that have no formula."""
    failures = paper.not_counted
    if failures.empty:
        available.workloads(paper)
    sentences = []
    for (status, reason), own in failures.groupby(["status", "reason"], sort=False):
        names = sorted(set(own.model))
        sentences.append(f"Not counted: {listing(names)} ({status}: {reason}).")
    if failures.empty:
        sentences.append("Every model that was tried was counted.")
    return " ".join([*sentences, *_without_backward(paper), *_without_formula(paper)])


def _without_backward(paper: Paper) -> list[str]:
    rows = paper.workloads[paper.workloads.backward_gap.notna()]
    return [
        f"At batch size {batch} the backward pass of {listing(sorted(set(own.model)))} was not counted "
        f"({str(reason).removeprefix('backward not counted: ')})."
        for (batch, reason), own in rows.groupby(["batch", "backward_gap"], sort=False)
    ]


def _without_formula(paper: Paper) -> list[str]:
    """The operators that do arithmetic and have no formula, each with its largest share of a model's traffic."""
    lacking: dict[str, dict[str, float]] = {}
    for row in each(paper.workloads[paper.workloads.uncounted.notna()]):
        for operator in row.uncounted.split(";"):
            name, _calls, share = operator.rsplit(":", 2)
            shares = lacking.setdefault(name, {})
            shares[row.model] = max(shares.get(row.model, 0.0), float(share))
    if not lacking:
        return ["Every operator that does arithmetic has a formula."]
    parts = []
    for name, shares in sorted(lacking.items()):
        where = [f"{model} (at most {percent(share)} of its traffic)" for model, share in shares.items()]
        parts.append(f"{name} in {listing(where)}")
    return [
        f"These operators do arithmetic and have no formula, so their FLOP are missing: {'; '.join(parts)}."
    ]
