"""Published results: numbers from studies, and timings by others under datasheet roofs.

A timed network has two rooflines. As a whole it moves parameters, inputs and outputs once. Layer by layer, each
operator writes its results to memory and the next reads them back, one after the other. The counts keep operators of
one kind and of like intensity in one row.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from measure.domain.chips import datasheet_roof, fold_name, reachable_peak, rows_by_name
from measure.domain.names import model_name
from measure.domain.roofs import Roofline
from measure.domain.schema import file_of
from measure.domain.trace_records import CONVOLUTIONS
from measure.domain.words import INFERENCE, STEP, least_byte
from measure.predicting.records import COMPILED
from measure.published import records
from report.paper import curated
from report.paper.chips import short_name
from report.paper.frames import compact, each, matching, read_frame
from report.stats.value import Name, Source, Value, median_of

WIDTHS = {"fp64": 2.0, "fp32": 1.0, "fp16": 0.5, "bf16": 0.5}
"""The size of a number relative to fp32, the precision of the counts."""

NETWORK = ("model", "input_size")
CONDITIONS = (
    "device", "source", "phase", "precision", "autocast", "layout", "compiler", "torch", "input_copied", "tuned",
)  # fmt: skip
"""The conditions of a timing, apart from network, input and batch size."""

FEWEST, LIBRARY = 20, 900
"""The fewest networks of a comparison, and of a device timed with a whole library."""

ALIKE_FLOP = (7.5e9, 9.5e9)  # FLOP per input: networks in this range, around ResNet-50, count as alike

CONVOLUTIONAL = 0.9  # a network with more than this share of its FLOP in convolutions

ROUNDING = 5_000  # parameters: timm prints millions with two decimals

SOURCE = Source("published/measurements/models.csv", "all", "python -m measure add-published FILE")

TWINS = {
    "mobilenet_v2": "timm:mobilenetv2_100", "resnet18": "timm:resnet18", "resnet50": "timm:resnet50",
    "vgg16": "timm:vgg16", "densenet121": "timm:densenet121", "vit_b_16": "timm:vit_base_patch16_224",
    "efficientnet_b0": "timm:efficientnet_b0", "convnext_tiny": "timm:convnext_tiny",
}  # fmt: skip
"""The same networks in torchvision (measured here) and in timm (timed by others)."""


@dataclass(frozen=True, eq=False)
class Published:
    """The frames of ``data/published``: six tables from studies, errors included, then measurements of others.

    ``kinds`` are the kinds of layers in the timed models.

    A row of ``timings`` is a model on a device under its conditions, with its demand and roof: ``computed``, the
    precision of its products, ``width``, the bytes of a number relative to fp32, ``flop`` and ``byte`` (footprint) of
    the call, ``flop_per_s``, ``peak_flop_per_s`` and ``bandwidth_byte_per_s`` of the datasheet, ``attained`` and
    ``peak_share``; empty if the model was not counted, if ``is_other`` says that the timed network has other
    parameters than the counted one, or if the datasheet lacks the precision. ``latency_s`` follows from the printed
    rate if there is one.
    """

    chips: pd.DataFrame
    models: pd.DataFrame
    training: pd.DataFrame
    training_steps: pd.DataFrame
    step_estimates: pd.DataFrame
    counting_suites: pd.DataFrame
    timings: pd.DataFrame
    kinds: pd.DataFrame
    bandwidths: pd.DataFrame
    products: pd.DataFrame
    tokens: pd.DataFrame


PRINTED = (
    records.PrintedChip, records.PrintedModel, records.PrintedTraining, records.PrintedStep, records.PrintedEstimate,
    records.CountedSuite,
)  # fmt: skip


MEASURED = (
    records.PublishedTiming, records.PublishedBandwidth, records.PublishedProduct, records.PublishedTokens,
)  # fmt: skip


def read(studies: Path, measurements: Path, chips: pd.DataFrame, keys: frozenset[str]) -> Published:
    """Read the tables below ``published`` of two data folders. Raises UserError as ``curated.read`` does."""
    printed = (curated.frame(file_of(record, studies), record, keys) for record in PRINTED)
    chip_of = {name: rows[0].chip for name, rows in rows_by_name(each(chips)).items()}
    measured = []
    for record in MEASURED:
        rows = curated.frame(file_of(record, measurements), record, keys)
        measured.append(rows.assign(device=rows.device.map(lambda name: chip_of.get(fold_name(name), name))))
    timings, *others = measured
    counted = (records.PublishedCount, records.PublishedKind)
    counts, kinds = (read_frame(record, file_of(record, measurements)) for record in counted)
    timings = under_roofs(timings, counts, datasheet_rooflines(chips))
    timings["chip_kind"] = timings.device.map(dict(zip(chips.chip, chips.chip_kind, strict=True)))
    frames = [*printed, compact(timings), kinds, *others]
    return Published(*frames)


def datasheet_rooflines(chips: pd.DataFrame) -> Mapping[tuple[str, str], Roofline]:
    """Return the highest dense roof by chip and precision: it holds for any units that a library uses."""
    found = {}
    for chip, rows in chips.groupby("chip"):
        roof = datasheet_roof(each(rows))
        for precision in WIDTHS:
            if peak := reachable_peak(roof, precision):
                found[str(chip), precision] = Roofline(peak, roof.byte_per_s)
    return found


def under_roofs(
    timings: pd.DataFrame, counts: pd.DataFrame, roof_of: Mapping[tuple[str, str], Roofline]
) -> pd.DataFrame:
    """Add the demand and the roof of each timed call: see ``Published``."""
    wanted = counts.drop(columns=["status", "reason"])
    rows = timings.merge(wanted, on=["model", "input_size"], how="left")
    rows["is_other"] = (rows.published_parameter_count - rows.parameter_count).abs() > ROUNDING
    rows.loc[rows.is_other, wanted.columns.drop(["model", "input_size"])] = None
    # A rate covers all calls; a mean of single calls includes their interruptions
    rows["latency_s"] = (rows.batch / rows.throughput_per_s.astype(float)).fillna(rows.latency_s)
    rows["computed"] = rows.autocast.where(rows.autocast != "", rows.precision)
    rows["width"] = rows.computed.map(WIDTHS).astype(float)
    trains = rows.phase == STEP
    backward = rows.backward_flop.astype(float).where(trains, 0.0)
    rows["flop"] = rows.batch * (rows.forward_flop.astype(float) + backward)
    # A step moves the activations twice: they are kept, and read again with their gradients
    passes = np.where(trains, 2, 1)
    of_batch = (rows.batch * rows[column].astype(float) for column in ("input_byte", "activation_byte"))
    rows["byte"] = rows.width * passes * least_byte(rows.parameter_byte.astype(float), *of_batch)
    above = [roof_of.get(key) for key in zip(rows.device, rows.computed, strict=True)]
    rows["peak_flop_per_s"] = [np.nan if roof is None else roof.peak_flop_per_s for roof in above]
    rows["bandwidth_byte_per_s"] = [np.nan if roof is None else roof.bandwidth_byte_per_s for roof in above]
    rows["flop_per_s"] = rows.flop / rows.latency_s
    roof = Roofline(rows.peak_flop_per_s, rows.bandwidth_byte_per_s)
    rows["attained"] = rows.flop_per_s / roof.attainable(rows.flop / rows.byte)
    rows["peak_share"] = rows.flop_per_s / rows.peak_flop_per_s
    return rows


def network_name(model: str) -> str:
    """Return the paper's name of a network from timm or torchvision."""
    own = {twin: model for model, twin in TWINS.items()}
    return model_name(own.get(model, model.removeprefix("timm:")))


