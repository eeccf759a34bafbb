"""Facts of the networks that others timed on GPUs, from ``data/published/measurements`` and ``data/chips.csv``."""

import re
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from recomputing import latencies
from recomputing.counts import PRODUCTS, read_chips
from recomputing.statistics import Found, median_of

NETWORK = ["model", "input_size"]
CONDITIONS = [
    "device", "source", "phase", "precision", "autocast", "layout", "compiler", "torch", "input_copied", "tuned",
]  # fmt: skip
BYTE = {"fp64": 2.0, "fp32": 1.0, "fp16": 0.5}
"""The bytes of a number relative to fp32, the precision of the counts."""

RATES = {"fp64": ["fp64"], "fp32": ["fp32", "tf32"], "fp16": ["fp16", "bf16"]}
COMPILED, FEWEST, MANY = "torch.compile", 20, 900
PRINTED_DIGITS = 10_000  # timm prints millions of parameters with two decimals
LIGHT, HEAVY = "timm:mobilenetv2_100", "timm:resnet18"


def version(torch: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", torch)))


def timings(data: Path, chips: pd.DataFrame) -> pd.DataFrame:
    """Return all timings with the work of the network and the roof of the chip, NaN where one is not known."""
    folder = data / "published" / "measurements"
    rows = pd.read_csv(folder / "models.csv", dtype={"torch": str, "tuned": str}, low_memory=False)
    texts = ["autocast", "layout", "compiler", "torch", "tuned", "input_copied"]
    rows[texts] = rows[texts].fillna("")
    names = {}
    for chip, alias in zip(chips.chip, chips.alias.fillna(""), strict=True):
        names |= {name.strip().casefold(): chip for name in [chip, *alias.split(";")] if name}
    folded = rows.device.str.strip().str.casefold()
    rows["device"] = folded.map(names).fillna(rows.device)
    rows["computed"] = rows.autocast.where(rows.autocast != "", rows.precision)
    rows["latency_s"] = (rows.batch / rows.throughput_per_s).fillna(rows.latency_s)
    counts = pd.read_csv(folder / "counts.csv").drop(columns=["status", "reason"])
    rows = rows.merge(counts, on=NETWORK, how="left")
    is_other = (rows.published_parameter_count - rows.parameter_count).abs() > PRINTED_DIGITS / 2
    rows.loc[is_other, counts.columns.drop(NETWORK)] = np.nan  # another network was timed under this name
    peaks = chips.groupby(["chip", "precision"]).peak_flop_per_s.max()
    of_rate = {name: peaks[peaks.index.isin(rates, 1)].groupby("chip").max() for name, rates in RATES.items()}
    rows["peak"] = pd.concat(of_rate).reindex(pd.MultiIndex.from_frame(rows[["computed", "device"]])).to_numpy()
    rows["bandwidth"] = rows.device.map(chips.groupby("chip").bandwidth_byte_per_s.max())
    return rows


class Timed:
    """The forward passes of counted networks on chips with a roof, in seconds of both rooflines."""

    def __init__(self, data: Path) -> None:
        self.chips = read_chips(data)
        self.all = timings(data, self.chips)
        kinds = pd.read_csv(data / "published" / "measurements" / "counted_kinds.csv")
        self.kinds = kinds[kinds.stage == "inference"]
        rows = self.all[(self.all.phase == "inference") & self.all.peak.notna() & self.all.forward_flop.notna()]
        size = rows.computed.map(BYTE)
        flop = rows.batch * rows.forward_flop
        whole = size * (rows.parameter_byte + rows.batch * (rows.input_byte + rows.output_byte))
        layers = self.by_operators(rows).groupby("timing")[["least_s", "moved_byte"]].sum()
        self.rows = rows.assign(
            flop=flop, input_s=rows.latency_s / rows.batch, layers_byte=layers.moved_byte, layers_s=layers.least_s,
            whole_s=np.maximum(flop / rows.peak, whole / rows.bandwidth),
            peak_share=flop / rows.latency_s / rows.peak,
        )  # fmt: skip
        self.eager, self.compiled = self._newest(""), self._newest(COMPILED)
        self.channels_last = self._newest("", "channels_last")
        kind = self.chips.drop_duplicates("chip").set_index("chip").chip_kind
        eager = self.eager[self.eager.device.map(kind) != "cpu"]
        groups = [group for _, group in eager.groupby(["device", "computed"])]
        groups.sort(key=lambda group: (-group.model.nunique(), group.device.iloc[0], group.computed.iloc[0]))
        self.gpus: dict[str, pd.DataFrame] = {}
        for group in groups:
            if group.model.nunique() >= FEWEST:
                self.gpus.setdefault(group.device.iloc[0], group)
        self.best = next(iter(self.gpus.values()))
        self.device = self.best.device.iloc[0]

    def by_operators(self, rows: pd.DataFrame) -> pd.DataFrame:
        """One row is operators of one kind and like intensity in a timed call, with ``moved_byte`` and least time."""
        columns = [*NETWORK, "batch", "computed", "peak", "bandwidth"]
        found = rows.rename_axis("timing").reset_index()[["timing", *columns]].merge(self.kinds, on=NETWORK)
        moved = found.computed.map(BYTE) * (found.byte + (found.batch - 1) * found.further_byte)
        work = found.batch * found.flop
        return found.assign(
            work_flop=work, moved_byte=moved, least_s=np.maximum(work / found.peak, moved / found.bandwidth)
        )

    def _newest(self, compiler: str, layout: str = "contiguous") -> pd.DataFrame:
        """Return timings in each source's newest software on a device."""
        rows = self.rows[(self.rows.compiler == compiler) & (self.rows.layout == layout)]
        numbers = rows.torch.map(version)
        last = numbers.groupby([rows.device, rows.source, rows.computed]).transform("max")
        return rows[numbers == last].drop_duplicates(["device", "computed", *NETWORK])


def paired(base: pd.DataFrame, other: pd.DataFrame, *but: str) -> pd.DataFrame:
    """Join timings that differ in these conditions alone."""
    alike = [column for column in (*NETWORK, "batch", *CONDITIONS) if column not in but]
    base, other = (rows.drop_duplicates(alike) for rows in (base, other))
    return base.merge(other, on=alike, suffixes=("", "_other"))


def gains(pairs: pd.DataFrame, column: str = "input_s") -> pd.Series:
    return (pairs[column] / pairs[f"{column}_other"]).groupby(pairs.model).median()


def typical(values: pd.Series, models: pd.Series) -> Found:
    return median_of(values.groupby(models).median())


def facts(data: Path) -> dict[str, Found]:
    """Return the facts of this module by key."""
    timed = Timed(data)
    return {
        **_shares(timed), **_layouts(timed), **latencies.published(timed.best), **_changes(timed), **_puzzle(timed),
        **_training(timed), **_errors(data, timed.chips),
    }  # fmt: skip


def _shares(timed: Timed) -> dict[str, Found]:
    best, models = timed.best, timed.best.model
    compiled = timed.compiled[
        (timed.compiled.device == timed.device) & (timed.compiled.computed == best.computed.iloc[0])
    ]
    low = (best.layers_s / best.latency_s).groupby(models).median().quantile(0.1)
    numbers = {
        "bound.timings.timings": len(timed.all), "bound.timings.networks": timed.all.model.nunique(),
        "bound.shares.networks": models.nunique(), "bound.shares.low": low,
    }  # fmt: skip
    return {key: Found(float(number)) for key, number in numbers.items()} | {
        "bound.shares.peak": typical(best.peak_share, models),
        "bound.shares.whole": typical(best.whole_s / best.latency_s, models),
        "bound.shares.layers": typical(best.layers_s / best.latency_s, models),
        "bound.shares.left": typical(best.latency_s / best.layers_s, models),
        "bound.shares.compiled": typical(compiled.layers_s / compiled.latency_s, compiled.model),
    }


def _layouts(timed: Timed) -> dict[str, Found]:
    """Return the highest share with channels last, and its gain per image in networks of convolutions, by GPU."""
    other = timed.channels_last
    shares = [typical(rows.layers_s / rows.latency_s, rows.model) for _, rows in other.groupby(["device", "computed"])]
    flop = timed.kinds.pivot_table("flop", NETWORK, "layer_kind", "sum", 0)
    share = (flop["convolution"] + flop["depthwise convolution"]) / flop.sum(axis=1)
    base = timed.rows[(timed.rows.compiler == "") & (timed.rows.layout == "contiguous")]
    pairs = paired(base, other, "layout", "batch").merge(share.rename("share").reset_index(), on=NETWORK)
    gained = [gains(rows) for _, rows in pairs[pairs.share > 0.9].groupby("device")]
    most, second = sorted(gained, key=len, reverse=True)[:2]
    return {
        "bound.everywhere.channels_last": max(shares, key=lambda found: found.number),
        "remedies.layout": median_of(most), "remedies.layout_other": median_of(second),
    }  # fmt: skip


def _steps(timed: Timed) -> list[pd.DataFrame]:
    """Return the two pairs of GPUs with most networks, the lower peak first in each and of both."""
    eager, found = timed.rows[timed.rows.compiler == ""].set_index(["device", "computed"], drop=False), []
    for pair in combinations(list(timed.gpus.values())[:6], 2):
        older, newer = sorted((rows.iloc[0] for rows in pair), key=lambda row: row.peak)
        before, after = (
            eager[(eager.device == row.device) & (eager.computed == row.computed)] for row in (older, newer)
        )
        found.append(paired(before, after, "device"))
    most = sorted(found, key=lambda pairs: -pairs.model.nunique())[:2]
    return sorted(most, key=lambda pairs: pairs.peak.iloc[0])


def _changes(timed: Timed) -> dict[str, Found]:
    steps = _steps(timed)
    found = {}
    for name, pairs in zip(("first", "second"), steps, strict=True):
        row = pairs.iloc[0]
        found |= {
            f"bound.{name}.networks": Found(pairs.model.nunique()),
            f"bound.{name}.peak": Found(row.peak_other / row.peak),
            f"bound.{name}.bandwidth": Found(row.bandwidth_other / row.bandwidth),
            f"bound.{name}.older_share": typical(pairs.layers_s / pairs.latency_s, pairs.model),
            f"bound.{name}.newer_share": typical(pairs.layers_s_other / pairs.latency_s_other, pairs.model),
            f"bound.{name}.speed": median_of(gains(pairs)),
            f"bound.{name}.whole": median_of(gains(pairs, "whole_s")),
            f"bound.{name}.layers": median_of(gains(pairs, "layers_s")),
        }
    newer = steps[1].device_other.iloc[0]
    here, there = (timed.compiled[timed.compiled.device == device] for device in (timed.device, newer))
    compiled = paired(timed.best, here, "compiler")
    found["cause.compiled.networks"] = Found(compiled.model.nunique())
    found["cause.compiled.speed"] = median_of(gains(compiled))
    found["cause.compiled.slower"] = Found(float((gains(compiled) < 1).mean()))
    other = timed.kinds.further_byte.where(~timed.kinds.layer_kind.isin(PRODUCTS), 0)
    sums = timed.kinds.assign(other=other).groupby(NETWORK)[["further_byte", "other"]].sum()
    rest = compiled.merge((sums.other / sums.further_byte).rename("rest").reset_index(), on=NETWORK)
    gained, rest = gains(rest), rest.rest.groupby(rest.model).median()
    over = paired(timed.eager[timed.eager.device == newer], here, "device", "compiler")
    return found | {
        "cause.fused.least": median_of(gained[rest <= rest.quantile(0.25)]),
        "cause.fused.rest": median_of(gained[rest > rest.quantile(0.25)]),
        "cause.together.both": median_of(gains(paired(timed.best, there, "device", "compiler"))),
        "cause.together.over_next": median_of(gains(over)),
        "cause.together.compiled_next": median_of(
            gains(paired(timed.eager[timed.eager.device == newer], there, "compiler"))
        ),
    }


def _puzzle(timed: Timed) -> dict[str, Found]:
    rows = timed.rows[(timed.rows.compiler == "") & (timed.rows.layout == "contiguous")]
    rows = rows[rows.computed == "fp16"]
    rows = rows.assign(version=rows.torch.map(version)).sort_values("version", kind="stable")
    found = []
    for light, heavy in (("mobilenet_v2", "resnet18"), (LIGHT, HEAVY)):
        both = (rows[rows.model == model].assign(model="") for model in (heavy, light))
        found.append(paired(*both))
    pairs = pd.concat(found).sort_values("version", kind="stable").drop_duplicates("device", keep="last")
    ratios = pairs.latency_s_other / pairs.latency_s
    shares = pairs.layers_byte_other / pairs.bandwidth / pairs.latency_s_other
    best = timed.best[timed.best.input_size == timed.best.input_size.mode()[0]].set_index("model")
    light, heavy = best.loc[LIGHT], best.loc[HEAVY]
    numbers = {
        "elsewhere.devices": len(ratios), "elsewhere.slower": (ratios > 1).sum(),
        "elsewhere.by_bytes": (shares > 0.5).sum(), "elsewhere.batch": pairs.batch[shares > 0.5].min(),
        "elsewhere.other_batch": pairs.batch[shares <= 0.5].max(), "elsewhere.most_bytes": shares[shares <= 0.5].max(),
        "bounds.peak": light.peak, "bounds.bandwidth": light.bandwidth,
        "bounds.light": light.input_s, "bounds.heavy": heavy.input_s,
        "bounds.light_intensity": light.flop / light.layers_byte,
    }  # fmt: skip
    for name, row in (("light", light), ("heavy", heavy)):
        numbers[f"bounds.{name}_arithmetic"] = row.flop / row.peak / row.batch
        numbers[f"bounds.{name}_bytes"] = row.layers_byte / row.bandwidth / row.batch
    return {f"puzzle.{key}": Found(float(number)) for key, number in numbers.items()} | {
        "puzzle.problems.measured": Found(light.input_s / heavy.input_s)
    }


def _training(timed: Timed) -> dict[str, Found]:
    """Return a step over an inference: of one batch size and release, and an input of timm's in other releases."""
    inferences, steps = (timed.all[timed.all.phase == phase] for phase in ("inference", "step"))
    pairs = paired(inferences, steps, "phase")
    pairs = pairs.assign(ratio=pairs.latency_s_other / pairs.latency_s)
    cells = pairs.groupby(["device", "precision"])
    medians = cells.ratio.median()[cells.model.nunique() >= 6]
    found = {
        f"training.gpus.{precision}": typical(rows.ratio, rows.model)
        for precision, rows in pairs.groupby("precision")
        if precision in ("fp32", "fp16")
    }
    oldest = timed.all[(timed.all.source == "timm_results") & (timed.all.compiler == "")]
    oldest = oldest[oldest.layout == "contiguous"]
    oldest = oldest.assign(version=oldest.torch.map(version), input_s=oldest.latency_s / oldest.batch)
    oldest = oldest.sort_values("version", kind="stable")
    alike = [*NETWORK, "device", "precision", "autocast"]
    one, other = (oldest[oldest.phase == phase].drop_duplicates(alike) for phase in ("inference", "step"))
    trained = one.merge(other, on=alike, suffixes=("", "_other"))
    return found | {
        "training.gpus.devices": Found(pairs.device.nunique()),
        "training.gpus.least": Found(medians.min()), "training.gpus.most": Found(medians.max()),
        "training.gpus.other_networks": Found(trained.model.nunique()),
        "training.gpus.other": typical(trained.input_s_other / trained.input_s, trained.model),
    }  # fmt: skip


def _errors(data: Path, chips: pd.DataFrame) -> dict[str, Found]:
    """Return how far predictions are off, from the table of errors that ``python -m measure fit`` wrote."""
    rows = pd.read_csv(data / "prediction" / "errors.csv")
    whole = {"method": "terms", "batches": "all", "sort": "all", "phase": "inference", "variant": "eager"}
    rows = rows[(rows[[*whole]] == pd.Series(whole)).all(axis=1) & rows.precision.isin(["bf16", "fp16"])]
    rows = rows[rows.device.isin(chips[chips.chip_kind == "gpu"].chip)]
    rows = rows.assign(version=rows.software.fillna("").map(version)).sort_values("version", kind="stable")
    family = rows[(rows.left_out == "family") & (rows.models >= MANY)]
    newest = family.drop_duplicates(["device", "source", "precision", "options"], keep="last")
    family = newest.groupby("device").median_error.median()
    device, both = (
        rows[rows.left_out == part].groupby("device").median_error.median() for part in ("device", "device and network")
    )
    return {
        "prediction.family.least": Found(family.min()),
        "prediction.family.most": Found(family.max()),
        "prediction.untimed.error": median_of(device),
        "prediction.untimed.both": median_of(both),
        "prediction.untimed.far": Found(float((device > 0.2).sum())),
    }
