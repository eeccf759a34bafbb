"""The printed roofs of chips beside those of the datasheets (``data/chips.csv``)."""

import re
from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Any

import pandas as pd

from report.load.paper import BASE_PRECISION, Paper
from report.published.verdict import OPEN, Comparison, Verdict, judge
from report.text.frame_rows import each
from report.text.quantities import rate_unit

DATASHEET = "datasheet"

CORES_AND_CLOCK = re.compile(r"(\d+) cores? x ([\d.]+) GHz")
CHANNELS = re.compile(r"(\d+) ch")
CHANNELS_PRINTED = re.compile(r"x (\d+) channels")
FACTOR = re.compile(r"([\d.]+)(?: (GHz|MT/s))?")
SCALE = {"GHz": 1e9, "MT/s": 1e6, "": 1.0}


def comparisons(paper: Paper) -> Iterator[Comparison]:
    """Two of each chip that a study prints: its peak and its bandwidth."""
    for row in each(paper.published.chips):
        known = paper.chips[paper.chips.chip.map(partial(_is_meant, row)).astype(bool)]
        yield _peak(row, known)
        yield _bandwidth(row, known)


def _is_meant(row: Any, chip: str) -> bool:
    """Whether a row means a chip of the table: by its key, or without one by a name that begins with the chip's."""
    return chip == row.chip_key if row.chip_key else row.chip.startswith(chip)


def _name(row: Any) -> str:
    return f"{row.chip}, {row.precision or 'no precision stated'}"


def _peak(row: Any, known: pd.DataFrame) -> Comparison:
    """Of a row without a precision ours is the one that models run at by default; of one of some cores, theirs."""
    precision = row.precision or BASE_PRECISION
    share = _share_of_cores(row, known)
    alike: dict[str, float] = {}
    others: dict[str, float] = {}
    ours = None
    for rate in each(known.sort_values("peak_flop_per_s", ascending=False)):
        dense = rate.peak_flop_per_s * share
        if rate.precision != precision or ours is not None:
            others[f"the {rate.precision} peak of the {rate.unit} units"] = dense
            continue
        ours = dense
        if rate.sparse_peak_flop_per_s > 0:
            alike["the peak with 2:4 sparsity"] = rate.sparse_peak_flop_per_s * share
        else:
            alike["twice the peak, which counts multiply and add already"] = 2 * dense
    verdict = judge(row.peak_flop_per_s, row.peak_flop_per_s_rounding, ours, alike | others)
    if known.empty:
        verdict = Verdict(OPEN, _unknown(row))
    return Comparison(
        row.study,
        _name(row),
        "peak",
        rate_unit(precision),
        row.peak_flop_per_s,
        ours,
        DATASHEET if ours else "",
        verdict,
    )


def _bandwidth(row: Any, known: pd.DataFrame) -> Comparison:
    """Of a row of some memory channels ours is theirs."""
    ours = None if known.empty else float(known.iloc[0].bandwidth_byte_per_s) * _share_of_channels(row, known)
    verdict = judge(row.bandwidth_byte_per_s, row.bandwidth_byte_per_s_rounding, ours, {})
    if known.empty:
        verdict = Verdict(OPEN, _unknown(row))
    return Comparison(
        row.study,
        _name(row),
        "bandwidth",
        "B/s",
        row.bandwidth_byte_per_s,
        ours,
        DATASHEET if ours else "",
        verdict,
    )


def _unknown(row: Any) -> str:
    if row.chip_key:
        return f"data/chips.csv holds no chip {row.chip_key}"
    return "it does not say which chip it means"


def _share_of_cores(row: Any, known: pd.DataFrame) -> float:
    """What part of the datasheet's cores times clock the row is of, where both are derived from them; else all."""
    derived = next((found for text in known.derivation if (found := CORES_AND_CLOCK.search(text))), None)
    printed = CORES_AND_CLOCK.search(row.printed)
    if not printed or not derived:
        return 1.0
    return prod(map(float, printed.groups())) / prod(map(float, derived.groups()))


def _share_of_channels(row: Any, known: pd.DataFrame) -> float:
    printed = CHANNELS_PRINTED.search(row.printed)
    derived = next((found for text in known.derivation if (found := CHANNELS.search(text))), None)
    return float(printed[1]) / float(derived[1]) if printed and derived else 1.0


def product(text: str) -> float:
    """What a printed product is: ``2 cores x 4.1 GHz x 2048 x 2`` is 33.6e12."""
    factors = [found for part in text.split(" x ") if (found := FACTOR.match(part))]
    return prod(float(factor[1]) * SCALE[factor[2] or ""] for factor in factors)


def own_arithmetic(paper: Paper) -> Iterator[Comparison]:
    """The printed roofs whose study prints the product behind them, beside what the product is."""
    for row in each(paper.published.chips):
        _, _, derivation = row.printed.partition(": ")
        quantities = (("peak", "FLOP/s", "peak_flop_per_s"), ("bandwidth", "B/s", "bandwidth_byte_per_s"))
        for text, (quantity, unit, column) in zip(
            filter(None, derivation.split("; ")), quantities, strict=False
        ):
            value, printed, rounding = product(text), getattr(row, column), getattr(row, f"{column}_rounding")
            verdict = judge(printed, rounding, value, {})
            yield Comparison(row.study, _name(row), quantity, unit, printed, value, "arithmetic", verdict)
