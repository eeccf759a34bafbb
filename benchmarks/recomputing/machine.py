"""Facts of the newest processor and GPU in the data: their roofs, latencies and where the time goes."""

from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from recomputing import latencies
from recomputing.counts import MOBILENET, RESNET, at, read_chips, usual_rows, workloads
from recomputing.statistics import Found, median_of, of_cells, of_rounds, quotient, rank_correlation

FULL, LOWER, EAGER, KEPT = "fp32", "bf16", "eager", "kept_memory"
CELL = ["model", "batch", "precision", "phase", "variant"]
ARITHMETIC = ["fma", "matmul", "numpy_matmul"]
STREAMS = ["stream_read", "stream_write", "stream_copy", "stream_triad"]
LOADED, TARGET, SYSTEM = 0.1, 0.05, "system"
TIMED = [  # tables of rows with times
    "machine.csv", "roofs.csv", "runs.csv", "profiles.csv", "hardware_counter_profiles.csv", "collectives.csv",
    "data_parallel_steps.csv",
]  # fmt: skip


SECOND = "intel-xeon-processor-2c-decf"


class Machine:
    """The machine of a kind ("cpu" or "cuda") or name that was measured last, in its newest environment.

    The project's ``SECOND`` processor comes after all others.
    """

    def __init__(self, data: Path, device: str, name: str | None = None) -> None:
        tables = {path.parent: pd.read_csv(path) for path in (data / "machines").glob("*/machine.csv")}
        rows = pd.concat([table.assign(folder=folder) for folder, table in tables.items()])
        files = [folder / name for folder in tables for name in TIMED if (folder / name).exists()]
        times = pd.concat([pd.read_csv(path, usecols=["environment_id", "recorded_at"]) for path in files])
        last = times.groupby("environment_id").recorded_at.max()
        rows = rows.assign(
            measured_at=rows.environment_id.map(last), is_other=[each.name != SECOND for each in rows.folder]
        )
        rows = rows.sort_values(["is_other", "measured_at", "recorded_at"])
        rows = at(rows, device=device) if name is None else at(rows, device=device, name=name)
        self.environment = rows.iloc[-1]
        self.folder, self.data, self.counted = self.environment.folder, data, workloads(data)

    def table(self, name: str) -> pd.DataFrame:
        rows = pd.read_csv(self.folder / f"{name}.csv", dtype={"input_shape": str}, low_memory=False)
        return rows[rows.environment_id == self.environment.environment_id]

    @cached_property
    def rates(self) -> pd.DataFrame:
        """One row is a roof kernel at a size: the time of its rounds, where it has rounds, with its interval."""
        rows = self.table("roofs")
        rows = rows[(rows.status == "ok") & (rows.pace == "sustained") & ~(rows.load >= LOADED)]
        single = rows[rows["round"].isna()]
        times = {"latency_s": "time_s", "latency_low_s": "low_s", "latency_high_s": "high_s"}
        found = single.rename(columns=times).to_dict("records")
        for _, taken in rows[rows["round"].notna()].groupby(["roof_kernel", "precision", "size"]):
            time = of_rounds([[latency] for latency in taken.latency_s])
            found.append({**taken.iloc[0].to_dict(), "time_s": time.number, "low_s": time.low, "high_s": time.high})
        return pd.DataFrame(found)

    def _fastest(self, kernels: list[str], work: str, precision: str | None) -> Found:
        rows = self.rates[self.rates.roof_kernel.isin(kernels)]
        # A stream with rounds lies beyond all caches
        rows = rows[rows["round"].notna()] if precision is None else rows[rows.precision == precision]
        row = rows.loc[(rows[work] / rows.time_s).idxmax()]
        return Found(row[work] / row.time_s, row[work] / row.high_s, row[work] / row.low_s)

    @cached_property
    def peaks(self) -> dict[str, Found]:
        return {precision: self._fastest(ARITHMETIC, "flop", precision) for precision in (FULL, LOWER)}

    @cached_property
    def bandwidth(self) -> Found:
        return self._fastest(STREAMS, "byte", None)

    def least_s(self, precision: pd.Series, flop: pd.Series, byte: pd.Series) -> pd.Series:
        peak = precision.map({name: each.number for name, each in self.peaks.items()}).astype(float)
        return np.maximum(flop / peak, byte / self.bandwidth.number)

    @cached_property
    def samples(self) -> pd.DataFrame:
        key = [*CELL, "round"]
        ran = self.table("runs")
        usual = self.counted.drop_duplicates("model").set_index("model").input_shape
        ran = ran[(ran.status == "ok") & (ran.input_shape == ran.model.map(usual))]
        return self.table("samples").merge(ran[[*key, "session"]], on=key)

    @cached_property
    def bounds(self) -> pd.DataFrame:
        """One row is a stage of a network at a batch size: the least time of its operators, one after the other."""
        rows = usual_rows(self.data / "workload" / "operators.csv")
        rows = rows.assign(least_s=rows.calls * self.least_s(rows.precision, rows.flop, rows.byte))
        return rows.groupby(["model", "batch", "precision", "stage"]).least_s.sum().reset_index()

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The cells of inference, with their counts and the least times of both rooflines."""
        rows = of_cells(at(self.samples, phase="inference"), CELL, "latency_s")
        rows = rows.merge(self.counted.drop(columns="status"), on=["model", "batch", "precision"])
        least = at(self.bounds, stage="inference").rename(columns={"least_s": "layers_s"})
        rows = rows.merge(least.drop(columns="stage"), on=["model", "batch", "precision"], how="left")
        return rows.assign(
            whole_s=self.least_s(rows.precision, rows.forward_flop, rows.compulsory_byte),
            rate=rows.batch / rows.number, width=(rows.high - rows.low) / 2 / rows.number,
        )  # fmt: skip

    @cached_property
    def speed_ups(self) -> pd.DataFrame:
        """One row is a cell with memory kept: its speed over eager mode, from rounds of one number and session."""
        together = ["model", "batch", "precision", "round", "session"]
        rows = at(self.samples, phase="inference").groupby([*together, "variant"]).latency_s.median().unstack("variant")
        pairs = rows.dropna().reset_index()
        return of_cells(pairs.assign(ratio=pairs[EAGER] / pairs[KEPT]), together[:3], "ratio")

    def timed_steps(self, precision: str) -> pd.DataFrame:
        """One row is a training step at the batch size that most networks have, with the ratio of its passes."""
        found = self.all_steps(precision)
        return found[found.batch == found.groupby("batch").model.nunique().idxmax()].set_index("model")

    def all_steps(self, precision: str) -> pd.DataFrame:
        """One row is a training step at a batch size, with the ratio of its passes."""
        rows = at(self.samples, variant=EAGER, precision=precision)
        key, stages = ["model", "batch"], ("step", "forward", "backward")
        times = [of_cells(at(rows, phase=stage), key, "latency_s").add_prefix(f"{stage}_") for stage in stages]
        found = times[0].rename(columns={"step_model": "model", "step_batch": "batch"})
        for stage, more in zip(stages[1:], times[1:], strict=True):
            found = found.merge(more.rename(columns={f"{stage}_{name}": name for name in key}), on=key)
        paired = at(rows, phase="forward").merge(at(rows, phase="backward"), on=[*key, "round", "sample"])
        found = found.merge(
            of_cells(paired.assign(ratio=paired.latency_s_y / paired.latency_s_x), key, "ratio"), on=key
        )
        counted = at(self.counted, precision=FULL)
        return found.merge(counted[counted.backward_flop.notna()], on=key)

    @cached_property
    def steps(self) -> pd.DataFrame:
        """The training steps at fp32, with their least times."""
        key, found = ["model", "batch"], self.timed_steps(FULL)
        bounds = at(self.bounds, precision=FULL).pivot_table(index=key, columns="stage", values="least_s")
        bounds = bounds.reset_index("batch").query("batch == @found.batch.iloc[0]").reindex(found.index)
        update = 2 * found.parameter_byte + 2 * found.momentum_byte + found.gradient_byte
        flop = found.forward_flop + found.backward_flop
        return found.assign(
            flop_ratio=found.backward_flop / found.forward_flop, flop_s=flop / self.peaks[FULL].number,
            least_s=bounds.forward + bounds.backward + update / self.bandwidth.number,
        )  # fmt: skip


def facts(data: Path) -> dict[str, Found]:
    """Return the facts of this module by key."""
    machine, gpu = Machine(data, "cpu"), Machine(data, "cuda")
    cells = (at(each.cells, variant=EAGER, precision=FULL) for each in (machine, gpu))
    return {
        **_roofs(machine), **latencies.own(*cells), **_gap(machine), **_remedies(machine),
        **_puzzle(machine), **_method(machine), **_gpu(gpu), **_own(data),
    }  # fmt: skip


def _own(data: Path) -> dict[str, Found]:
    """Return the shares of the datasheet's bound layer by layer on each GPU, the slower memory first."""
    chips = read_chips(data)
    names = {alias.strip(): row.chip for row in chips.itertuples() for alias in str(row.alias).split(";")}
    found = []
    for name in pd.concat(map(pd.read_csv, (data / "machines").glob("*/machine.csv"))).query("device == 'cuda'").name:
        chip = at(chips, chip=names.get(name, name))
        if chip.empty or name in [each[0] for each in found]:
            continue
        peaks, bandwidth = chip.groupby("precision").peak_flop_per_s.max(), chip.bandwidth_byte_per_s.max()
        operators = usual_rows(data / "workload" / "operators.csv")
        operators = operators[(operators.stage == "inference") & operators.precision.isin([FULL, LOWER])]
        least_s = np.maximum(operators.flop / operators.precision.map(peaks), operators.byte / bandwidth)
        least_s = (operators.calls * least_s).groupby([operators.model, operators.batch, operators.precision]).sum()
        cells = at(Machine(data, "cuda", name).cells, variant=EAGER).merge(
            least_s.rename("bound_s").reset_index(), on=["model", "batch", "precision"]
        )
        ran = cells.groupby("batch").model.nunique()
        cells = at(cells, batch=ran[2 * ran >= ran.max()].index.max())
        found.append((bandwidth, (cells.bound_s / cells.number).groupby([cells.precision, cells.model]).sum()))
    (_, slow), (_, fast) = sorted(found, key=lambda each: each[0])
    precisions = {"base": FULL, "lower": LOWER}
    shares = {f"bound.own_first.{key}": median_of(slow[each]) for key, each in precisions.items()}
    return shares | {
        f"bound.own_step.{key}": median_of((fast / slow)[each].dropna()) for key, each in precisions.items()
    }