def version(torch: str) -> tuple[int, ...]:
    """Return the numbers of a version, which sort 2.10 after 2.9."""
    return tuple(map(int, re.findall(r"\d+", torch)))


def by_operators(timings: pd.DataFrame, kinds: pd.DataFrame) -> pd.DataFrame:
    """Return a row per timed forward pass, kind of layer and intensity; ``timing`` is the pass's index.

    ``arithmetic_s`` is the least time of ``work_flop``, ``bytes_s`` of ``moved_byte``, ``least_s`` their maximum.
    """
    columns = [*NETWORK, "batch", "width", "peak_flop_per_s", "bandwidth_byte_per_s"]
    rows = timings.rename_axis("timing").reset_index()[["timing", *columns]]
    rows = rows.merge(kinds[kinds.stage == INFERENCE], on=list(NETWORK))
    further = rows.further_byte.astype(float)
    rows["work_flop"] = rows.batch * rows.flop.astype(float)
    rows["moved_byte"] = rows.width * (rows.byte.astype(float) + (rows.batch - 1) * further)
    rows["arithmetic_s"] = rows.work_flop / rows.peak_flop_per_s
    rows["bytes_s"] = rows.moved_byte / rows.bandwidth_byte_per_s
    return rows.assign(least_s=np.maximum(rows.arithmetic_s, rows.bytes_s))


