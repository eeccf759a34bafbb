"""The cache as the abstract and the conclusions need it, from the CSV that ``docs/data.md`` describes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from recomputing.statistics import Estimate, of_rounds

FULL, LOWER = "fp32", ("bf16", "fp16")
EAGER = "eager"
KINDS = {"cpu": "CPU", "gpu": "GPU", "asic": "ASIC", "soc": "SoC", "fpga": "FPGA"}
"""Kinds of chip in the order of the paper."""

TARGET = 0.05
"""A cell is wide whose interval reaches farther to a side than this share of it."""

ARITHMETIC = ("fma", "matmul", "numpy_matmul")
STREAMS = ("stream_read", "stream_write", "stream_copy", "stream_triad")
CELL = ["model", "batch", "precision", "variant"]

ENVIRONMENT = (
    "environment_id device name cores torch recorded_at vector_extension cpu_vendor cpu_family cpu_model "
    "physical_cores hypervisor"
)
COLUMNS = {
    "roofs": ("roof_kernel precision size flop byte status latency_s latency_low_s latency_high_s pace round"),
    "runs": "model batch precision phase variant status round sitting flags input_shape",
    "samples": "model batch precision phase variant round sample latency_s",
    "profiles": "model batch precision phase variant status",
    "operators": "model batch precision phase variant path operator time_s",
}
"""What is needed of a machine's tables."""

WIDE, DRIFTING = "wide", "drifting"

SHAPES = {"wav2vec2_base": "160000"}
"""The input at which a model that is counted at several is measured: ten seconds of audio."""


def read(path: Path) -> pd.DataFrame:
    """Return a table; a shape of one number is a text like the others."""
    return pd.read_csv(path, dtype={"input_shape": str}) if path.exists() else pd.DataFrame()


def each(rows: pd.DataFrame) -> Iterator[Any]:
    yield from rows.itertuples()