def _gpu(machine: Machine) -> dict[str, Found]:
    cells = at(machine.cells, variant=EAGER)
    single = at(cells, precision=LOWER, batch=1)
    operators = at(usual_rows(machine.data / "workload" / "operators.csv"), stage="inference", precision=FULL, batch=1)
    calls = single.model.map(operators.groupby("model").calls.sum())
    return {
        "cause.host.single.calls": rank_correlation(calls, single.number, single.model),
        "cause.host.single.per_call": median_of(single.number / calls),
    }


def _roofs(machine: Machine) -> dict[str, Found]:
    peak, bandwidth = machine.peaks[FULL], machine.bandwidth
    ridge = quotient(peak, bandwidth)
    one = at(machine.counted, batch=1, precision=FULL)
    return {
        "utilisation.roofs.peak": peak, "utilisation.roofs.bandwidth": bandwidth,
        "utilisation.roofs.ridge": ridge, "networks.on_cpu.ridge": ridge,
        "networks.on_cpu.whole": Found(float((one.compulsory_intensity < ridge.number).sum())),
        "networks.on_cpu.layers": Found(float((one.traffic_intensity < ridge.number).sum())),
        "networks.on_cpu.typical": median_of(one.compulsory_intensity),
        "utilisation.roofs.lower_gain": quotient(machine.peaks[LOWER], peak),
    }  # fmt: skip


