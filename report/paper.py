"""Everything that the paper is made from, loaded once into tidy frames."""

import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import pandas as pd

from measure.cache import MachineFolder, Workloads, machine_names, read
from measure.records import (
    CELL,
    EAGER,
    INFERENCE,
    Ceiling,
    CounterResult,
    Environment,
    Layer,
    Run,
    Sample,
    Workload,
)
from measure.statistics import estimate_median
from report import bibliography, chips, counters, flop_per_cycle, workloads
from report.flop_per_cycle import FlopPerCycle

BASE_PRECISION = "fp32"
"""The precision of the figures that show one precision only."""

DEVICE_KINDS = {"cpu": "cpu", "cuda": "gpu", "mps": "gpu"}
"""Device of an environment to kind of chip."""


@dataclass(frozen=True)
class Clock:
    """The clock of a processor in Hz, and the cycles that a floating-point addition took (None: not measured).

    Both come from chains of dependent additions, of which one of integers takes a cycle.
    """

    hertz: float
    addition_cycle: float | None


@dataclass(frozen=True)
class Machine:
    """One machine in its newest environment, with its roofs (as ``measured_roofs`` gives them), clock and cells."""

    folder: str
    environment: Environment
    roofs: pd.DataFrame
    clock: Clock | None
    cells: pd.DataFrame

    @property
    def kind(self) -> str:
        return DEVICE_KINDS[self.environment.device]

    def roof(self, precision: str) -> "Roof | None":
        """The measured roof at a precision; None where it was not measured."""
        rows = self.roofs[self.roofs.precision == precision]
        return None if rows.empty else Roof(rows.iloc[0].peak_flop_per_s, rows.iloc[0].bandwidth_byte_per_s)


@dataclass(frozen=True)
class Roof:
    """A peak (FLOP/s) and a bandwidth (B/s)."""

    peak_flop_per_s: float
    bandwidth_byte_per_s: float

    @property
    def ridge_flop_per_byte(self) -> float:
        return self.peak_flop_per_s / self.bandwidth_byte_per_s

    def attainable(self, intensity_flop_per_byte: float) -> float:
        """The rate (FLOP/s) that no kernel of this intensity exceeds (Williams et al. 2009)."""
        return min(self.peak_flop_per_s, self.bandwidth_byte_per_s * intensity_flop_per_byte)


@dataclass(frozen=True)
class Paper:
    """The frames. ``machines`` holds the one measured last first; of workloads and layers see ``report.workloads``."""

    chips: pd.DataFrame
    flop_per_cycle: tuple[FlopPerCycle, ...]
    workloads: pd.DataFrame
    layers: pd.DataFrame
    not_counted: pd.DataFrame
    counters: pd.DataFrame
    machines: tuple[Machine, ...]

    def machine(self, kind: str) -> Machine | None:
        """The machine of this kind ("cpu" or "gpu") that was measured last."""
        return next((machine for machine in self.machines if machine.kind == kind), None)

    @property
    def shown(self) -> tuple[Machine, ...]:
        """The machines that figures show: of each kind the one measured last, a CPU first."""
        newest = (self.machine(kind) for kind in ("cpu", "gpu"))
        return tuple(machine for machine in newest if machine)


def frame(rows: list[Any], record: type) -> pd.DataFrame:
    """A table's records as a frame with the table's columns, even when it is empty."""
    return pd.DataFrame(map(vars, rows), columns=[field.name for field in fields(record)])


def load(data: Path | None = None, references: Path = Path("bib/references.bib")) -> Paper:
    """Reads a data folder: the one given, else the one RIDGEPOINT_DATA names, else the project's ``data``.

    What is not there yet is empty. Raises UserError where a table cannot be read.
    """
    data = data or Path(os.environ.get("RIDGEPOINT_DATA") or "data")
    tables = Workloads(data)
    models, layers = frame(tables.models(), Workload), frame(tables.layers(), Layer)
    workloads.check_sums(models, layers, tables.layers_path)
    shown = workloads.shown(models)
    folders = (MachineFolder(data, name) for name in machine_names(data))
    machines = [machine for folder in folders if (machine := load_machine(folder, shown))]
    machines.sort(key=lambda machine: machine.environment.recorded_at, reverse=True)
    keys = bibliography.read_keys(references)
    return Paper(
        chips.read(data / "chips.csv", keys),
        flop_per_cycle.read(data / "flop_per_cycle.csv", keys),
        shown,
        workloads.layers_of(layers, shown),
        workloads.not_counted(models),
        counters.derive(frame(read(data / "workload" / "counters.csv", CounterResult), CounterResult)),
        tuple(machines),
    )


def load_machine(folder: MachineFolder, counted: pd.DataFrame) -> Machine | None:
    """A machine's newest environment and what was measured in it; None where none is recorded."""
    environment = max(folder.environments(), key=lambda row: row.recorded_at, default=None)
    if environment is None:
        return None

    def ours(rows: list[Any], record: type) -> pd.DataFrame:
        return frame([row for row in rows if row.environment_id == environment.environment_id], record)

    ceilings = ours(folder.ceilings(), Ceiling)
    machine = Machine(
        folder.name, environment, measured_roofs(ceilings), measured_clock(ceilings), pd.DataFrame()
    )
    cells = derive_cells(ours(folder.runs(), Run), ours(folder.samples(), Sample), counted, machine)
    return replace(machine, cells=cells)


