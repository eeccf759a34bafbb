"""Timings of networks in eager mode on one device: the reader's processor and GPU, else a published GPU."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pandas as pd

from measure.domain.names import model_name
from measure.domain.roofs import Roofline
from measure.domain.words import ROUNDS
from report.options import measure_command
from report.paper import BASE_PRECISION, Machine, Paper, published
from report.paper.chips import short_name
from report.paper.frames import matching
from report.paper.published import ALIKE_FLOP
from report.stats.value import Source, Value, estimated

BATCHES = (1, 64, 256)
"""The batch sizes of the figures; else the smallest, middle and largest that half of the networks have."""

ENOUGH = 12
"""Networks timed on both devices that show how alike two orders are; with fewer, others' timings do."""

COMMAND = measure_command("--sections inference --batch-sizes 1 8 64 256")


@dataclass(frozen=True, eq=False)
class Timed:
    """Networks timed on one device in eager mode. A row is a network at a batch size (and input size).

    ``rows`` has ``model``, ``name``, ``label`` (the name, empty for an identifier), ``batch``; per input ``flop``,
    ``activation_byte``, ``traffic_byte`` and ``layers_s`` (the layer-by-layer bound); ``parameters``; ``latency_s`` of
    a call, ``input_s`` (the time of one input) and ``throughput_per_s``. ``low_s`` and ``high_s`` are the ends of a
    call's interval in figures, which leave out cells with fewer than ``ROUNDS`` rounds. ``batches`` are in the figures:
    none if each network has its own batch size.
    """

    name: str
    kind: str  # "CPU" or "GPU"
    precision: str
    rows: pd.DataFrame
    source: Source
    batches: tuple[int, ...] = ()
    roof: Roofline | None = None

    def at(self, batch: int | None) -> pd.DataFrame:
        """Return the rows at a batch size; None: all rows."""
        return matching(self.rows, batch=batch)

    def nearest(self, *wanted: int | None) -> int | None:
        """Return the first wanted batch size in the figures, else their middle one; None if they have none."""
        if not self.batches:
            return None
        return next((size for size in wanted if size in self.batches), self.batches[len(self.batches) // 2])

    @property
    def networks(self) -> int:
        return int(self.rows.model.nunique())


@cache
def timed_here(paper: Paper) -> Timed | None:
    """Return the timings of the reader's CPU, else of the machine at hand."""
    machine = paper.machine("cpu") or paper.at_hand
    return None if machine is None else _of_machine(machine)


@cache
def timed_gpu(paper: Paper) -> Timed | None:
    """Return the timings of the reader's GPU next to a CPU; None if the GPU is the machine at hand."""
    machine = paper.machine("gpu")
    return None if machine is None or paper.machine("cpu") is None else _of_machine(machine)


@cache
def ranked_devices(paper: Paper) -> list[Timed]:
    """Return the devices of the matrix: the reader's processor, and the GPU next to it if there is one.

    If fewer than ``ENOUGH`` networks were timed on both, the processor that shares most networks with the GPU.
    """
    here, gpu = timed_here(paper), timed_gpu(paper)
    if here is None or gpu is None:
        return [here] if here else []
    others = [found for machine in paper.machines if machine.chip_kind == "cpu" and (found := _of_machine(machine))]

    def shared(processor: Timed) -> int:
        return len({*processor.rows.model} & {*gpu.rows.model})

    return [here if shared(here) >= ENOUGH else max([here, *others], key=shared), gpu]


def _of_machine(machine: Machine) -> Timed | None:
    cells = matching(machine.cells, status="ok", precision=BASE_PRECISION)
    cells = cells[cells.forward_flop.notna()]  # times are compared with counts
    if cells.empty:
        return None
    by_batch = {
        "flop": "forward_flop", "activation_byte": "activation_byte", "traffic_byte": "traffic_byte",
        "layers_s": "operator_bound_s", "input_s": "latency_s",
    }  # fmt: skip
    rows = cells.assign(
        name=cells.model.map(model_name),
        label=cells.model.map(model_name),
        parameters=cells.parameter_count,
        low_s=cells.latency_low_s.where(cells.rounds >= ROUNDS),
        high_s=cells.latency_high_s.where(cells.rounds >= ROUNDS),
        **{column: cells[total] / cells.batch for column, total in by_batch.items()},
    )
    networks = rows.groupby("batch").model.nunique()
    sizes = [int(size) for size in networks[2 * networks >= networks.max()].index]
    ends = tuple(dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1])))
    batches = BATCHES if set(BATCHES) <= set(sizes) else ends
    source = Source(f"machines/{machine.folder}/samples.csv", f"inference, eager, {BASE_PRECISION}", COMMAND)
    kind = machine.chip_kind.upper()
    return Timed(machine.name, kind, BASE_PRECISION, rows, source, batches, machine.roof(BASE_PRECISION))


@cache
def timed_elsewhere(paper: Paper) -> Timed | None:
    """Return the published timings of the GPU with the most networks timed in eager mode."""
    best = published.best_timed(paper.published)
    if best is None:
        return None
    rows, names = best.rows, best.rows.model.map(published.network_name)
    rows = rows.assign(
        name=names,
        label=names.where(names != rows.model.str.removeprefix("timm:"), ""),
        flop=rows.flop / rows.batch,
        parameters=rows.parameter_count.astype(float),
        activation_byte=rows.width * rows.activation_byte.astype(float),
        traffic_byte=rows.layers_byte / rows.batch,
        layers_s=rows.layers_s / rows.batch,
        low_s=float("nan"),
        high_s=float("nan"),
    )
    return Timed(short_name(best.device), "GPU", best.computed, rows, published.SOURCE, roof=best.roof)


def equal_flop(timed: Timed) -> pd.DataFrame:
    """Return the networks within ``ALIKE_FLOP`` at the most frequent shape of input, the fastest first."""
    usual = timed.rows.input_shape.mode().iloc[0]
    return timed.rows[timed.rows.flop.between(*ALIKE_FLOP) & (timed.rows.input_shape == usual)].sort_values("input_s")


def has_intervals(timed: Timed | None) -> bool:
    """Return whether any time in the figures has an interval."""
    return timed is not None and bool(timed.rows.low_s[timed.rows.batch.isin(timed.batches)].notna().any())


def common_batches(found: Sequence[Timed]) -> list[int]:
    """Return the batch sizes in the figures of all devices, the smallest first."""
    return sorted(set.intersection(*(set(timed.batches) for timed in found))) if found else []


def throughput(row: Any) -> Value:
    """Return a row's inputs per second, with the interval of its latency."""
    calls = estimated(row, "latency_s")
    low, high = (None if end is None else float(row.batch / end) for end in (calls.high, calls.low))
    return Value(float(row.throughput_per_s), low=low, high=high, counted="samples")
