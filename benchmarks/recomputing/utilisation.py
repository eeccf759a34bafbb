"""Facts of the chapter on utilisation: shares of the layer-by-layer bound by batch size, the GPU's gap, page faults."""

from pathlib import Path

import numpy as np
import pandas as pd

from recomputing.counts import MOBILENET, at
from recomputing.machine import EAGER, FULL, LOWER, SYSTEM, Machine, terms_of
from recomputing.statistics import Found, median_of

BATCHES, PAGE = [1, 64, 256], 4096


def facts(data: Path) -> dict[str, Found]:
    processor, gpu = Machine(data, "cpu"), Machine(data, "cuda")
    return {
        **_achieved("processor", processor, FULL, 64), **_achieved("gpu", gpu, FULL, 256),
        **_achieved("gpu_lower", gpu, LOWER, 256), **_lowered(gpu), **_kernels("kernels", gpu, FULL),
        **_kernels("kernels_lower", gpu, LOWER), **_busy(data), **_faults(processor), **_rule(processor),
    }  # fmt: skip


def _achieved(group: str, machine: Machine, precision: str, batch: int) -> dict[str, Found]:
    rows = at(machine.cells, variant=EAGER, precision=precision)
    rows = rows.assign(layers=rows.layers_s / rows.number)
    large = at(rows, batch=batch)
    shares = rows.pivot(index="model", columns="batch", values="layers")[BATCHES].dropna()
    times = rows.pivot(index="model", columns="batch", values="number").loc[shares.index]
    found = {
        "layers": median_of(large.layers), "networks": Found(len(large)), "nearest": Found(large.layers.max()),
        "farthest": Found(large.layers.min()),
        "first_nearest": Found(at(rows, batch=1).layers.max()), "common": Found(len(shares)),
        "first": median_of(shares[1]), "last": median_of(shares[256]), "stretch": median_of(times[64] / times[1]),
    }  # fmt: skip
    return {f"utilisation.{group}.{key}": value for key, value in found.items() if _is_printed(value)}


def _is_printed(value: Found) -> bool:
    """Return whether an interval, if there is one, spans at most a factor of three."""
    return value.low is None or value.high is None or value.high <= 3 * value.low


def _lowered(machine: Machine) -> dict[str, Found]:
    base, lower = (
        at(machine.cells, variant=EAGER, precision=precision, batch=256).set_index("model").number
        for precision in (FULL, LOWER)
    )
    gains = (base / lower).dropna()
    numbers = {
        "networks": len(gains), "peak": machine.peaks[LOWER].number / machine.peaks[FULL].number,
        "least": gains.min(), "most": gains.max(),
    }  # fmt: skip
    return {f"utilisation.gpu_gain.{key}": Found(float(number)) for key, number in numbers.items()}


def _kernels(group: str, machine: Machine, precision: str) -> dict[str, Found]:
    profiles = at(machine.table("profiles"), status="ok", phase="inference", variant=EAGER, precision=precision)
    cells = at(machine.cells, variant=EAGER, precision=precision)
    rows = cells.merge(profiles[["model", "batch", "plain_s", "busy_s"]], on=["model", "batch"])
    idle = np.maximum(0, 1 - rows.busy_s / rows.plain_s)
    rest = 1 - idle - rows.layers_s / rows.number
    numbers = {
        "networks": len(rows), "most_idle": idle.max(), "most_rest": rest.max(),
    }  # fmt: skip
    return {f"utilisation.{group}.{key}": Found(float(number)) for key, number in numbers.items()}


def _busy(data: Path) -> dict[str, Found]:
    tables = [
        pd.read_csv(machine.with_name("profiles.csv"))
        for machine in (data / "machines").glob("*/machine.csv")
        if (pd.read_csv(machine).device == "cuda").all()
    ]
    calls = at(pd.concat(tables), status="ok")
    busy = calls.busy_s / calls.plain_s
    numbers = {"calls": len(calls), "least_busy": busy.min(), "most_busy": busy.max()}
    return {f"utilisation.profiled.{key}": Found(float(number)) for key, number in numbers.items()}


def _faults(machine: Machine) -> dict[str, Found]:
    profiles = at(machine.table("profiles"), phase="inference", precision=FULL, variant=EAGER)
    rows = at(terms_of(machine), batch=64).merge(profiles[["model", "batch", "page_faults"]], on=["model", "batch"])
    threads = machine.environment.threads
    fault = threads * rows[SYSTEM] * rows.number / rows.page_faults
    others = median_of(fault[rows.model != MOBILENET])
    most = rows.loc[rows[SYSTEM].idxmax()]
    faults = float(f"{at(rows, model=MOBILENET).page_faults.iloc[0]:.3g}")
    return {
        "utilisation.example.fault": others, "utilisation.example.faults": Found(faults),
        "utilisation.reference.faulted": Found(float(most.page_faults) * PAGE),
        "utilisation.example.predicted": Found(faults * others.number / threads),
    }  # fmt: skip


def _rule(machine: Machine) -> dict[str, Found]:
    """Compare gains of keeping memory with 1 / (1 - share), in the halves of smaller and of larger shares."""
    ups = at(machine.speed_ups, precision=FULL)[["model", "batch", "number"]].rename(columns={"number": "gain"})
    both = terms_of(machine).merge(ups, on=["model", "batch"])
    rows, single = at(both, batch=64), at(both, batch=1)
    excess, is_high = rows.gain * (1 - rows[SYSTEM]), rows[SYSTEM] >= rows[SYSTEM].median()
    return {
        "utilisation.gains.checked": Found(len(rows)), "utilisation.gains.met": Found(float((excess >= 1).sum())),
        "utilisation.gains.first_expected": median_of(1 / (1 - single[SYSTEM])),
        "utilisation.gains.excess_low": median_of(excess[~is_high]),
        "utilisation.gains.excess_high": median_of(excess[is_high]),
    }  # fmt: skip