def terms_of(machine: Machine) -> pd.DataFrame:
    """Return the profiled cells with their share in the operating system."""
    profiles = at(machine.table("profiles"), status="ok", phase="inference", variant=EAGER, precision=FULL)
    profiles = profiles[["model", "batch", "plain_s", "system_s"]]
    rows = at(machine.cells, variant=EAGER, precision=FULL).merge(profiles, on=["model", "batch"])
    return rows.assign(**{SYSTEM: rows.system_s / (machine.environment.threads * rows.plain_s)})


def _gap(machine: Machine) -> dict[str, Found]:
    terms = terms_of(machine)
    profiled = terms.groupby("batch").model.nunique()
    sizes = profiled.index[profiled >= 6]
    first, large = at(terms, batch=sizes.min()), at(terms, batch=sizes.max())
    latency = large.number
    light = at(large, model=MOBILENET).iloc[0]
    numbers = {
        "gap.batch": sizes.max(), "gap.networks": len(large), "gap.first_batch": sizes.min(),
        "reference.half": (large[SYSTEM] > 0.5).sum(),
        "example.arithmetic": light.forward_flop / machine.peaks[FULL].number, "example.layers": light.layers_s,
        "example.rest": light.number * (1 - light[SYSTEM]) - light.layers_s,
    }  # fmt: skip
    return {f"utilisation.{key}": Found(float(number)) for key, number in numbers.items()} | {
        "utilisation.gap.between": median_of(large.layers_s / large.whole_s),
        "utilisation.gap.system": median_of(large[SYSTEM]),
        "utilisation.gap.rest": median_of((latency - large.layers_s) / latency - large[SYSTEM]),
        "utilisation.gap.first_system": median_of(first[SYSTEM]),
        "utilisation.gap.drift": median_of(large.plain_s / latency),
        "utilisation.example.latency": Found(light.number, light.low, light.high),
    }


