"""How near the models come to the roofs of the machine."""

import pandas as pd

from report import available, chips
from report.available import finding
from report.figures.utilisation import datasheet_roof
from report.paper import BASE_PRECISION, Machine, Paper
from report.quantities import intensity, listing, number, percent, si
from report.rows import highest, lowest

NAMED = 4
"""So many models are named in a sentence; of more, only the number is said."""


def _named(models: list[str]) -> str:
    return f" ({listing(models)})" if 0 < len(models) <= NAMED else ""


def roofs(paper: Paper, machine: Machine) -> str:
    """The measured roof, and the datasheet's beside it."""
    roof = available.roof(machine)
    return (
        f"The measured roof of the {available.title(machine)} at {BASE_PRECISION} is "
        f"{si(roof.peak_flop_per_s, 'FLOP/s')} for arithmetic and {si(roof.bandwidth_byte_per_s, 'B/s')} for memory; "
        f"they meet at the ridge point of {intensity(roof.ridge_flop_per_byte)}. {datasheet(paper, machine)}"
    )


def datasheet(paper: Paper, machine: Machine) -> str:
    """Whether a vendor's roof is known for this machine, and what share of it was measured."""
    name = machine.environment.name
    if chips.datasheet(paper.chips, name).empty:
        return f"No chip of the table answers to the name {name}, so the measured roof stands alone."
    printed = datasheet_roof(paper, machine)
    if printed is None:
        return (
            f"The datasheet of the {name} prints no {BASE_PRECISION} peak, so the measured roof stands alone."
        )
    measured = available.roof(machine)
    return (
        f"The datasheet prints {si(printed.peak_flop_per_s, 'FLOP/s')} and {si(printed.bandwidth_byte_per_s, 'B/s')}: "
        f"{percent(measured.peak_flop_per_s / printed.peak_flop_per_s)} of that peak and "
        f"{percent(measured.bandwidth_byte_per_s / printed.bandwidth_byte_per_s)} of that bandwidth were measured."
    )


def bounds(cells: pd.DataFrame) -> str:
    """How many models are memory-bound at each batch size, by their footprint."""
    if not cells.memory_bound.any():
        return "By footprint, against the measured ridge point, every model is compute-bound at every batch size."
    parts: list[str] = []
    for batch, rows in cells.groupby("batch"):
        bound = sorted(rows[rows.memory_bound].model)
        verb = "are" if len(bound) > 1 else "is"
        said = f"{verb} memory-bound at batch size" if not parts else "at"
        parts.append(f"{len(bound) or 'none'} of {number(len(rows), 'model')} {said} {batch}{_named(bound)}")
    return f"By footprint, against the measured ridge point, {listing(parts)}; the others are compute-bound."


def shares(cells: pd.DataFrame) -> str:
    """Best, middle and worst share of the attainable rate."""
    best, worst = highest(cells, "attained"), lowest(cells, "attained")
    if len(cells) == 1:
        return (
            f"The one cell measured ({best.model}) achieves {percent(best.attained)} of the attainable rate."
        )
    return (
        f"The share of the attainable rate that is achieved is {percent(cells.attained.median())} in the median of "
        f"{number(len(cells), 'cell')}; highest in {best.model} at batch size {best.batch} ({percent(best.attained)}, "
        f"{si(best.flop_per_s, 'FLOP/s')}), lowest in {worst.model} at batch size {worst.batch} "
        f"({percent(worst.attained)})."
    )


def above(cells: pd.DataFrame) -> str:
    """Which cells are above the roof, with the likely cause."""
    over = cells[cells.attained > 1]
    if over.empty:
        return "No point is above the measured roof."
    causes = []
    if over.memory_bound.any():
        causes.append("caches that serve activations which the footprint counts as memory traffic")
    if (~over.memory_bound.astype(bool)).any():
        causes.append(
            "convolution algorithms that do less arithmetic than is counted, or a kernel faster than the "
            "matrix product "
            "that the roof was measured with"
        )
    verb = "lies" if len(over) == 1 else "lie"
    models = sorted(set(over.model))
    return (
        f"{number(len(over), 'cell').capitalize()} {verb} above the measured roof{_named(models)}, by at most "
        f"{percent(over.attained.max() - 1)}; likely causes are {listing(causes)}."
    )


@finding
def attained(paper: Paper) -> str:
    """The roofs of each machine shown, and how near the models come to them."""

    def part(machine: Machine) -> str:
        limits, cells = roofs(paper, machine), available.cells(machine)
        return f"{limits} {bounds(cells)} {shares(cells)} {above(cells)}"

    return available.told_of_each(paper, part)
