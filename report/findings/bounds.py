"""What roofs allow the models, whatever they achieve."""

import pandas as pd

from measure.domain.values import significant
from report.analysis import available, bounds
from report.analysis.available import finding, or_missing
from report.analysis.bounds import DEFINITIONS, ModelDemand, NamedRoof
from report.load.paper import Paper
from report.text.frame_rows import highest, lowest
from report.text.prose import by_number, intensity, number, percent


@finding
def definitions(paper: Paper) -> str:
    """Say how far the definitions of intensity are apart."""
    rows, one = available.workloads(paper), available.workloads(paper, batch=1)
    parts = []
    for batch in sorted({rows.batch.min(), rows.batch.max()}):
        alike = rows[rows.batch == batch]
        traffic = (alike.traffic_byte / alike.footprint_byte).median()
        compulsory = (alike.compulsory_byte / alike.footprint_byte).median()
        parts.append(
            f"at batch size {batch} traffic is {significant(traffic)} times the footprint, and compulsory bytes are "
            f"{percent(compulsory)} of it"
        )
    low = lowest(one, "traffic_intensity")
    saved = highest(one.assign(ratio=one.traffic_byte / one.compulsory_byte), "ratio")
    return (
        f"In the median of the models, {'; '.join(parts)}. Perfect fusion could save at most the factor between "
        f"traffic and compulsory bytes, at batch size 1 the largest in {saved.model} ({significant(saved.ratio)}). "
        f"The lowest intensity by traffic, {intensity(low.traffic_intensity)}, is that of {low.model}."
    )


def _memory_bound(rows: pd.DataFrame, named_roof: NamedRoof) -> str:
    """Say how many models are memory-bound at one batch size, by the definitions that leave fewest and most so."""
    counts = {
        title: int((rows[f"{definition}_intensity"] < named_roof.roof.ridge_flop_per_byte).sum())
        for definition, title in DEFINITIONS.items()
    }
    ends = dict.fromkeys(end(counts, key=counts.__getitem__) for end in (min, max))
    told = " to ".join(f"{counts[title] or 'none'} (by {title})" for title in ends)
    return told if len(set(counts.values())) > 1 else f"{max(counts.values()) or 'none'} by any definition"


@finding
def on_roofs(paper: Paper) -> str:
    """Say how many models each roof leaves memory-bound by definitions of intensity, at the smallest and the largest
    of the batch sizes that most models were counted at.
    """
    rows = available.workloads(paper)
    counted = rows.groupby("batch").model.nunique()
    rows = rows[rows.batch.map(counted) == counted.max()]
    sentences = []
    for named_roof in bounds.compared_roofs(paper):
        how = "measured" if named_roof.measured else "datasheet"
        parts = [
            f"{_memory_bound(rows[rows.batch == batch], named_roof)} at batch size {batch}"
            for batch in dict.fromkeys([rows.batch.min(), rows.batch.max()])
        ]
        sentences.append(
            f"Under the {how} {named_roof.precision} roof of the {named_roof.name}, of "
            f"{number(rows.model.nunique(), 'model')}, {', and '.join(parts)} wait for memory."
        )
    return " ".join(sentences)


@finding
def crossings(paper: Paper) -> str:
    """Say how many models are memory-bound on the chips that serve as examples, and what a larger batch changes.

    Of the chips, those with fewest and with most such models.
    """
    found = bounds.held_against_chips(paper)
    bound = [sum(demand.intensity(1) < roof.roof.ridge_flop_per_byte for demand in models) for roof, models in found]
    ends = dict.fromkeys(bound.index(end(bound)) for end in (min, max) if bound)
    sentences = [_crossing(*found[place]) for place in ends]
    known = {named_roof.precision for named_roof, _ in found}
    lacking = {named_roof.precision for named_roof in bounds.example_chips(paper)} - known
    sentences += [str(or_missing(available.workloads)(paper, precision)) for precision in sorted(lacking)]
    return " ".join(sentences)


def _crossing(named_roof: NamedRoof, models: list[ModelDemand]) -> str:
    ridge = named_roof.roof.ridge_flop_per_byte
    where = f"On the {named_roof.name} at {named_roof.precision} (ridge point {intensity(ridge)})"
    below = [demand for demand in models if demand.intensity(1) < ridge]
    if not below:
        return f"{where} no model is memory-bound by footprint at any batch size."
    crossed = {demand.model: batch for demand in below if (batch := demand.crossing(ridge)) is not None}
    text = (
        f"{where} {len(below)} of {number(len(models), 'model')} {by_number(len(below), 'is', 'are')} memory-bound by "
        f"footprint at batch size 1, {len(below) - len(crossed) or 'none'} of them at every batch size"
    )
    if not crossed:
        return f"{text}."
    first, last = (end(crossed, key=lambda model: crossed[model]) for end in (min, max))
    span = f"at batch size {crossed[first]} ({first})"
    if crossed[first] < crossed[last]:
        span = f"between batch size {crossed[first]} ({first}) and {crossed[last]} ({last})"
    return f"{text}; the {by_number(len(crossed), 'other crosses', 'others cross')} the ridge point {span}."
