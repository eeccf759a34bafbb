"""What was timed and what it asked for, as arrays: published latencies and those of the cache's own machines.

From the CSV alone, by ``docs/prediction.md`` and ``docs/data.md``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from recomputing.cache import Cache, machine_of, read

Numbers = NDArray[np.float64]

SETTING = ["device", "source", "software", "precision", "variant", "phase"]
PRODUCTS = ["convolution", "depthwise convolution", "linear", "attention", "recurrent"]
FUSED = ["normalisation", "activation", "other"]
KINDS = [*PRODUCTS, *FUSED, "pooling", "embedding"]
TERMS = [
    *(f"{kind} arithmetic" for kind in PRODUCTS), *(f"{kind} memory" for kind in KINDS),
    "unfused memory", "launches", "call", "input copy", "parameter update",
]  # fmt: skip
FREE = ["unfused memory", "launches", "call", "input copy", "parameter update"]
"""The terms that no roof asks for: where nothing tells of them, they are 0, and all others at the roof."""

WIDTH = {"fp32": 1.0, "tf32": 1.0, "fp16": 0.5, "bf16": 0.5}
"""Bytes of an element over those of fp32, at which what others timed was counted."""

CHIP_KIND = {"cpu": "cpu", "cuda": "gpu", "mps": "soc"}


@dataclass(frozen=True, eq=False)
class Calls:
    """One row a call: ``rows`` says which and how long it took, the arrays what it takes at the roof (s).

    ``terms`` has ``TERMS`` as columns; ``make_ups`` is what calls are alike by; ``roofline`` has each kind at its roof.
    """

    rows: pd.DataFrame
    terms: Numbers
    make_ups: Numbers
    roofline: Numbers

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def latency_s(self) -> Numbers:
        return self.rows.latency_s.to_numpy(float)

    def where(self, chosen: NDArray[np.bool_]) -> "Calls":
        return Calls(self.rows[chosen], self.terms[chosen], self.make_ups[chosen], self.roofline[chosen])


def read_calls(data: Path) -> Calls:
    """Return all latencies of counted models on devices whose roofs are known."""
    rows = pd.concat([_published(data), *_measured(data)], ignore_index=True)
    names = rows.model.str.split(":", n=1).str[-1]
    # Only a name with its library has a tag of its weights
    rows["architecture"] = names.where(~rows.model.str.contains(":"), names.str.split(".").str[0])
    rows["family"] = rows.family.fillna(rows.architecture)
    return _calls(rows)


def _calls(rows: pd.DataFrame) -> Calls:
    flop, byte = ({kind: rows[f"{what} {kind}"].to_numpy(float) for kind in KINDS} for what in ("flop", "byte"))
    bandwidth = rows.byte_per_s.to_numpy(float)
    peaks = {kind: rows.convolution_peak if "convolution" in kind else rows.peak for kind in KINDS}
    arithmetic = {kind: flop[kind] / peaks[kind].to_numpy(float) for kind in KINDS}
    memory = {kind: byte[kind] / bandwidth for kind in KINDS}
    compiled = rows.variant.str.contains("compile|TensorRT").to_numpy(bool)
    terms = [*(arithmetic[kind] for kind in PRODUCTS), *memory.values()]
    terms += [
        np.where(compiled, 0.0, sum(memory[kind] for kind in FUSED)),
        rows.operators * 1e-6,
        np.full(len(rows), 1e-6),
        np.where(rows.copied, rows.input_byte * 1e-9, 0.0),
        np.where(rows.phase == "step", rows.parameter_byte / bandwidth, 0.0),
    ]
    flop_shares, byte_shares = (_shares(part, of) for part, of in ((flop, PRODUCTS), (byte, KINDS)))
    make_ups = np.column_stack([*flop_shares, *byte_shares, 0.2 * np.log(rows.batch.to_numpy(float))])
    told = rows[[*SETTING, "chip_kind", "architecture", "family", "batch", "latency_s"]].assign(
        flop_s=sum(arithmetic.values()), parameter_s=rows.batch * rows.parameter_byte / bandwidth
    )
    roofline = np.column_stack([np.maximum(arithmetic[kind], memory[kind]) for kind in KINDS])
    return Calls(told, np.column_stack(terms), make_ups, roofline)


def _shares(parts: dict[str, Numbers], kinds: Sequence[str]) -> list[Numbers]:
    whole = sum(parts[kind] for kind in kinds)
    return [parts[kind] / np.where(whole > 0, whole, 1.0) for kind in kinds]


def _published(data: Path) -> pd.DataFrame:
    folder = data / "published" / "measurements"
    if not (folder / "models.csv").exists():
        return pd.DataFrame()
    rows = pd.read_csv(folder / "models.csv", dtype=dict.fromkeys(("torch", "layout", "compiler", "autocast"), str))
    counts = read(folder / "counts.csv")
    counts = counts[counts.status == "ok"][["model", "input_size", "family", "parameter_byte", "input_byte"]]
    rows = rows.assign(
        precision=rows.autocast.fillna(rows.precision),
        software=rows.torch.fillna(""),
        variant=[_variant(*both) for both in zip(rows.compiler, rows.layout, strict=True)],
        copied=rows.input_copied == "yes",
        latency_s=(rows.batch / rows.throughput_per_s).fillna(rows.latency_s),
        name=rows.device.str.strip().str.casefold(),
    )
    rows = rows[rows.precision.isin(WIDTH)].drop(columns="device").merge(_chips(data), on=["name", "precision"])
    rows = rows.merge(counts, on=["model", "input_size"])
    return _with_work(rows, read(folder / "counted_kinds.csv"))


def _variant(compiler: object, layout: object) -> str:
    parts = [str(compiler)] if pd.notna(compiler) else []
    return "+".join(parts + (["channels_last"] if layout == "channels_last" else [])) or "eager"


def _chips(data: Path) -> pd.DataFrame:
    """Return one row for each name of a chip and precision: the chip's best dense peak and its bandwidth."""
    rows = read(data / "chips.csv")
    peaks = rows.groupby(["chip", "precision"]).peak_flop_per_s.max().unstack()
    tf32 = peaks["tf32"] if "tf32" in peaks else peaks["fp32"]
    found = peaks.stack().rename("peak").dropna().reset_index()
    full = found.precision == "fp32"
    found["convolution_peak"] = found.peak.where(~full, np.fmax(found.peak, found.chip.map(tf32)))
    facts = rows.groupby("chip").agg(byte_per_s=("bandwidth_byte_per_s", "max"), chip_kind=("chip_kind", "first"))
    names = rows.assign(name=[f"{row.chip};{'' if pd.isna(row.alias) else row.alias}" for row in rows.itertuples()])
    names = names.assign(name=names.name.str.split(";")).explode("name")[["chip", "name"]]
    names = names.assign(name=names.name.str.strip().str.casefold()).drop_duplicates()
    found = found.merge(facts, on="chip").merge(names[names.name != ""], on="chip")
    return found.rename(columns={"chip": "device"})


