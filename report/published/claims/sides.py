"""Claims about the side of a ridge point: which models are memory-bound on which chip, by footprint."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import pandas as pd

from report.analysis import available
from report.analysis.available import missing
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.published.agreement import Measured, counted, interval_between, together
from report.published.claims.ruling import Ruling, at_batches
from report.published.steps import chip_roof
from report.text.frame_rows import matching
from report.text.prose import listing, number

STUDIED_GPU = "NVIDIA T4"
"""The GPU of the studies that say which they used: its datasheet stands in where it was not measured."""

BATCHES = (1, 64, 256)
"""The batch sizes of the studies."""


@dataclass(frozen=True)
class Ridge:
    """The intensity (FLOP/B) at which a roof bends, with its interval where the roof was measured, and whose it is."""

    name: str
    point: Measured

    def holds(self, intensity_flop_per_byte: float, bound: str) -> bool | None:
        """Return whether a model of this intensity is bound so; None where it may lie on either side."""
        memory_bound = self.point.above(intensity_flop_per_byte)
        return None if memory_bound is None else memory_bound == (bound == "memory-bound")


def ridges(paper: Paper, kind: str) -> list[Ridge]:
    """Return the ridge point of the measured machine of a kind; of GPUs also that of the studies'; at least one."""
    found = []
    machine = paper.machine(kind)
    if machine and machine.roof(BASE_PRECISION):
        found.append(_measured(machine))
    datasheet = chip_roof(paper, STUDIED_GPU) if kind == "gpu" else None
    if datasheet:
        found.append(Ridge(f"{STUDIED_GPU} by its datasheet", counted(datasheet.ridge_flop_per_byte)))
    if not found:
        available.roof(available.machine(paper, kind))
    return found


def _measured(machine: Machine) -> Ridge:
    row = matching(machine.roofs, precision=BASE_PRECISION).iloc[0]
    ends = interval_between(float(row.ridge_low_flop_per_byte), float(row.ridge_high_flop_per_byte))
    return Ridge(available.title(machine), Measured(float(row.ridge_flop_per_byte), ends))


def models(paper: Paper, wanted: Callable[[str], bool], batches: Collection[int] = BATCHES) -> pd.DataFrame:
    """Return the workloads of the models that a claim means, at the studies' batch sizes; at least one."""
    rows = available.workloads(paper)
    rows = rows[rows.model.map(wanted) & rows.batch.isin(batches)]
    if rows.empty:
        raise missing("The models of this claim have not been counted", sections=["workload"], does="counts them")
    return rows


def each_batch(rows: pd.DataFrame) -> Iterator[tuple[int, pd.DataFrame]]:
    """Yield the rows of each batch size, the smallest first."""
    for batch in sorted(set(rows.batch.astype(int))):
        yield batch, rows[rows.batch == batch]


Sides = dict[int, list[bool | None]]
"""By batch size, for each model, whether it is on the side of the ridge point that is claimed (None: on either)."""


def sides(ridge: Ridge, bound: str, rows: pd.DataFrame) -> Sides:
    return {
        batch: [ridge.holds(float(value), bound) for value in models.footprint_intensity]
        for batch, models in each_batch(rows)
    }


def sentence(ridge: Ridge, bound: str, held: Sides) -> str:
    """Write ``On the X (ridge point 10 FLOP/B), of 9 models by footprint, compute-bound are 5 at batch size 1 ...``."""
    parts = [f"{models.count(True) or 'none'} at batch size {batch}" for batch, models in held.items()]
    either = [f"{models.count(None)} at batch size {batch}" for batch, models in held.items() if None in models]
    first = next(iter(held.values()))
    return (
        f"On the {ridge.name} (ridge point {ridge.point} FLOP/B), of {number(len(first), 'model')} by footprint, "
        f"{bound} are {listing(parts)}{', and on either side ' if either else ''}{listing(either)}."
    )


def ruled_by_side(
    paper: Paper, wanted: Callable[[str], bool], kind: str, bound: str, batches: Collection[int] = BATCHES
) -> Ruling:
    """Rule on a claim that models are memory- or compute-bound on all roofs of a kind of machine."""
    rows = models(paper, wanted, batches)
    found = [(ridge, sides(ridge, bound, rows)) for ridge in ridges(paper, kind)]
    holds = {
        batch: together([held for _, by_batch in found for held in by_batch[batch]]) for batch, _ in each_batch(rows)
    }
    return at_batches(holds, " ".join(sentence(ridge, bound, held) for ridge, held in found))
