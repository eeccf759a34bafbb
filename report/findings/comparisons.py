"""Chips of one kind, class or year against those of others."""

from typing import Any

import pandas as pd

from measure.cache.hand_kept import CHIP_PRECISIONS
from report.analysis import available
from report.analysis.available import MORE_ROWS, DataMissingError, finding, lacking
from report.analysis.growth import fit
from report.analysis.product_lines import DATA_CENTER_GPUS, LINES, PHONES, Series
from report.findings.chips import tensor_beside_vector
from report.load import chips as table
from report.load.paper import Paper
from report.text.frame_rows import extremes, highest, matching
from report.text.quantities import (
    SPACE,
    by_number,
    change,
    intensity,
    listing,
    number,
    percent,
    rate_unit,
    si,
    significant,
)


@finding
def leading_kinds(paper: Paper) -> str:
    """Say which kind of chip has the highest dense peak at each precision that several kinds print."""
    chips = available.chips(paper)
    led: dict[str, list[str]] = {}
    for precision in CHIP_PRECISIONS:
        rows = table.fastest(chips[chips.precision == precision])
        if rows.chip_kind.nunique() < 2:
            continue
        first = rows.iloc[0]
        second = rows[rows.chip_kind != first.chip_kind].iloc[0]
        peak = si(first.peak_flop_per_s, rate_unit(precision))
        ahead = significant(first.peak_flop_per_s / second.peak_flop_per_s)
        led.setdefault(first.chip_kind, []).append(
            f"{precision} ({peak}, {first.chip}; {ahead} times the best {table.KINDS[second.chip_kind]})"
        )
    if not led:
        raise DataMissingError(f"No precision in data/chips.csv is printed by chips of two kinds; {MORE_ROWS}.")
    parts = [f"{table.KINDS[kind]}s lead at {listing(precisions)}" for kind, precisions in led.items()]
    return f"Of the kinds of chip that print a precision, {'; '.join(parts)}."


@finding
def data_center_and_phone(paper: Paper) -> str:
    """Hold the median data-center GPU against the median SoC of a phone, at fp32 on vector units, which both have."""
    chips = available.chips(paper)
    rows = matching(chips, precision="fp32", unit="vector")
    gpus, phones = DATA_CENTER_GPUS.of(rows), PHONES.of(rows)
    if gpus.empty or phones.empty:
        name = (DATA_CENTER_GPUS if gpus.empty else PHONES).name
        raise lacking("chips", f"{name} at fp32 on vector units", MORE_ROWS)
    columns = ["peak_flop_per_s", "bandwidth_byte_per_s", "ridge_flop_per_byte"]
    large, small = gpus[columns].median(), phones[columns].median()
    ratios = large / small
    apart = max(ratios.ridge_flop_per_byte, 1 / ratios.ridge_flop_per_byte)
    return (
        f"At fp32 on vector units the median of {number(len(gpus), 'data-center GPU')} computes "
        f"{si(large.peak_flop_per_s, 'FLOP/s')} and moves {si(large.bandwidth_byte_per_s, 'B/s')}, "
        f"{significant(ratios.peak_flop_per_s)} and {significant(ratios.bandwidth_byte_per_s)} times as much as the "
        f"median of {number(len(phones), 'SoC')} of phones, {si(small.peak_flop_per_s, 'FLOP/s')} and "
        f"{si(small.bandwidth_byte_per_s, 'B/s')}. The median ridge points, {intensity(large.ridge_flop_per_byte)} and "
        f"{intensity(small.ridge_flop_per_byte)}, differ by a factor of {significant(apart)}."
    )


def tensor_gpus(paper: Paper) -> pd.DataFrame:
    """Return the data-center GPUs' tensor units beside their vector units (``tensor_beside_vector``); at least one."""
    pairs = tensor_beside_vector(DATA_CENTER_GPUS.of(available.chips(paper)))
    if pairs.empty:
        what = "data-center GPU with a 16-bit rate on tensor units beside one at fp32 on vector units"
        raise lacking("chips", what, MORE_ROWS)
    return pairs


@finding
def tensor_units(paper: Paper) -> str:
    """Say what tensor units of data-center GPUs do to their ridge points, against the same chip's vector units."""
    pairs = tensor_gpus(paper)
    least, most = extremes(pairs, "ratio")
    return (
        f"The tensor units of {number(len(pairs), 'data-center GPU')} compute at 16 bits {significant(least.ratio)} "
        f"({least.chip}) to {significant(most.ratio)} times ({most.chip}) what the same chip's vector units do at "
        "fp32: the memory is the same, so the ridge point moves by as much."
    )


@finding
def efficiency(paper: Paper) -> str:
    """Say the peak per watt of the chips that state a power."""
    rows = available.powered(paper)
    worst, best = extremes(rows, "peak_per_watt")
    text = (
        f"For {len(rows)} of {number(paper.chips.chip.nunique(), 'chip')} a power is stated. The dense peak per watt "
        f"runs from {_per_watt(worst)} ({worst.chip}, {worst.year:.0f}) to {_per_watt(best)} ({best.chip}, "
        f"{best.year:.0f})."
    )
    measured = rows[table.measured_power(rows)]
    if measured.empty:
        return text
    names = listing([f"the {chip}" for chip in measured.chip])
    verb = by_number(len(measured), "is a measured maximum", "are measured maxima")
    noun = by_number(len(measured), "power", "powers")
    return f"{text} The {noun} of {names} {verb} (marked ‡), the others limits that vendors state."


def _per_watt(row: Any) -> str:
    return f"{si(row.peak_per_watt, rate_unit(row.precision))}/W"


def growing_kinds(paper: Paper) -> list[Series]:
    """Return the kinds of chips, not the lines of products, with chips enough for a rate of growth; maybe none."""
    lines = {line.name for line in LINES}
    return [series for series in available.growing(paper) if series.name not in lines]


def _growth(series: Series) -> str:
    rows = series.rows
    ridge = fit(rows.year.tolist(), rows.ridge_flop_per_byte.tolist())
    text = (
        f"{change(ridge.rate, ridge.low, ridge.high)} for {series.name} (n = {len(rows)}, {series.rate}, "
        f"{rows.year.min():.0f} to {rows.year.max():.0f})"
    )
    if ridge.low <= 0 <= ridge.high:
        return f"{text}, which may be chance"
    verb = "doubling" if ridge.rate > 0 else "halving"
    return f"{text}, {verb} every {significant(abs(ridge.doubling_years), 2)}{SPACE}years"


@finding
def ridge_growth(paper: Paper) -> str:
    """Say how fast the ridge points of each kind moved."""
    return f"Ridge points moved by these rates a year: {'; '.join(map(_growth, growing_kinds(paper)))}."


@finding
def wall(paper: Paper) -> str:
    """Say whose arithmetic outgrew its memory most."""
    growths = []
    for series in available.growing(paper):
        peak, bandwidth = (
            fit(series.rows.year.tolist(), series.rows[column].tolist()).rate
            for column in ("peak_flop_per_s", "bandwidth_byte_per_s")
        )
        growths.append({"name": series.name, "peak": peak, "bandwidth": bandwidth, "lead": peak - bandwidth})
    rates = pd.DataFrame(growths)
    most, ahead = highest(rates, "lead"), int((rates.lead > 0).sum())
    text = f"Peaks outgrew bandwidths in {ahead} of {number(len(rates), 'row')} of the table"
    if not ahead:
        return f"{text}."
    return (
        f"{text}, most for {most['name']}: by {percent(most.peak)} a year for the peaks against "
        f"{percent(most.bandwidth)} for the bandwidths."
    )