def _with_work(rows: pd.DataFrame, kinds: pd.DataFrame) -> pd.DataFrame:
    """Add FLOP and bytes of the batch by kind, and the operators; a row whose passes were not counted goes."""
    key = ["model", "input_size"]
    parts = []
    for phase, stages in (("inference", ["inference"]), ("step", ["inference", "backward"])):
        own = kinds[kinds.stage.isin(stages)]
        whole = own.groupby(key, dropna=False).stage.nunique() == len(stages)
        counted = whole[whole].reset_index()[key]
        asked = rows[rows.phase == phase].merge(counted, on=key)
        sums = own.groupby([*key, "layer_kind"], dropna=False)[["flop", "byte", "further_byte"]].sum()
        tables = {name: sums[name].unstack(fill_value=0).reindex(columns=KINDS, fill_value=0) for name in sums}
        index = pd.MultiIndex.from_frame(asked[key])
        at = {name: table.reindex(index).to_numpy(float) for name, table in tables.items()}
        batch, width = asked.batch.to_numpy(float)[:, None], asked.precision.map(WIDTH).to_numpy(float)[:, None]
        flop, byte = batch * at["flop"], width * (at["byte"] + (batch - 1) * at["further_byte"])
        operators = own.groupby(key, dropna=False).calls.sum().reindex(index).to_numpy(float)
        work = {f"flop {kind}": flop[:, place] for place, kind in enumerate(KINDS)}
        work |= {f"byte {kind}": byte[:, place] for place, kind in enumerate(KINDS)}
        parts.append(asked.assign(**work, operators=operators))
    found = pd.concat(parts, ignore_index=True)
    return found.assign(
        parameter_byte=found.parameter_byte * found.precision.map(WIDTH), input_byte=found.batch * found.input_byte
    )


def _measured(data: Path) -> list[pd.DataFrame]:
    cache = Cache(data)
    found = []
    for folder in sorted(data.glob("machines/*/")):
        machine = machine_of(folder)
        if machine.roofs.empty or machine.samples.empty:
            continue
        peaks = {precision: peak.median for precision, peak in machine.peaks.items()}
        cells = machine.latencies
        cells = cells[cells.phase.isin(["inference", "step"]) & cells.latency_s.notna()]
        cells = cells[cells.precision.isin(peaks)].drop(columns=["flags", "status"])
        peak = cells.precision.map(peaks)
        tf32 = max(peaks.get("tf32", 0.0), peaks.get("fp32", 0.0))
        cells = cells.assign(
            device=folder.name, source="measured", software=str(machine.environment.torch), peak=peak,
            convolution_peak=peak.where(cells.precision != "fp32", tf32), byte_per_s=machine.byte_per_s,
            chip_kind=CHIP_KIND[machine.environment.device], copied=False,
            stored=cells.precision.replace("tf32", "fp32"),
        )  # fmt: skip
        found.append(cells.merge(_counted(cache), on=["model", "batch", "stored", "phase"]))
    return found


def _counted(cache: Cache) -> pd.DataFrame:
    """Return one row for each workload and phase, with what a call asks for."""
    facts = ["model", "batch", "precision", "family", "parameter_byte", "input_byte", "backward_flop"]
    key = ["model", "batch", "precision"]
    work = cache.operators
    work = work.assign(flop=work.calls * work.flop, byte=work.calls * work.byte)
    parts = []
    for phase, stages in (("inference", ["inference"]), ("step", ["inference", "backward"])):
        own = work[work.stage.isin(stages)]
        sums = own.groupby([*key, "layer_kind"])[["flop", "byte"]].sum().unstack(fill_value=0)
        columns = pd.MultiIndex.from_product([["flop", "byte"], KINDS])
        sums = sums.reindex(columns=columns, fill_value=0)
        sums.columns = [f"{what} {kind}" for what, kind in columns]
        asked = cache.workloads[facts].merge(sums.reset_index(), on=key)
        asked = asked.merge(own.groupby(key).calls.sum().rename("operators").reset_index(), on=key)
        parts.append(asked[(phase == "inference") | asked.backward_flop.notna()].assign(phase=phase))
    return pd.concat(parts, ignore_index=True).rename(columns={"precision": "stored"})
