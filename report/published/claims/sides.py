"""Claims about the side of a ridge point: which models are memory-bound on which chip, by footprint."""

from collections.abc import Callable, Iterator

import pandas as pd

from report.analysis import available
from report.analysis.available import missing
from report.analysis.bounds import NamedRoof
from report.load.paper import BASE_PRECISION, Paper
from report.published.claims.ruling import Ruling, at_batches
from report.published.steps import chip_roof
from report.text.quantities import intensity, listing, number

STUDIED_GPU = "NVIDIA T4"
"""The GPU of the studies that say which they used: its datasheet stands in where it was not measured."""

BATCHES = (1, 64, 256)
"""The batch sizes of the studies."""


def named_roofs(paper: Paper, kind: str) -> list[NamedRoof]:
    """Return the measured roof of the machine of a kind; of GPUs also that of the studies' GPU; at least one."""
    found = []
    machine = paper.machine(kind)
    measured = machine and machine.roof(BASE_PRECISION)
    if machine and measured:
        found.append(NamedRoof(available.title(machine), kind, BASE_PRECISION, measured, measured=True))
    datasheet = chip_roof(paper, STUDIED_GPU) if kind == "gpu" else None
    if datasheet:
        found.append(NamedRoof(f"{STUDIED_GPU} by its datasheet", kind, BASE_PRECISION, datasheet, measured=False))
    if not found:
        available.roof(available.machine(paper, kind))
    return found


def models(paper: Paper, wanted: Callable[[str], bool]) -> pd.DataFrame:
    """Return the workloads of the models that a claim means, at the studies' batch sizes; at least one."""
    rows = available.workloads(paper)
    rows = rows[rows.model.map(wanted) & rows.batch.isin(BATCHES)]
    if rows.empty:
        raise missing("The models of this claim have not been counted", sections=["workload"], does="counts them")
    return rows


def each_batch(rows: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    """Yield the rows of each batch size, the smallest first."""
    for batch in sorted(set(rows.batch.astype(int))):
        yield batch, rows[rows.batch == batch]


def sides(named_roof: NamedRoof, bound: str, rows: pd.DataFrame) -> dict[int, pd.Series]:
    """Return by batch size, for each model, whether it is on the side of the ridge point that is claimed."""
    return {batch: models.footprint_intensity.map(named_roof.bound) == bound for batch, models in each_batch(rows)}


def sentence(named_roof: NamedRoof, bound: str, held: dict[int, pd.Series]) -> str:
    """Write ``On the X (ridge point 10 FLOP/B), of 9 models by footprint, compute-bound are 5 at batch size 1 ...``."""
    parts = [f"{int(models.sum()) or 'none'} at batch size {batch}" for batch, models in held.items()]
    first = next(iter(held.values()))
    return (
        f"On the {named_roof.name} (ridge point {intensity(named_roof.roof.ridge_flop_per_byte)}), of "
        f"{number(len(first), 'model')} by footprint, {bound} are {listing(parts)}."
    )


def ruled_by_side(paper: Paper, wanted: Callable[[str], bool], **bounds: str) -> Ruling:
    """Rule on a claim that models are memory- or compute-bound on all roofs of some kinds of machine."""
    rows = models(paper, wanted)
    found = [
        (named_roof, bound, sides(named_roof, bound, rows))
        for kind, bound in bounds.items()
        for named_roof in named_roofs(paper, kind)
    ]
    holds = {batch: all(held[batch].all() for _, _, held in found) for batch, _ in each_batch(rows)}
    return at_batches(holds, " ".join(sentence(*on_roof) for on_roof in found))