@cache
def timed(published: Published) -> pd.DataFrame:
    """Return the forward passes of counted networks on chips with a roof, under both rooflines.

    ``whole_s`` and ``layers_s`` are least times, ``whole_byte`` and ``layers_byte`` bytes. ``input_s`` is per input.
    """
    rows = published.timings
    rows = rows[(rows.phase == INFERENCE) & rows.attained.notna()]
    inputs, outputs = (rows.batch * rows[column].astype(float) for column in ("input_byte", "output_byte"))
    whole_byte = rows.width * least_byte(rows.parameter_byte.astype(float), inputs, outputs)
    sums = by_operators(rows, published.kinds).groupby("timing")[["least_s", "moved_byte"]].sum()
    found = rows.assign(
        input_s=rows.latency_s / rows.batch,
        whole_byte=whole_byte,
        whole_s=np.maximum(rows.flop / rows.peak_flop_per_s, whole_byte / rows.bandwidth_byte_per_s),
        layers_byte=sums.moved_byte.reindex(rows.index),
        layers_s=sums.least_s.reindex(rows.index),
    )
    return compact(found)


@cache
def newest(published: Published, compiler: str = "", layout: str = "contiguous") -> pd.DataFrame:
    """Keep each source's timings in its newest software, in eager mode or with a compiler."""
    rows = matching(timed(published), compiler=compiler, layout=layout)
    alike = ["device", "source", "computed"]
    newer = rows.assign(version=rows.torch.map(version)).sort_values("version", kind="stable")
    last = newer.drop_duplicates(alike, keep="last")[[*alike, "torch"]]
    return rows.merge(last, on=[*alike, "torch"]).drop_duplicates(["device", "computed", *NETWORK])


class BestTimed(NamedTuple):
    """A GPU, its precision with the most networks timed in eager mode, and these timings."""

    device: str
    computed: str
    rows: pd.DataFrame

    @property
    def roof(self) -> Roofline:
        """The roof of the GPU's datasheet."""
        return Roofline(self.rows.peak_flop_per_s.iloc[0], self.rows.bandwidth_byte_per_s.iloc[0])

    @property
    def of_usual_size(self) -> pd.DataFrame:
        """The timings at the most frequent size of input."""
        return self.rows[self.rows.input_size == self.rows.input_size.mode()[0]]


@cache
def best_timed(published: Published) -> BestTimed | None:
    """Return the GPU with the most networks timed in eager mode; None below ``FEWEST`` networks."""
    return next(iter(by_device(published)), None)


def left_out(published: Published, best: BestTimed) -> pd.DataFrame:
    """Return the passes like the best timed GPU's whose networks have other parameters than the counted ones."""
    alike = matching(published.timings, device=best.device, computed=best.computed, phase=INFERENCE, compiler="")
    return alike[alike.is_other & alike.torch.isin(best.rows.torch.unique())]


@cache
def by_device(published: Published) -> list[BestTimed]:
    """Return each GPU at its precision with the most networks timed in eager mode, most networks first."""
    rows = newest(published)
    rows = rows[rows.chip_kind != "cpu"]
    groups = [BestTimed(str(key[0]), str(key[1]), each) for key, each in rows.groupby(["device", "computed"])]
    ranked = sorted(groups, key=lambda each: (-each.rows.model.nunique(), each.device, each.computed))
    first = {each.device: each for each in reversed(ranked)}
    return [each for each in ranked if each is first[each.device] and each.rows.model.nunique() >= FEWEST]


def paired(base: pd.DataFrame, other: pd.DataFrame, but: Sequence[str] = ()) -> pd.DataFrame:
    """Join timings that agree in network, input, batch size and all conditions except ``but``.

    The other's columns end in ``_other``.
    """
    alike = [column for column in (*NETWORK, "batch", *CONDITIONS) if column not in but]
    base, other = (rows.drop_duplicates(alike) for rows in (base, other))
    return base.merge(other, on=alike, suffixes=("", "_other"))


