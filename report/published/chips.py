"""The printed roofs of chips beside those of the datasheets (``data/chips.csv``)."""

import re
from collections.abc import Iterator
from functools import partial
from math import prod
from typing import Any

import pandas as pd

from report.load.paper import BASE_PRECISION, Paper
from report.published.verdict import NOT_COMPARABLE, Comparison, Verdict, compares, judge, printed
from report.text.frame_rows import each
from report.text.prose import rate_unit

CORES_AND_CLOCK = re.compile(r"(\d+) cores? x ([\d.]+) GHz")
CHANNELS = re.compile(r"(\d+) ch")
CHANNELS_PRINTED = re.compile(r"x (\d+) channels")
LISTED = re.compile(r"([^;]+ lists?) ([\d.]+) (GB/s|TFLOP/s)")
"""In a chip's note: who prints which other bandwidth or peak."""

FACTOR = re.compile(r"([\d.]+)(?: (GHz|MT/s))?")
SCALE = {"GHz": 1e9, "GB/s": 1e9, "MT/s": 1e6, "TFLOP/s": 1e12, "": 1.0}


@compares("chips", 1)
def comparisons(paper: Paper) -> Iterator[Comparison]:
    """Yield two of each chip that a study prints: its peak and its bandwidth."""
    for row in each(paper.published.chips):
        known = paper.chips[paper.chips.chip.map(partial(_is_meant, row)).astype(bool)]
        yield _peak(row, known)
        yield _bandwidth(row, known)


def _is_meant(row: Any, chip: str) -> bool:
    """Return whether a row means a chip: by its key, or without one by a name that begins with the chip's."""
    return chip == row.chip_key if row.chip_key else row.chip.startswith(chip)


def _compared(
    row: Any, quantity: str, unit: str, column: str, ours: float | None, others: dict[str, float]
) -> Comparison:
    verdict = judge(*printed(row, column), ours, others)
    if ours is None and not others:
        known = f"data/chips.csv holds no chip {row.chip_key}"
        verdict = Verdict(NOT_COMPARABLE, known if row.chip_key else "it does not say which chip it means")
    return Comparison(row.study, _name(row), quantity, unit, getattr(row, column), ours, verdict)


def _name(row: Any) -> str:
    return f"{row.chip}, {row.precision or 'no precision stated'}"


def _peak(row: Any, known: pd.DataFrame) -> Comparison:
    """Compare the peak: without a precision with the one models run at by default, of some cores with theirs."""
    precision = row.precision or BASE_PRECISION
    share = _share_of_cores(row, known)
    ours, alike, others = None, dict[str, float](), dict[str, float]()
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
    candidates = _listed(known, "TFLOP/s") | alike | others
    return _compared(row, "peak", rate_unit(precision), "peak_flop_per_s", ours, candidates)


def _bandwidth(row: Any, known: pd.DataFrame) -> Comparison:
    """Compare the bandwidth: of some memory channels with theirs."""
    ours = None if known.empty else float(known.iloc[0].bandwidth_byte_per_s) * _share_of_channels(row, known)
    return _compared(row, "bandwidth", "B/s", "bandwidth_byte_per_s", ours, _listed(known, "GB/s"))


def _listed(known: pd.DataFrame, unit: str) -> dict[str, float]:
    """Return the other bandwidths or peaks of a chip, by their unit, that its notes in ``data/chips.csv`` name."""
    found = [match for note in known.note for match in LISTED.finditer(note) if match[3] == unit]
    return {f"what {match[1].strip()}": float(match[2]) * SCALE[unit] for match in found}


def _derived(known: pd.DataFrame, pattern: re.Pattern[str]) -> re.Match[str] | None:
    """Return the first match in the derivations of a chip's rates."""
    return next((found for text in known.derivation if (found := pattern.search(text))), None)


def _share_of_cores(row: Any, known: pd.DataFrame) -> float:
    """Return the row's part of the datasheet's cores times clock, where both are derived from them; else all."""
    stated, derived = CORES_AND_CLOCK.search(row.printed), _derived(known, CORES_AND_CLOCK)
    if not stated or not derived:
        return 1.0
    return prod(map(float, stated.groups())) / prod(map(float, derived.groups()))


def _share_of_channels(row: Any, known: pd.DataFrame) -> float:
    stated, derived = CHANNELS_PRINTED.search(row.printed), _derived(known, CHANNELS)
    return float(stated[1]) / float(derived[1]) if stated and derived else 1.0


def product(text: str) -> float:
    """Return what a printed product is: ``2 cores x 4.1 GHz x 2048 x 2`` is 33.6e12."""
    factors = [found for part in text.split(" x ") if (found := FACTOR.match(part))]
    return prod(float(factor[1]) * SCALE[factor[2] or ""] for factor in factors)


def roof_products(paper: Paper) -> Iterator[Comparison]:
    """Yield the printed roofs whose study prints the product behind them, beside what the product is."""
    quantities = (("peak", "FLOP/s", "peak_flop_per_s"), ("bandwidth", "B/s", "bandwidth_byte_per_s"))
    for row in each(paper.published.chips):
        _, _, derivation = row.printed.partition(": ")
        products = filter(None, derivation.split("; "))
        for text, (quantity, unit, column) in zip(products, quantities, strict=False):
            value, (figure, rounding) = product(text), printed(row, column)
            verdict = judge(figure, rounding, value, {})
            yield Comparison(row.study, _name(row), quantity, unit, figure, value, verdict)