def _remedies(machine: Machine) -> dict[str, Found]:
    cells, ups, terms = machine.cells, at(machine.speed_ups, precision=FULL), terms_of(machine)
    ups = ups.rename(columns={"number": "speed_up", "low": "surely", "high": "at_most"})
    keeping = at(ups, batch=64)

    def rates(variant: str, precision: str, batch: int) -> pd.Series:
        return at(cells, variant=variant, precision=precision, batch=batch).set_index("model").rate

    batching = {name: (rates(variant, FULL, 64) / rates(variant, FULL, 8)).dropna() for name, variant in
                (("eager", EAGER), ("kept", KEPT))}  # fmt: skip
    both = terms.merge(ups, on=["model", "batch"])
    expected = 1 / (1 - both[SYSTEM])
    at_large = both.batch == 64
    lower, lower_keeping = rates(EAGER, LOWER, 64), rates(KEPT, LOWER, 64)
    eager = rates(EAGER, FULL, 64)
    numbers = {
        "batching.losing": (batching["eager"] < 1).sum(), "batching.of": len(batching["eager"]),
        "gains.kept_of": len(keeping), "gains.kept_surely": (keeping.surely > 1).sum(),
        "gains.kept_most": keeping.speed_up.max(),
    }  # fmt: skip
    return {f"utilisation.{key}": Found(float(number)) for key, number in numbers.items()} | {
        "utilisation.batching.eager": median_of(batching["eager"]),
        "utilisation.batching.kept": median_of(batching["kept"]),
        "utilisation.gains.kept": median_of(keeping.speed_up),
        "utilisation.gains.kept_high": median_of(both.speed_up[at_large & (both[SYSTEM] > 0.2)]),
        "utilisation.gains.excess": median_of((both.speed_up / expected)[at_large]),
        "utilisation.gains.agreement": rank_correlation(both[SYSTEM], both.speed_up, both.model),
        "utilisation.gains.first": median_of(at(ups, batch=1).speed_up),
        "utilisation.gains.lower": median_of((lower / eager).dropna()),
        "utilisation.gains.both": median_of((lower_keeping / eager).dropna()),
    }


def _puzzle(machine: Machine) -> dict[str, Found]:
    cells = at(machine.cells, batch=64, precision=FULL)
    columns = ["number", "low", "high"]
    light, heavy, light_keeping, heavy_keeping = (
        Found(*at(cells, variant=variant, model=model)[columns].iloc[0].tolist())
        for variant in (EAGER, KEPT)
        for model in (MOBILENET, RESNET)
    )
    return {
        "puzzle.here.ratio": quotient(light, heavy), "puzzle.here.kept": quotient(light_keeping, heavy_keeping),
    }  # fmt: skip


def _method(machine: Machine) -> dict[str, Found]:
    cells = at(machine.cells, variant=EAGER)
    eager = at(machine.samples, phase="inference", variant=EAGER)
    rounds = np.log(eager.groupby([*CELL, "round"]).latency_s.median())
    scatter = median_of(rounds.groupby(level=CELL).std())
    return {
        "method.cells.cells": Found(float(cells.width.notna().sum())),
        "method.cells.half_width": median_of(cells.width),
        "method.cells.within": Found(float((cells.width <= TARGET).sum())),
        "method.cells.scatter": scatter,
    }
