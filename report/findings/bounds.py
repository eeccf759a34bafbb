"""What roofs allow the models, whatever they achieve."""

from itertools import groupby

import pandas as pd

from report.analysis import available, bounds
from report.analysis.available import finding, or_missing
from report.analysis.bounds import DEFINITIONS, Demand, NamedRoof
from report.findings.utilisation import named
from report.load.paper import Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import by_number, intensity, listing, number, percent, significant


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


def _memory_bound(rows: pd.DataFrame, named_roof: NamedRoof, definition: str) -> str:
    """Say how many models are memory-bound at each batch size; sizes with the same models together."""
    below = rows[rows[f"{definition}_intensity"] < named_roof.roof.ridge_flop_per_byte]
    title = DEFINITIONS[definition]
    if below.empty:
        return f"by {title} none at any batch size"
    counts: list[str] = []
    batches = sorted(rows.batch.unique())
    for names, alike in groupby(batches, lambda batch: sorted(below[below.batch == batch].model)):
        first, *others = alike
        where = f"{'' if counts else 'batch size '}{first}" + (f" to {others[-1]}" if others else "")
        if len(others) + 1 == len(batches):
            where = "every batch size"
        counts.append(f"{len(names) or 'none'} at {where}{named(names)}")
    return f"by {title} {listing(counts)}"


@finding
def on_roofs(paper: Paper) -> str:
    """Say how many models each roof leaves memory-bound, for each definition of intensity and batch size.

    Of batch sizes, those that most models were counted at.
    """
    rows = available.workloads(paper)
    counted = rows.groupby("batch").model.nunique()
    rows = rows[rows.batch.map(counted) == counted.max()]
    sentences = []
    for named_roof in bounds.compared_roofs(paper):
        how = "measured" if named_roof.measured else "datasheet"
        parts = [_memory_bound(rows, named_roof, definition) for definition in DEFINITIONS]
        sentences.append(
            f"Under the {how} {named_roof.precision} roof of the {named_roof.name}, whose ridge point is "
            f"{intensity(named_roof.roof.ridge_flop_per_byte)}, of {number(rows.model.nunique(), 'model')} these are "
            f"memory-bound: {'; '.join(parts)}."
        )
    return " ".join(sentences)


@finding
def crossings(paper: Paper) -> str:
    """Say on each chip that serves as an example which models are memory-bound, and what a larger batch changes."""
    found = bounds.held_against_chips(paper)
    sentences = [_crossing(named_roof, models) for named_roof, models in found]
    known = {named_roof.precision for named_roof, _ in found}
    lacking = {named_roof.precision for named_roof in bounds.example_chips(paper)} - known
    sentences += [str(or_missing(available.workloads)(paper, precision)) for precision in sorted(lacking)]
    return " ".join(sentences)


def _crossing(named_roof: NamedRoof, models: list[Demand]) -> str:
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
