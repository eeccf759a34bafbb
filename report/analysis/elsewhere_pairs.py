"""By what factors models differ between conditions, devices or phases that others timed, and what roofs promise."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import NamedTuple

import pandas as pd

from measure.domain.values import significant
from measure.domain.words import INFERENCE, PRODUCT_KINDS, STEP
from report.analysis import correlations, elsewhere
from report.analysis.available import DataMissingError, at_least_one
from report.analysis.correlations import Correlation
from report.analysis.effect import Effect, median_of
from report.analysis.elsewhere import ADD, CHANGES, COMPILED, FEWEST, LOWERED
from report.load.paper import Paper
from report.text.frame_rows import of_models
from report.text.prose import number

TAILS = (0.1, 0.9)
"""The quantiles between which eight of ten models lie."""

SHOWN = 5
"""So many pairs of devices are told, those with most models in common."""

RUNS = {INFERENCE: "inference", STEP: "a training step"}
"""What was timed, in a sentence."""


@dataclass(frozen=True)
class FactorSpread:
    """Factors of many models: the median, the ends of half of them and of eight of ten, and who is at the ends of all.

    ``slower`` is the share of models whose factor is below one.
    """

    median: float
    quarter: float
    three_quarters: float
    low: float
    high: float
    models: int
    slower: float
    least: str
    most: str

    def told(self, how: str) -> str:
        """Say it in words: ``told("fast")`` is how many times as fast the median is, and eight of ten models are."""
        return (
            f"{significant(self.median)} times as {how} in the median of {number(self.models, 'model')}, "
            f"{significant(self.low)} to {significant(self.high)} for eight of ten"
        )

    @classmethod
    def of(cls, factors: pd.Series) -> "FactorSpread":
        """Return that of factors by model."""
        low, quarter, median, three_quarters, high = factors.quantile([TAILS[0], 0.25, 0.5, 0.75, TAILS[1]])
        return cls(
            median, quarter, three_quarters, low, high, len(factors), float((factors < 1).mean()),
            str(factors.idxmin()), str(factors.idxmax()),
        )  # fmt: skip


@dataclass(frozen=True)
class PairedChange:
    """How many times as fast models are in one case as in another, where all else is alike.

    ``what`` was timed on which ``device``, or pair of them. ``factors`` are by model. ``promised`` is what the roofs at
    the models' intensities let expect in their median, or the FLOP that are asked for; None where nothing does, and
    where the models were not counted.
    """

    case: str
    device: str
    what: str
    factors: pd.Series
    promised: float | None = None

    @property
    def where(self) -> str:
        """The device and what ran on it, as figures name a row."""
        return ", ".join(filter(None, (self.device, self.what)))

    @property
    def spread(self) -> FactorSpread:
        return FactorSpread.of(self.factors)


def _enough(pairs: pd.DataFrame, by: list[str]) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """Yield the groups that have models enough to be a distribution."""
    for key, found in pairs.groupby(by):
        if found.model.nunique() >= FEWEST:
            yield tuple(map(str, key)), found


def _promised(pairs: pd.DataFrame) -> float | None:
    """Return the median over models of the ratio of the rates that the two roofs allow them."""
    allowed, other = pairs.flop_per_s / pairs.attained, pairs.flop_per_s_other / pairs.attained_other
    ratio = of_models(pairs.assign(ratio=other / allowed), "ratio").median()
    return None if pd.isna(ratio) else float(ratio)


@cache
def changes(paper: Paper) -> list[PairedChange]:
    """Return what a compiler and a layout bring on each device; at least one."""
    rows = elsewhere.timings(paper)
    found = [
        PairedChange(change.name, device, f"{RUNS[phase]} at {computed}", of_models(pairs, "speed_up"))
        for change in CHANGES
        for (device, phase, computed), pairs in _enough(
            elsewhere.changed(rows, change), ["device", "phase", "computed"]
        )
    ]
    return at_least_one(found, _gap(f"No change was timed on {FEWEST} models of one device, all else alike"))


class Fused(NamedTuple):
    """What a compiler brings where layers that do not multiply, which it fuses, move few bytes and where many.

    ``least`` and ``most`` are medians over the quarters of the models with the least and the most of such bytes,
    ``coefficient`` is the rank correlation of their share with the gain.
    """

    compiled: PairedChange
    coefficient: Correlation
    least: float
    most: float


def fused(paper: Paper) -> list[Fused]:
    """Return that of each device on which models of counted layers were compiled; at least one, most models first."""
    kinds = paper.elsewhere.kinds
    byte = kinds[kinds.stage == INFERENCE].assign(
        other=lambda rows: rows.byte.where(~rows.layer_kind.isin(PRODUCT_KINDS), 0)
    )
    sizes = ["model", "input_size"]
    sums = byte.groupby(sizes, dropna=False)[["byte", "other"]].sum().astype(float)
    shares = (sums.other / sums.byte).rename("share").reset_index()
    rows = elsewhere.timings(paper)
    rows = rows[(rows.phase == INFERENCE) & (rows.compiler == COMPILED.other)]
    found = []
    for compiled in _compiled(paper):
        # Models are counted at each size that somebody timed: only those of this device tell about its gains
        timed = rows.loc[rows.device == compiled.device, sizes].drop_duplicates()
        share = of_models(shares.merge(timed, on=sizes), "share")
        both = compiled.factors.rename("gain").to_frame().join(share, how="inner")
        coefficient = correlations.correlation(both.share, both.gain, both.index.to_series())
        if coefficient is not None and coefficient.models >= FEWEST:
            low, high = both.share.quantile([0.25, 0.75])
            least, most = both.gain[both.share <= low].median(), both.gain[both.share >= high].median()
            found.append(Fused(compiled, coefficient, float(least), float(most)))
    gap = DataMissingError(
        f"No {FEWEST} models that were timed with {COMPILED.name} have counted layers; `python -m measure "
        "count-published` counts them."
    )
    return sorted(at_least_one(found, gap), key=lambda each: -each.coefficient.models)


class Instead(NamedTuple):
    """What a compiler brings on a device, and a newer device in its place: ``advantage`` is the one over the other."""

    compiled: PairedChange
    newer: PairedChange
    advantage: Effect


def compiled_instead(paper: Paper) -> Instead:
    """Hold the compiler on a device against the device in its place, over the models of both; of most models."""
    found = [
        Instead(compiled, newer, median_of((compiled.factors / newer.factors).dropna()))
        for compiled in _compiled(paper)
        for newer in generations(paper)
        if newer.device.startswith(f"{compiled.device} to ") and newer.what == compiled.what
        if len(compiled.factors.index.intersection(newer.factors.index)) >= FEWEST
    ]
    what = f"No {FEWEST} models were timed with {COMPILED.name} on a device and without it on a newer one"
    return max(at_least_one(found, _gap(what)), key=lambda each: each.advantage.count)


def _compiled(paper: Paper) -> list[PairedChange]:
    """Return what the compiler brings to inference on each device."""
    return [each for each in changes(paper) if each.case == COMPILED.name and each.what.startswith(RUNS[INFERENCE])]


def lowered(paper: Paper) -> list[PairedChange]:
    """Return what half the bits bring to inference on each device; at least one, most promising roofs first."""
    rows = elsewhere.timings(paper)
    found = [
        PairedChange(LOWERED.name, device, "", of_models(pairs, "speed_up"), _promised(pairs))
        for (device,), pairs in _enough(elsewhere.changed(rows[rows.phase == INFERENCE], LOWERED), ["device"])
    ]
    known = at_least_one(found, _gap(f"No device was timed at fp32 and at fp16 with {FEWEST} models"))
    return sorted(known, key=lambda each: (-(each.promised or 0), each.where))


@cache
def generations(paper: Paper) -> list[PairedChange]:
    """Return how many times as fast newer devices are as older ones of their vendor; at least one pair.

    Of all pairs they are those with most models in common.
    """
    found = [
        PairedChange("newer", devices, f"{RUNS[phase]} at {computed}", of_models(rows, "speed_up"), _promised(rows))
        for devices, pairs in _newer(paper)
        for (phase, computed), rows in _enough(pairs, ["phase", "computed"])
    ]
    what = f"No two devices of one vendor and different years were timed on {FEWEST} models in common, all else alike"
    known = at_least_one(found, _gap(what))
    first: dict[str, PairedChange] = {}  # of each pair of devices what has most models
    for comparison in sorted(known, key=lambda each: -each.spread.models):
        first.setdefault(comparison.device, comparison)
    return list(first.values())[:SHOWN]


@cache
def _newer(paper: Paper) -> list[tuple[str, pd.DataFrame]]:
    """Return the timings of each two devices of a vendor, the older first, that are alike in all else."""
    timed = {str(device): rows for device, rows in elsewhere.timings(paper).groupby("device")}
    sources = {device: set(rows.source) for device, rows in timed.items()}
    chips = paper.chips.drop_duplicates("chip").set_index("chip")
    years, vendors = chips.year, chips.vendor
    devices = sorted((name for name in timed if name in years.index), key=lambda name: (years[name], name))
    return [
        (f"{older} to {newer.removeprefix(f'{vendors[newer]} ')}", elsewhere.generations(timed[older], timed[newer]))
        for older, newer in combinations(devices, 2)
        if years[older] < years[newer] and vendors[older] == vendors[newer]
        if sources[older] & sources[newer]  # without a source of both no row has its like
    ]


def training(paper: Paper) -> list[PairedChange]:
    """Return how many times as long a training step takes as inference, per input, beside the FLOP; at least one."""
    pairs = elsewhere.trained(elsewhere.counted(paper))
    found = [
        PairedChange("step over inference", device, f"at {computed}", of_models(rows, "speed_up"),
                   float(of_models(rows, "flop_ratio").median()))
        for (device, computed), rows in _enough(pairs, ["device", "computed"])
    ]  # fmt: skip
    return at_least_one(found, _gap(f"No device was timed in training and in inference with {FEWEST} counted models"))


def _gap(what: str) -> DataMissingError:
    return DataMissingError(f"{what}; {ADD}.")
