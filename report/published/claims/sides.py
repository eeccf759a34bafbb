"""Claims about the side of a ridge point: which models are memory-bound on which chip, by footprint."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pandas as pd

from report.analysis import available
from report.analysis.bounds import Limit
from report.load.paper import BASE_PRECISION, Paper
from report.published.steps import chip_roof
from report.text.frame_rows import each
from report.text.quantities import intensity, listing, number

STUDIED_GPU = "NVIDIA T4"
"""The GPU of the studies that say which they used: its datasheet stands in where it was not measured."""

BATCHES = (1, 64, 256)
"""The batch sizes of the studies."""


def limits(paper: Paper, kind: str) -> list[Limit]:
    """The measured roof of the machine of a kind; of GPUs also that of the studies' GPU; at least one."""
    found = []
    machine = paper.machine(kind)
    measured = machine and machine.roof(BASE_PRECISION)
    if machine and measured:
        found.append(Limit(available.title(machine), kind, BASE_PRECISION, measured, measured=True))
    datasheet = chip_roof(paper, STUDIED_GPU) if kind == "gpu" else None
    if datasheet:
        name = f"{STUDIED_GPU} by its datasheet"
        found.append(Limit(name, kind, BASE_PRECISION, datasheet, measured=False))
    if not found:
        available.roof(available.machine(paper, kind))
    return found


def models(paper: Paper, wanted: Callable[[str], bool], batch: int | None = None) -> pd.DataFrame:
    """The workloads of the models that a claim means, at the studies' batch sizes or at one; at least one."""
    rows = available.workloads(paper, batch=batch)
    rows = rows[rows.model.map(wanted) & rows.batch.isin(BATCHES)]
    if rows.empty:
        raise available.DataMissingError(
            "The models of this claim have not been counted; python -m measure --sections workload counts them."
        )
    return rows


def each_batch(rows: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of each batch size, the smallest first."""
    for batch in sorted(set(rows.batch.astype(int))):
        yield batch, rows[rows.batch == batch]


@dataclass(frozen=True)
class Side:
    """At a batch size, on one roof: of how many models how many are on the side that is claimed."""

    limit: Limit
    bound: str
    batch: int
    held: int
    of: int

    @property
    def holds(self) -> bool:
        return self.held == self.of


def sides(limit: Limit, bound: str, rows: pd.DataFrame) -> list[Side]:
    """One for each batch size."""
    found = []
    for batch, own in each_batch(rows):
        held = sum(limit.bound(row.footprint_intensity) == bound for row in each(own))
        found.append(Side(limit, bound, batch, held, len(own)))
    return found


def told(found: list[Side]) -> str:
    """``On the X (ridge point 10 FLOP/B) compute-bound are 5 of 9 models at batch size 1 and 9 at 64.``"""
    first = found[0]
    parts = [f"{side.held or 'none'} at batch size {side.batch}" for side in found]
    return (
        f"On the {first.limit.name} (ridge point {intensity(first.limit.roof.ridge_flop_per_byte)}), of "
        f"{number(first.of, 'model')} by footprint, {first.bound} are {listing(parts)}."
    )


def by_batch(found: list[Side]) -> dict[int, bool]:
    """Whether a claim holds on all roofs, by batch size."""
    batches = dict.fromkeys(side.batch for side in found)
    return {batch: all(side.holds for side in found if side.batch == batch) for batch in batches}
