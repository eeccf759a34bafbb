"""The frames of the chapter on utilisation: cells, batch sizes, the terms of the gap, gains, rates of operators."""

import re
from functools import cache
from math import nan
from typing import Any

import pandas as pd

from measure.cache.project import MACHINES
from measure.domain.statistics import FEWEST_MODELS
from measure.domain.words import EAGER, INFERENCE
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.cells import INFERENCE_CELL
from report.paper.frames import matching
from report.paper.operator_groups import profiled as profiled_groups

KEPT = "kept_memory"
OBSERVED = ["plain_s", "profiled_s", "busy_s", "system_s", "page_faults"]
ASSIGNED = (1, 64, 256)  # the batch sizes of the classic assignment


def devices(paper: Paper) -> tuple[Machine | None, Machine | None]:
    """Return the processor and the GPU of the chapter: the machine at hand, and the first of the other kind."""
    hand = paper.at_hand
    processor, gpu = (
        hand if hand is not None and hand.chip_kind == kind else paper.machine(kind) for kind in ("cpu", "gpu")
    )
    return processor, gpu


def short_name(machine: Machine) -> str:
    """Return a machine's name without its microarchitecture and cores, with its mark as a reference."""
    return re.sub(r",.*?( \(reference\))?$", r"\1", machine.name)


def is_reference(paper: Paper, machine: Machine | None) -> bool:
    """Return whether a machine comes with the project while the machine at hand is the reader's own."""
    hand = paper.at_hand
    return machine is not None and hand is not None and machine.folder in MACHINES and hand.folder not in MACHINES


@cache
def base_cells(machine: Machine, variant: str = EAGER, precision: str = BASE_PRECISION) -> pd.DataFrame:
    cells = matching(machine.cells if variant == EAGER else machine.variants, variant=variant, precision=precision)
    return cells[cells.latency_s.notna()]


def of_most(models: "pd.Series[int]") -> list[int]:
    """Return the batch sizes, in order, that at least half as many networks have as the commonest of them."""
    return [int(batch) for batch in models.index[2 * models >= models.max()]]


def shown_batches(machine: Machine) -> list[int]:
    """Return the batch sizes of the assignment that most networks ran; with less than two, the last three they ran."""
    ran = of_most(base_cells(machine).groupby("batch").model.nunique())
    found = [batch for batch in ran if batch in ASSIGNED]
    return found if len(found) > 1 else ran[-len(ASSIGNED) :]


@cache
def gap_terms(machine: Machine, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """Return one row per profiled cell: its latency, and the terms ``whole_s`` to ``rest_s`` that sum to it.

    ``outside`` is the share of a call that its threads spend in the operating system, or on a GPU the share without a
    running kernel. That share of the latency is the third term.
    """
    profiles = matching(machine.profiles, status="ok", phase=INFERENCE, variant=EAGER)
    rows = base_cells(machine, EAGER, precision).merge(profiles[[*INFERENCE_CELL, *OBSERVED]], on=INFERENCE_CELL)
    rows = rows.astype(dict.fromkeys(OBSERVED, float))
    if machine.chip_kind == "cpu":
        outside = rows.system_s / ((machine.environment.threads or 1) * rows.plain_s)
    else:
        outside = (1 - rows.busy_s / rows.plain_s).clip(lower=0)
    whole, layers, taken = rows.model_bound_s, rows.operator_bound_s, outside * rows.latency_s
    rows = rows.assign(outside=outside, whole_s=whole, between_s=layers - whole, outside_s=taken)
    return rows.assign(rest_s=rows.latency_s - layers - taken).dropna(subset="rest_s")


def rest_shares(terms: pd.DataFrame) -> "pd.Series[float]":
    """Return the shares of the latency that remain below the roofs; NaN if a network beats its bound."""
    is_beaten = (terms.operator_bound_s > terms.latency_s).any()
    return terms.rest_s / (nan if is_beaten else terms.latency_s)


@cache
def kernel_terms(machine: Machine, precision: str) -> pd.DataFrame:
    """Return the terms of a GPU's profiled cells at a precision, at the largest batch size that most of them have."""
    terms = gap_terms(machine, precision)
    sizes = of_most(terms.groupby("batch").model.nunique())
    return terms[terms.batch == sizes[-1]] if sizes else terms


def batch_sizes(machine: Machine) -> tuple[int | None, int | None, int | None]:
    """Return the smallest profiled batch size, the one to compare with, and the one of the gap.

    The batch size of the gap is the largest with enough profiled networks, else the largest that most networks have.
    The one to compare with is the smaller size that shares most networks with it, the largest of equals.
    """
    measured, profiled = (rows.groupby("batch").model.nunique() for rows in (base_cells(machine), gap_terms(machine)))
    enough = [int(batch) for batch in profiled.index[profiled >= FEWEST_MODELS]] or of_most(measured)
    if not enough:
        return None, None, None
    large, cells = enough[-1], base_cells(machine)
    models = set(cells[cells.batch == large].model)
    smaller: Any = cells[cells.batch < large].groupby("batch")
    shared = {batch: len(models & set(rows.model)) for batch, rows in smaller}
    small: Any = max(shared, key=lambda batch: (shared[batch], batch), default=None)
    return enough[0], None if small is None else int(small), large


def kept_terms(machine: Machine) -> pd.DataFrame:
    """Return the terms of profiled cells that also ran with freed memory kept: ``speed_up`` is over eager mode.

    ``expected`` is the gain if the operating system's share vanished and nothing else changed.
    """
    gains = base_cells(machine, KEPT)[[*INFERENCE_CELL, "speed_up", "speed_up_low", "speed_up_high"]]
    terms = gap_terms(machine).drop(columns=["speed_up", "speed_up_low", "speed_up_high"])
    rows = terms.merge(gains.dropna(subset="speed_up"), on=INFERENCE_CELL)
    return rows.assign(expected=1 / (1 - rows.outside))


def gains_of(machine: Machine, variant: str, precision: str, batch: int | None) -> pd.Series:
    """Return each network's speed-up over eager mode at the base precision.

    Variants at the base precision ran in one session with eager mode, so that their ratio is taken round by round.
    """
    cells = matching(base_cells(machine, variant, precision), batch=batch).set_index("model")
    if precision == BASE_PRECISION:
        return cells.speed_up.dropna()
    eager = matching(base_cells(machine), batch=batch).set_index("model").latency_s
    return (eager / cells.latency_s).dropna()


def batching_of(machine: Machine, variant: str, small: int | None, large: int | None) -> pd.Series:
    """Return each network's throughput at the large batch over the throughput at the small one."""
    cells = base_cells(machine, variant)
    before, after = (cells[cells.batch == batch].set_index("model").throughput_per_s for batch in (small, large))
    return (after / before).dropna()


@cache
def stream_rates(paper: Paper, machine: Machine, batch: int | None) -> pd.DataFrame:
    """Return one row per group of operators in profiled inference, with the ``byte_per_s`` that it reads and writes.

    On a processor the profiler lengthens operators, so their times are scaled to a plain call.
    """
    rows = matching(profiled_groups(paper, machine), phase=INFERENCE, batch=batch)
    scale = rows.plain_s / rows.profiled_s if machine.chip_kind == "cpu" else 1.0
    rows = rows.assign(byte_per_s=rows.byte / (rows.time_s * scale))
    return rows[rows.byte > 0]