def gains(pairs: pd.DataFrame, column: str = "input_s") -> pd.Series:
    """Return each network's speed-up in the other timings of ``paired``, of an input or as a bound predicts."""
    return of_networks(pairs[column] / pairs[f"{column}_other"], pairs.model)


def gain(pairs: pd.DataFrame | None, column: str = "input_s") -> Value:
    return Value(None) if pairs is None else median_of(gains(pairs, column))


def name_in(pairs: pd.DataFrame | None, column: str = "device") -> Name:
    return Name(None if pairs is None else short_name(str(pairs[column].iloc[0])))


def on_the_next(published: Published, best: BestTimed, following: pd.DataFrame) -> pd.DataFrame:
    """Return pairs of eager timings on the best-timed GPU and compiled ones on the next."""
    other = newest(published, COMPILED)
    return paired(best.rows, other[other.device == following.device_other.iloc[0]], ("device", "compiler"))


def of_networks(values: pd.Series, models: pd.Series) -> pd.Series:
    """Return the median per network, so one timed at many input sizes counts once."""
    return values.groupby(models).median()


def typical(values: pd.Series, models: pd.Series, unit: str = "") -> Value:
    return median_of(of_networks(values, models), unit)


def share(rows: pd.DataFrame, bound: str) -> Value:
    """Return the median share of a bound in the measured time."""
    return typical(rows[bound] / rows.latency_s, rows.model, "%")


def timed_by(rows: pd.DataFrame) -> str:
    """Return who timed most of these rows, by the first word of the source."""
    return str(rows.source.mode()[0]).split("_")[0]


@cache
def steps(published: Published) -> list[pd.DataFrame]:
    """Return eager timings of the two pairs of GPUs with the most common networks; lower peaks come first."""
    rows = matching(timed(published), compiler="")
    call = rows.groupby([*NETWORK, "batch", *CONDITIONS[1:]], dropna=False).ngroup()  # on any device

    def shared(pair: tuple[pd.DataFrame, ...]) -> int:
        count = int(pair[0].model[call[pair[0].index].isin(call[pair[1].index])].nunique())
        return count if count >= FEWEST else 0

    best = [matching(rows, device=each.device, computed=each.computed) for each in by_device(published)[:6]]
    most = sorted(combinations(best, 2), key=shared, reverse=True)[:2]  # joining all takes half a second
    found = [paired(min(pair[::-1], key=_peak), max(pair, key=_peak), ("device",)) for pair in filter(shared, most)]
    return sorted(found, key=_peak)


@cache
def compiled(published: Published) -> list[pd.DataFrame]:
    """Return pairs of eager and compiled timings: a frame per device, most networks first."""
    return _changed(newest(published), newest(published, COMPILED), ("compiler",))


@cache
def channels_last(published: Published) -> list[pd.DataFrame]:
    """Return pairs of contiguous and channels-last timings likewise, of one release but maybe of two batch sizes.

    Only convolutional networks: more than ``CONVOLUTIONAL`` of their FLOP are in convolutions.
    """
    kinds = matching(published.kinds, stage=INFERENCE)
    within = kinds.flop.where(kinds.layer_kind.isin(CONVOLUTIONS), 0).groupby([kinds[each] for each in NETWORK]).sum()
    shares = within / kinds.groupby(list(NETWORK)).flop.sum()
    rows = matching(timed(published), compiler="", layout="contiguous")
    rows = rows.merge(shares[shares > CONVOLUTIONAL].rename("in_convolutions").reset_index(), on=list(NETWORK))
    return _changed(rows, newest(published, layout="channels_last"), ("layout", "batch"))


def of_best(found: list[pd.DataFrame], best: BestTimed | None) -> pd.DataFrame | None:
    """Return the pairs with the best-timed GPU as first device."""
    return next((pairs for pairs in found if best and pairs.device.iloc[0] == best.device), None)


def _changed(base: pd.DataFrame, other: pd.DataFrame, but: Sequence[str]) -> list[pd.DataFrame]:
    found = [pairs for _, pairs in paired(base, other, but).groupby("device") if pairs.model.nunique() >= FEWEST]
    return sorted(found, key=lambda pairs: -pairs.model.nunique())


def _peak(rows: pd.DataFrame) -> float:
    return float(rows.peak_flop_per_s.iloc[0])