def measured_clock(ceilings: pd.DataFrame) -> Clock | None:
    """The clock that the chain of integer additions shows; None where it was not measured."""
    chains = ceilings[(ceilings.kernel == "chain") & (ceilings.status == "ok")]
    addition_s = dict(zip(chains.precision, chains.latency_s.astype(float) / chains["size"], strict=True))
    if "int64" not in addition_s:
        return None
    cycle_s = addition_s["int64"]
    return Clock(1 / cycle_s, addition_s["fp64"] / cycle_s if "fp64" in addition_s else None)


def measured_roofs(ceilings: pd.DataFrame) -> pd.DataFrame:
    """One row is a precision: the best matrix product's rate and the best triad's, each with its interval.

    A bandwidth moves bytes, whatever they mean: the best triad of any precision serves all of them.
    """
    ceilings = ceilings[ceilings.status == "ok"]
    ceilings = ceilings.astype(dict.fromkeys(("latency_s", "latency_low_s", "latency_high_s"), float))
    rated = ceilings.assign(
        **{
            f"{work}_per_s{end}": ceilings[work] / ceilings[f"latency{bound}_s"]
            for work in ("flop", "byte")
            for end, bound in (("", ""), ("_low", "_high"), ("_high", "_low"))
        }
    )
    streams = rated[rated.kernel == "triad"].sort_values("byte_per_s", ascending=False)
    rows = []
    for precision, products in rated[rated.kernel == "matmul"].groupby("precision", sort=False):
        if streams.empty:
            break
        product, stream = products.sort_values("flop_per_s", ascending=False).iloc[0], streams.iloc[0]
        rows.append(
            {
                "precision": precision,
                "peak_flop_per_s": product.flop_per_s,
                "peak_low_flop_per_s": product.flop_per_s_low,
                "peak_high_flop_per_s": product.flop_per_s_high,
                "matmul_size": product["size"],
                "bandwidth_byte_per_s": stream.byte_per_s,
                "bandwidth_low_byte_per_s": stream.byte_per_s_low,
                "bandwidth_high_byte_per_s": stream.byte_per_s_high,
                "triad_size": stream["size"],
            }
        )
    columns = [
        "precision",
        *(
            f"{roof}{end}_{unit}_per_s"
            for roof, unit in (("peak", "flop"), ("bandwidth", "byte"))
            for end in ("", "_low", "_high")
        ),
        "matmul_size",
        "triad_size",
    ]
    return pd.DataFrame(rows, columns=columns)


def derive_cells(
    runs: pd.DataFrame, samples: pd.DataFrame, counted: pd.DataFrame, machine: Machine
) -> pd.DataFrame:
    """One row is an inference cell, eager: its median latency with interval, and what follows from its workload.

    ``attained`` is the achieved rate over the roof above the model's footprint intensity, ``peak_share`` the same
    over the flat part of the roof; both empty where no roof was measured at the precision.
    """
    cell = list(CELL)
    medians = []
    for key, values in samples.groupby(cell)["latency_s"]:
        estimate = estimate_median(list(values))
        medians.append((*key, estimate.median, estimate.low, estimate.high, len(values)))
    estimates = pd.DataFrame(
        medians, columns=[*cell, "latency_s", "latency_low_s", "latency_high_s", "sample_count"]
    )
    runs = runs[(runs.phase == INFERENCE) & (runs.variant == EAGER)]
    cells = runs.merge(estimates, on=cell, how="left").merge(
        workloads.as_measured(counted), on=["model", "batch", "precision"], how="left"
    )
    roofs = [machine.roof(precision) for precision in cells.precision]
    cells["flop_per_s"] = cells.forward_flop / cells.latency_s
    cells["throughput_per_s"] = cells.batch / cells.latency_s
    cells["peak_flop_per_s"] = [roof.peak_flop_per_s if roof else None for roof in roofs]
    cells["ridge_flop_per_byte"] = [roof.ridge_flop_per_byte if roof else None for roof in roofs]
    cells["attainable_flop_per_s"] = [
        roof.attainable(value) if roof else None
        for roof, value in zip(roofs, cells.footprint_intensity, strict=True)
    ]
    numbers = [
        "latency_s",
        "latency_low_s",
        "latency_high_s",
        "peak_flop_per_s",
        "ridge_flop_per_byte",
        "attainable_flop_per_s",
    ]
    cells[numbers] = cells[numbers].astype(float)
    cells["attained"] = cells.flop_per_s / cells.attainable_flop_per_s
    cells["peak_share"] = cells.flop_per_s / cells.peak_flop_per_s
    cells["memory_bound"] = cells.footprint_intensity < cells.ridge_flop_per_byte
    return cells
