"""What roofs allow the models, whatever they achieve."""

from itertools import groupby

import pandas as pd

from report.analysis import available
from report.analysis.available import finding, or_missing
from report.analysis.bounds import (
    DEFINITIONS,
    Demand,
    Limit,
    compared_roofs,
    example_chips,
    held_against_chips,
)
from report.findings.utilisation import named
from report.load.paper import Paper
from report.text.frame_rows import highest, lowest
from report.text.quantities import intensity, listing, number, percent, significant


@finding
def definitions(paper: Paper) -> str:
    """How far the definitions of intensity are apart."""
    rows = available.workloads(paper)
    one = available.workloads(paper, batch=1)
    parts = []
    for batch in sorted({rows.batch.min(), rows.batch.max()}):
        own = rows[rows.batch == batch]
        traffic = (own.traffic_byte / own.footprint_byte).median()
        compulsory = (own.compulsory_byte / own.footprint_byte).median()
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


def _bound(rows: pd.DataFrame, limit: Limit, definition: str) -> str:
    """How many models are memory-bound at each batch size; sizes with the same models are told together."""
    below = rows[rows[f"{definition}_intensity"] < limit.roof.ridge_flop_per_byte]
    title = DEFINITIONS[definition]
    if below.empty:
        return f"by {title} none at any batch size"
    counts: list[str] = []
    batches = sorted(rows.batch.unique())
    for names, group in groupby(batches, lambda batch: sorted(below[below.batch == batch].model)):
        first, *others = group
        span = f"{first} to {others[-1]}" if others else f"{first}"
        where = (
            f"{'' if counts else 'batch size '}{span}"
            if len(others) + 1 < len(batches)
            else "every batch size"
        )
        counts.append(f"{len(names) or 'none'} at {where}{named(names)}")
    return f"by {title} {listing(counts)}"


@finding
def on_roofs(paper: Paper) -> str:
    """How many models each roof leaves memory-bound, for each definition of intensity and batch size.

    Of batch sizes, those that most models were counted at.
    """
    rows = available.workloads(paper)
    counted = rows.groupby("batch").model.nunique()
    rows = rows[rows.batch.map(counted) == counted.max()]
    sentences = []
    for limit in compared_roofs(paper):
        how = "measured" if limit.measured else "datasheet"
        parts = [_bound(rows, limit, definition) for definition in DEFINITIONS]
        sentences.append(
            f"Under the {how} {limit.precision} roof of the {limit.name}, whose ridge point is "
            f"{intensity(limit.roof.ridge_flop_per_byte)}, of {number(rows.model.nunique(), 'model')} these are "
            f"memory-bound: {'; '.join(parts)}."
        )
    return " ".join(sentences)


@finding
def crossings(paper: Paper) -> str:
    """On each chip that serves as an example: who is memory-bound, and what a larger batch changes."""
    found = held_against_chips(paper)
    sentences = [_crossing(limit, models) for limit, models in found]
    lacking = {limit.precision for limit in example_chips(paper)} - {limit.precision for limit, _ in found}
    sentences += [str(or_missing(available.workloads)(paper, precision)) for precision in sorted(lacking)]
    return " ".join(sentences)


def _crossing(limit: Limit, models: list[Demand]) -> str:
    ridge = limit.roof.ridge_flop_per_byte
    where = f"On the {limit.name} at {limit.precision} (ridge point {intensity(ridge)})"
    below = [demand for demand in models if demand.intensity(1) < ridge]
    if not below:
        return f"{where} no model is memory-bound by footprint at any batch size."
    crossed = {demand.model: batch for demand in below if (batch := demand.crossing(ridge)) is not None}
    never = len(below) - len(crossed)
    text = (
        f"{where} {len(below)} of {number(len(models), 'model')} {'is' if len(below) == 1 else 'are'} memory-bound by "
        f"footprint at batch size 1, {never or 'none'} of them at every batch size"
    )
    if not crossed:
        return f"{text}."
    first, last = (end(crossed, key=lambda model: crossed[model]) for end in (min, max))
    span = f"at batch size {crossed[first]} ({first})"
    if crossed[first] < crossed[last]:
        span = f"between batch size {crossed[first]} ({first}) and {crossed[last]} ({last})"
    return f"{text}; the {'others cross' if len(crossed) > 1 else 'other crosses'} the ridge point {span}."