def comparable(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of models that have all batch sizes, so that medians over models compare.

    These are batch sizes of at least half as many models as the one with the most has. While fewer than half of the
    models have all, the one with the fewest goes.
    """
    models = rows.groupby("batch").model.nunique()
    sizes = list(models[models >= models.max() / 2].index)
    while True:
        kept = rows[rows.batch.isin(sizes)]
        everywhere = kept.groupby("model").filter(lambda own: own.batch.nunique() == len(sizes))
        if everywhere.model.nunique() >= kept.model.nunique() / 2:
            return everywhere
        sizes.remove(kept.groupby("batch").model.nunique().idxmin())


def is_convolution(operators: pd.DataFrame) -> "pd.Series[bool]":
    """Say of each operator whether torch's name for it is that of a convolution: ``conv2d``, ``mkldnn_convolution``."""
    return operators.operator.astype(str).str.contains(r"conv(?:olution|_|\d)", case=False)


def model_numbers(text: str) -> set[int]:
    """Return the numbers in ``1;4-7``."""
    parts = [[int(end) for end in part.split("-")] for part in text.split(";")]
    return {number for part in parts for number in range(part[0], part[-1] + 1)}


@dataclass(frozen=True, eq=False)
class Machine:
    """A machine in its newest environment; the frames hold what was measured in it."""

    environment: "pd.Series"
    roofs: pd.DataFrame
    runs: pd.DataFrame
    samples: pd.DataFrame
    profiles: pd.DataFrame
    operators: pd.DataFrame

    @property
    def kind(self) -> str:
        return "cpu" if self.environment.device == "cpu" else "gpu"

    @property
    def title(self) -> str:
        cores = f" ({self.environment.cores:.0f} cores)" if self.kind == "cpu" else ""
        return f"{self.environment['name']}{cores}"

    @cached_property
    def rates(self) -> pd.DataFrame:
        """One row is a roof kernel at a size and the sustained pace: its FLOP/s and B/s, with the ends of the former.

        Rounds are joined.
        """
        rows = self.roofs[(self.roofs.status == "ok") & (self.roofs.pace == "sustained")]
        numbered = rows[rows["round"].notna()]
        joined = []
        for _, taken in numbered.groupby(["roof_kernel", "precision", "size"], sort=False):
            found = of_rounds([[time] for time in taken.latency_s])
            times = {"latency_s": found.median, "latency_low_s": found.low, "latency_high_s": found.high}
            joined.append(taken.iloc[0].to_dict() | times)
        if joined:
            rows = pd.concat([pd.DataFrame(joined), rows[rows["round"].isna()]], ignore_index=True)
        return rows.assign(
            flop_per_s=rows.flop / rows.latency_s,
            low=rows.flop / rows.latency_high_s,
            high=rows.flop / rows.latency_low_s,
            byte_per_s=rows.byte / rows.latency_s,
        )

    @cached_property
    def peaks(self) -> dict[str, Estimate]:
        """The fastest arithmetic at each precision, in FLOP/s; at int8, which no cell has, in OP/s."""
        rows = self.rates[self.rates.roof_kernel.isin(ARITHMETIC)]
        best = rows.loc[rows.groupby("precision").flop_per_s.idxmax()]
        return {row.precision: Estimate(row.flop_per_s, row.low, row.high) for row in each(best)}

    @cached_property
    def stream(self) -> "pd.Series":
        """The fastest stream through memory: of those with rounds, which lie beyond all caches."""
        rows = self.rates[self.rates.roof_kernel.isin(STREAMS) & self.rates["round"].notna()]
        return rows.iloc[int(rows.byte_per_s.to_numpy().argmax())]

    @property
    def byte_per_s(self) -> float:
        return float(self.stream.byte_per_s)

    def least_s(self, precision: "pd.Series[str]", flop: "pd.Series", byte: "pd.Series") -> "pd.Series":
        """Return the time that FLOP and bytes take at least under the roof, not a number where there is none."""
        peaks = precision.map({name: peak.median for name, peak in self.peaks.items()}).astype(float)
        return pd.concat([flop / peaks, byte / self.byte_per_s], axis=1).max(axis=1, skipna=False)

    @cached_property
    def hertz(self) -> float:
        """The clock: a chain of integer additions, each of which waits for the one before, takes a cycle for each."""
        chain = self.rates[(self.rates.roof_kernel == "chain") & (self.rates.precision == "int64")].iloc[-1]
        return float(chain["size"] / chain.latency_s)

    @cached_property
    def latencies(self) -> pd.DataFrame:
        """One row is a cell of a phase: the median of its rounds with the ends of its interval, and how it ended.

        ``flags`` are those of all rounds. Of several rounds the interval between them says whether the cell is wide,
        and drifting within one is not held against it.
        """
        key = [*CELL, "phase"]
        rows = []
        for cell, taken in self.samples.groupby(key):
            found = of_rounds([values.to_numpy() for _, values in taken.groupby("round").latency_s])
            rows.append((*cell, found.median, found.low, found.high))
        times = pd.DataFrame(rows, columns=[*key, "latency_s", "low_s", "high_s"])
        ended = [(*cell, *_ended(own)) for cell, own in self.runs.sort_values("round").groupby(key)]
        cells = pd.DataFrame(ended, columns=[*key, "status", "rounds", "flags"]).merge(times, on=key, how="left")
        return cells.assign(flags=[_held_against(cell) for _, cell in cells.iterrows()])

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The cells of inference."""
        return self.latencies[self.latencies.phase == "inference"].assign(
            throughput_per_s=lambda rows: rows.batch / rows.latency_s
        )

    @cached_property
    def lower(self) -> str:
        """The first of the lower precisions that a model ran in."""
        ran = self.cells[(self.cells.variant == EAGER) & (self.cells.status == "ok")].precision.unique()
        return next((precision for precision in LOWER if precision in ran), LOWER[0])

    @cached_property
    def speed_ups(self) -> pd.DataFrame:
        """One row is a cell of a variant: the median ratio over eager mode of rounds of one number in one sitting."""
        together = ["model", "batch", "precision", "round"]
        inference = self.samples[self.samples.phase == "inference"]
        medians = inference.groupby([*together, "variant"]).latency_s.median().reset_index()
        sittings = self.runs[self.runs.phase == "inference"][[*together, "variant", "sitting"]]
        known = sittings.sitting.astype(object).fillna("")
        medians = medians.merge(sittings.assign(sitting=known), on=[*together, "variant"])
        eager, others = medians[medians.variant == EAGER], medians[medians.variant != EAGER]
        pairs = others.merge(eager, on=[*together, "sitting"], suffixes=("", "_eager"))
        pairs["ratio"] = pairs.latency_s_eager / pairs.latency_s
        rows = []
        for cell, taken in pairs.groupby(CELL):
            found = of_rounds([[ratio] for ratio in taken.ratio])
            rows.append((*cell, found.median, found.low))
        return self.cells[[*CELL, "status"]].merge(
            pd.DataFrame(rows, columns=[*CELL, "speed_up", "speed_up_low"]), on=CELL
        )


def _ended(rounds: pd.DataFrame) -> tuple[str, int, str]:
    """Return how a cell ended (as its first round that failed), its measured rounds, and the flags of any."""
    failed = rounds.status[rounds.status != "ok"]
    flags = {flag for text in rounds["flags"].dropna() for flag in text.split(";")}
    return (failed.iloc[0] if len(failed) else "ok"), int((rounds.status == "ok").sum()), ";".join(sorted(flags))


def _held_against(cell: "pd.Series") -> str:
    flags = {flag for flag in cell["flags"].split(";") if flag}
    if cell.rounds > 1:
        flags -= {WIDE, DRIFTING}
        if (cell.high_s - cell.low_s) / 2 > TARGET * cell.latency_s:
            flags.add(WIDE)
    return ";".join(sorted(flags))


@dataclass(frozen=True, eq=False)
class Cache:
    """A data folder."""

    folder: Path

    @cached_property
    def workloads(self) -> pd.DataFrame:
        """What models ask for, without autocast and at one shape each, with the bytes of two kinds."""
        rows = read(self.folder / "workload" / "models.csv")
        rows = self._shown(rows[(rows.status == "ok") & rows.autocast.isna()])
        fixed = rows.parameter_byte + rows.input_byte
        return rows.assign(footprint_byte=fixed + rows.activation_byte, compulsory_byte=fixed + rows.output_byte)

    @cached_property
    def _shapes(self) -> dict[str, str]:
        """The input shape of each model that is counted at several: that at which it was measured.

        Raises ValueError for a model of which that is not known.
        """
        counted = read(self.folder / "workload" / "models.csv").groupby("model").input_shape.unique()
        runs = pd.concat([machine.runs[machine.runs.status == "ok"] for machine in self._measured] or [pd.DataFrame()])
        shapes = {}
        for model, several in counted[counted.map(len) > 1].items():
            measured = set(runs.input_shape[runs.model == model]) if len(runs) else set()
            usual = SHAPES.get(str(model), "")
            if usual not in (measured or {usual}):
                (usual,) = measured if len(measured) == 1 else ("",)
            if usual not in several:
                raise ValueError(f"{model}: counted at several shapes, and this program cannot tell the measured one")
            shapes[str(model)] = usual
        return shapes

    def _shown(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return the rows of inputs of the shape at which their model is shown."""
        wanted = rows.model.map(self._shapes)
        return rows[wanted.isna() | (rows.input_shape == wanted)]

    @cached_property
    def operators(self) -> pd.DataFrame:
        """The counted operators, without autocast, with the work of all calls."""
        rows = read(self.folder / "workload" / "operators.csv")
        rows = self._shown(rows[rows.autocast.isna()])
        return rows.assign(all_flop=rows.calls * (rows.flop + rows.other_flop))

    @cached_property
    def layers(self) -> pd.DataFrame:
        columns = ["model", "path", "layer_kind"]
        return read(self.folder / "workload" / "layers.csv")[columns].drop_duplicates(["model", "path"])

    @cached_property
    def chips(self) -> pd.DataFrame:
        rows = read(self.folder / "chips.csv")
        return rows.assign(
            ridge_flop_per_byte=rows.peak_flop_per_s / rows.bandwidth_byte_per_s,
            **{column: rows[column].fillna("") for column in ("alias", "die", "memory_type", "derivation")},
        )

    @cached_property
    def timed_by_others(self) -> pd.DataFrame:
        """What others timed and published."""
        return read(self.folder / "published" / "measurements" / "models.csv")

    @cached_property
    def flop_per_cycle(self) -> pd.DataFrame:
        return read(self.folder / "flop_per_cycle.csv")

    @cached_property
    def machines(self) -> list[Machine]:
        """The machines that torch ran on, processors first, of each kind the one measured last."""
        found = [machine for machine in map(self._as_shown, self._measured) if pd.notna(machine.environment.torch)]
        found.sort(key=lambda machine: str(machine.environment.recorded_at), reverse=True)
        return sorted(found, key=lambda machine: machine.kind)

    @cached_property
    def _measured(self) -> list[Machine]:
        """All machines with all that was measured."""
        return [machine_of(folder) for folder in sorted(self.folder.glob("machines/*/"))]

    def _as_shown(self, machine: Machine) -> Machine:
        runs = self._shown(machine.runs)
        return replace(machine, runs=runs, samples=machine.samples.merge(runs[[*CELL, "phase", "round"]]))

    @cached_property
    def shown(self) -> list[Machine]:
        """The first machine of each kind."""
        firsts = {machine.kind: machine for machine in reversed(self.machines)}
        return [machine for machine in self.machines if machine is firsts[machine.kind]]

    def asked(self, machine: Machine, precision: str = FULL) -> pd.DataFrame:
        """Return the measured and counted cells of inference in eager mode, with their workloads, and what follows.

        ``attained`` is the rate over that which the roof allows at the intensity by footprint, ``model_bound_s`` and
        ``operator_bound_s`` are the least times by compulsory bytes and of all operators in turn.
        """
        cells = machine.cells
        cells = cells[(cells.variant == EAGER) & (cells.precision == precision)]
        cells = cells[(cells.status == "ok") & cells.latency_s.notna()]
        cells = cells.assign(stored=cells.precision.replace("tf32", FULL))
        workloads = self.workloads.rename(columns={"precision": "stored"}).drop(columns=["status"])
        cells = cells.merge(workloads, on=["model", "batch", "stored"])
        attainable_s = machine.least_s(cells.precision, cells.forward_flop, cells.footprint_byte)
        return cells.assign(
            attained=attainable_s / cells.latency_s,
            attainable_flop_per_s=cells.forward_flop / attainable_s,
            model_bound_s=machine.least_s(cells.precision, cells.forward_flop, cells.compulsory_byte),
            operator_bound_s=self._operator_bounds(machine, cells),
        )

    def _operator_bounds(self, machine: Machine, cells: pd.DataFrame) -> "pd.Series":
        rows = self.operators[self.operators.stage == "inference"].rename(columns={"precision": "stored"})
        wanted = cells[["model", "batch", "stored", "precision"]].drop_duplicates()
        rows = rows.merge(wanted, on=["model", "batch", "stored"])
        rows["bound_s"] = rows.calls * machine.least_s(rows.precision, rows.flop, rows.byte)
        bounds = rows.groupby(["model", "batch", "precision"]).bound_s.sum(min_count=1)
        keys = pd.MultiIndex.from_frame(cells[["model", "batch", "precision"]])
        return bounds.reindex(keys).set_axis(cells.index)

    def steps(self, machine: Machine) -> pd.DataFrame:
        """Return the measured and counted training steps: the times of a step and of its stages.

        They are those at the smallest of the batch sizes that most models have.
        """
        rows = machine.latencies[(machine.latencies.variant == EAGER) & (machine.latencies.precision == FULL)]
        key = ["model", "batch"]
        steps = rows[(rows.phase == "step") & (rows.status == "ok")][[*key, "latency_s"]]
        for stage in ("forward", "backward"):
            times = rows[(rows.phase == stage) & rows.latency_s.notna()]
            steps = steps.merge(times[[*key, "latency_s"]].rename(columns={"latency_s": f"{stage}_s"}), on=key)
        counted = self.workloads[(self.workloads.precision == FULL) & self.workloads.backward_flop.notna()]
        steps = steps.merge(counted, on=key)
        models = steps.groupby("batch").model.nunique()
        return steps[steps.batch == models[models >= models.max() / 2].index.min()]

    def convolutions(self, machine: Machine) -> pd.DataFrame:
        """One row is a profiled forward pass: the times of a FLOP in its depthwise and in its other convolutions."""
        key = ["model", "batch"]
        ran = machine.profiles[(machine.profiles.status == "ok") & (machine.profiles.phase == "inference")]
        times = machine.operators[(machine.operators.phase == "inference") & is_convolution(machine.operators)]
        ran, times = (rows[(rows.precision == FULL) & (rows.variant == EAGER)] for rows in (ran, times))
        times = times.merge(ran[key], on=key).merge(self.layers, on=["model", "path"], how="left")
        counted = self.operators[(self.operators.stage == "inference") & is_convolution(self.operators)]
        counted = counted[counted.precision == FULL]
        found = []
        for depthwise in (True, False):
            spent, work = (
                rows[(rows.layer_kind == "depthwise convolution") == depthwise].groupby(key)[column].sum()
                for rows, column in ((times, "time_s"), (counted, "all_flop"))
            )
            found.append((spent / work)[(spent > 0) & (work > 0)])
        return pd.concat(found, axis=1, join="inner", keys=["depthwise", "others"]).reset_index()

    def datasheet_peak(self, machine: Machine) -> float | None:
        """Return the fp32 peak by the datasheet: a GPU's as printed, a processor's cores × FLOP per cycle × clock."""
        if machine.kind == "gpu":
            name = machine.environment["name"].strip().casefold()
            named = [name in names for names in map(_names, each(self.chips))]
            rows = self.chips[np.array(named, bool) & (self.chips.precision == FULL)]
            return None if rows.empty else float(rows.peak_flop_per_s.max())
        known, here = self.flop_per_cycle, machine.environment
        extensions = str(here.vector_extension).split()
        rows = known[
            (known.vendor == here.cpu_vendor)
            & (known.family == here.cpu_family)
            & known.models.map(lambda models: here.cpu_model in model_numbers(models))
            & known.vector_extension.isin(extensions)
            & (known.precision == FULL)
        ]
        return None if rows.empty else float(here.physical_cores * rows.flop_per_cycle.max() * machine.hertz)

    @cached_property
    def programs(self) -> pd.DataFrame:
        return read(self.folder / "workload" / "counting_programs.csv")

    def published(self, table: str) -> pd.DataFrame:
        """Return a table of what studies print: as text, whose digits tell how it was rounded."""
        return pd.read_csv(self.folder / "published" / f"{table}.csv", dtype=str, keep_default_na=False)


def _names(row: Any) -> Iterator[str]:
    """Yield the names of a chip that a driver may report."""
    for text in (row.chip, *row.alias.split(";")):
        yield text.strip().casefold()


def machine_of(folder: Path) -> Machine:
    """Return a machine in its newest environment, from its tables."""
    environments = read(folder / "machine.csv").reindex(columns=ENVIRONMENT.split())
    newest = environments.sort_values("recorded_at").iloc[-1]
    tables = {}
    for name, columns in COLUMNS.items():
        rows = read(folder / f"{name}.csv").reindex(columns=["environment_id", *columns.split()])
        tables[name] = rows[rows.environment_id == newest.environment_id]
    # A run that is not there was killed before it ended
    key = [*CELL, "phase", "round"]
    tables["samples"] = tables["samples"].merge(tables["runs"][key], on=key)
    runs = tables["runs"]
    tables["runs"] = runs.assign(input_shape=runs.input_shape.fillna(""))
    return Machine(newest, **tables)
