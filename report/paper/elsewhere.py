"""What others measured: models timed on devices, bandwidths and products, each held against the chip's datasheet."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from measure.cache.schema import file_of
from measure.domain.chips import datasheet_roof, fold_name, rows_by_name
from measure.domain.roofs import Roofline
from measure.domain.words import STEP, least_byte
from measure.published.records import (
    PublishedBandwidth,
    PublishedCount,
    PublishedKind,
    PublishedProduct,
    PublishedTiming,
)
from report.paper import hand_tables
from report.paper.frames import compact, each, read_frame

WIDTHS = {"fp64": 2.0, "fp32": 1.0, "fp16": 0.5}
"""Bytes of a number over those at fp32, at which models are counted: other precisions move so much more or less."""

RATES = {"fp64": ("fp64",), "fp32": ("fp32", "tf32"), "fp16": ("fp16", "bf16")}
"""The chips' rates that arithmetic at a precision may reach: torch may run convolutions at fp32 in TF32."""


@dataclass(frozen=True, eq=False)
class Elsewhere:
    """The frames: ``timings``, ``kinds`` of layers in their models, ``bandwidths`` and ``products``.

    A row of ``timings`` is a model on a device under its conditions, with what it asks for and the roof above it:
    ``computed``, the precision of its products, ``width``, the bytes of a number over those at fp32, ``flop`` and
    ``byte`` (footprint) of the call, ``flop_per_s``, ``peak_flop_per_s`` and ``bandwidth_byte_per_s`` of the datasheet,
    ``attained`` and ``peak_share``; empty where the model was not counted or the chip prints no rate at the precision.
    ``latency_s`` is that of the printed rate where there is one.
    """

    timings: pd.DataFrame
    kinds: pd.DataFrame
    bandwidths: pd.DataFrame
    products: pd.DataFrame


def read(data: Path, chips: pd.DataFrame, keys: frozenset[str]) -> Elsewhere:
    """Read the tables of ``data/published/measurements``; those that are not there are empty.

    Raises UserError where a cell is wrong, or a source is not in the bibliography.
    """
    chip_of = {name: rows[0].chip for name, rows in rows_by_name(each(chips)).items()}
    frames = []
    for record in (PublishedTiming, PublishedBandwidth, PublishedProduct):
        rows = hand_tables.checked_frame(file_of(record, data), record, keys)
        frames.append(rows.assign(device=rows.device.map(lambda name: chip_of.get(fold_name(name), name))))
    timings, bandwidths, products = frames
    counts, kinds = (read_frame(record, file_of(record, data)) for record in (PublishedCount, PublishedKind))
    return Elsewhere(held_against(timings, counts, datasheet_rooflines(chips)), kinds, bandwidths, products)


def datasheet_rooflines(chips: pd.DataFrame) -> Mapping[tuple[str, str], Roofline]:
    """Return each chip's highest dense roof for a precision of ``RATES``, by chip and precision.

    The highest is a bound whatever a library chose: tensor units or vector units, TF32 or not.
    """
    found = {}
    for chip, rows in chips.groupby("chip"):
        roof = datasheet_roof(each(rows))
        for precision, rates in RATES.items():
            peaks = [roof.flop_per_s[rate] for rate in rates if rate in roof.flop_per_s]
            if peaks:
                found[str(chip), precision] = Roofline(max(peaks), roof.byte_per_s)
    return found


def held_against(
    timings: pd.DataFrame, counts: pd.DataFrame, roof_of: Mapping[tuple[str, str], Roofline]
) -> pd.DataFrame:
    """Return the timings with what their models ask for and the roofs above them: see ``Elsewhere``."""
    wanted = counts.drop(columns=["status", "reason"])
    rows = timings.merge(wanted, on=["model", "input_size"], how="left")
    # A rate is of all calls together; a mean of single ones takes up what interrupted them
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
    return compact(rows)
