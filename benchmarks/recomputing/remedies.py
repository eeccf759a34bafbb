"""Which measured way to run a profiled cell helps it most."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import pandas as pd

from recomputing.cache import EAGER, FULL, Cache, Machine, each


class Trial(NamedTuple):
    """Another way to run a cell: how many times as fast an input is, and the least that the intervals let that be."""

    name: str
    gain: float
    low: float


def helping(cache: Cache, machine: Machine) -> tuple[list[str], int]:
    """Return for each profiled cell that something helps what helps most, and the number of profiled cells.

    It helps where the lower end of its gain is above one.
    """
    asked = cache.asked(machine)
    ran = machine.profiles[(machine.profiles.status == "ok") & (machine.profiles.phase == "inference")]
    ran = ran[(ran.variant == EAGER) & (ran.precision == FULL)]
    profiled = asked[asked.operator_bound_s.notna()].merge(ran[["model", "batch"]], on=["model", "batch"])
    best = []
    for cell in each(profiled):
        if found := [trial for trial in _trials(machine, cell) if trial.low > 1]:
            best.append(max(found, key=lambda trial: trial.gain).name)
    return best, len(profiled)


def _trials(machine: Machine, cell: Any) -> Iterator[Trial]:
    """Yield variants and other precisions at the batch size, and larger batch sizes at the precision."""
    rows = machine.speed_ups
    for row in each(rows[(rows.model == cell.model) & (rows.batch == cell.batch) & (rows.precision == FULL)]):
        yield Trial(row.variant, row.speed_up, row.speed_up_low)
    own: pd.DataFrame = machine.cells
    own = own[(own.model == cell.model) & (own.variant == EAGER) & own.latency_s.notna()]
    for row in each(own):
        inputs = row.batch / cell.batch
        gain, low = inputs * cell.latency_s / row.latency_s, inputs * cell.low_s / row.high_s
        if inputs == 1 and row.precision != FULL:
            yield Trial(row.precision, gain, low)
        elif inputs > 1 and row.precision == FULL:
            yield Trial(f"batch size {row.batch}", gain, low)
