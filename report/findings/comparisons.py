"""Chips of one kind, class or year against those of others."""

from typing import Any

import pandas as pd

from measure.cache.hand_kept import CHIP_PRECISIONS
from measure.domain.values import SPACE, significant
from report.analysis import available
from report.analysis.available import MORE_ROWS, DataMissingError, finding, lacking
from report.analysis.product_lines import DATA_CENTER_GPUS, PHONES, Series
from report.findings.chips import ratio_range, tensor_beside_vector
from report.load import chips as table
from report.load.paper import Paper
from report.text.frame_rows import extremes, matching
from report.text.prose import by_number, change, intensity, listing, number, percent, rate_unit, si


@finding
def leading_kinds(paper: Paper) -> str:
    """Say which kind of chip has the highest confirmed dense peak at each precision that several kinds print."""
    chips = available.chips(paper)
    led: dict[str, list[tuple[float, str, str]]] = {}
    for precision in CHIP_PRECISIONS:
        rows = table.fastest(chips[(chips.precision == precision) & (chips.verified == "yes")])
        if rows.chip_kind.nunique() < 2:
            continue
        first = rows.iloc[0]
        second = rows[rows.chip_kind != first.chip_kind].iloc[0]
        ahead = first.peak_flop_per_s / second.peak_flop_per_s
        led.setdefault(first.chip_kind, []).append((ahead, precision, table.KINDS[second.chip_kind]))
    if not led:
        raise DataMissingError(
            f"No precision in data/chips.csv has a confirmed peak of chips of two kinds; {MORE_ROWS}."
        )
    parts = [f"{table.KINDS[kind]}s lead {_lead(found)}" for kind, found in led.items()]
    return f"Of the kinds of chip with a confirmed peak at a precision, {'; '.join(parts)}."


def _lead(found: list[tuple[float, str, str]]) -> str:
    """Say at which precisions a kind leads, and by how much: most and least, where they are several."""
    precisions = listing([precision for _, precision, _ in found])
    if len(found) == 1:
        ((ahead, _, second),) = found
        return f"at {precisions}, with {significant(ahead)} times the peak of the best {second}"
    most, least = (end(found) for end in (max, min))
    return (
        f"at {precisions}, by most at {most[1]}, with {significant(most[0])} times the peak of the best {most[2]}, and "
        f"by least at {least[1]}, with {significant(least[0])} times that of the best {least[2]}"
    )


@finding
def data_center_and_phone(paper: Paper) -> str:
    """Hold the median data-center GPU against the median SoC of a phone, at fp32 on vector units, which both have."""
    chips = available.chips(paper)
    rows = matching(chips, precision="fp32", unit="vector")
    gpus, phones = table.of_dies(DATA_CENTER_GPUS.of(rows)), table.of_dies(PHONES.of(rows))
    if gpus.empty or phones.empty:
        name = (DATA_CENTER_GPUS if gpus.empty else PHONES).name
        raise lacking("chips", f"{name} at fp32 on vector units", MORE_ROWS)
    columns = ["peak_flop_per_s", "bandwidth_byte_per_s", "ridge_flop_per_byte"]
    large, small = gpus[columns].median(), phones[columns].median()
    ratios = large / small
    apart = max(ratios.ridge_flop_per_byte, 1 / ratios.ridge_flop_per_byte)
    return (
        f"At fp32 on vector units the median of {number(len(gpus), 'die')} of data-center GPUs computes "
        f"{significant(ratios.peak_flop_per_s)} times and moves {significant(ratios.bandwidth_byte_per_s)} times as "
        f"much as the median of {number(len(phones), 'SoC')} of phones. The median ridge points, "
        f"{intensity(large.ridge_flop_per_byte)} and {intensity(small.ridge_flop_per_byte)}, differ by "
        f"a factor of {significant(apart)}."
    )


def tensor_gpus(paper: Paper) -> pd.DataFrame:
    """Return the tensor units of data-center GPUs beside their vector units (``tensor_beside_vector``), a row a die.

    At least one. The ratios cluster, so that their median is that of no chip: tell their range.
    """
    pairs = table.of_dies(tensor_beside_vector(DATA_CENTER_GPUS.of(available.chips(paper))))
    if pairs.empty:
        what = "data-center GPU with a 16-bit rate on tensor units beside one at fp32 on vector units"
        raise lacking("chips", what, MORE_ROWS)
    return pairs


@finding
def tensor_units(paper: Paper) -> str:
    """Say what tensor units of data-center GPUs do to their ridge points, against the same chip's vector units."""
    pairs = tensor_gpus(paper)
    return (
        f"The tensor units of {number(len(pairs), 'die')} of data-center GPUs compute at 16 bits {ratio_range(pairs)} "
        "what the same chip's vector units do at fp32: the memory is the same, so the ridge point moves by as much."
    )


@finding
def efficiency(paper: Paper) -> str:
    """Say the peak per watt of the chips that state a power."""
    rows = available.powered(paper)
    worst, best = extremes(table.confirmed(rows), "peak_per_watt")
    text = (
        f"For {len(rows)} of {number(len(available.headline(paper)), 'chip')} with a floating-point rate a power is "
        f"stated. The dense peak per watt runs, where confirmed, from {_per_watt(worst)} ({worst.chip}, "
        f"{worst.year:.0f}) to {_per_watt(best)} ({best.chip}, {best.year:.0f})."
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
    """Return the kinds of chips with dies enough for a rate of growth; at least one.

    They share no die: the lines of products are parts of them, and not among them.
    """
    kinds = [series for series in available.growing(paper) if not series.whole]
    return available.at_least_one(kinds, lacking("chips", "kind with dies enough for a rate of growth", MORE_ROWS))


def _growth(series: Series) -> str:
    rows, ridge = series.rows, series.growth("ridge_flop_per_byte")
    moved = "rose" if ridge.rate > 0 else "moved"
    text = (
        f"of {series.name} ({number(len(rows), 'die')}, {series.rate}, {rows.year.min():.0f} to "
        f"{rows.year.max():.0f}) {moved} by {change(ridge.rate, ridge.low, ridge.high)} a year"
    )
    if ridge.low <= 0 <= ridge.high:
        return f"{text}, which may be chance."
    verb = "double" if ridge.rate > 0 else "halve"
    return f"{text}, and so {verb} every {significant(abs(ridge.doubling_years), 2)}{SPACE}years."


@finding
def ridge_growth(paper: Paper) -> str:
    """Say how fast the ridge points of each kind moved."""
    return f"The ridge points {' Those '.join(map(_growth, growing_kinds(paper)))}"


@finding
def wall(paper: Paper) -> str:
    """Say for how many kinds arithmetic outgrew memory by more than chance, and for which it did most.

    By what the peak outgrows the bandwidth the ridge point grows, and has an interval.
    """
    kinds = growing_kinds(paper)
    ridges = {series.name: series.growth("ridge_flop_per_byte") for series in kinds}
    ahead = [series for series in kinds if ridges[series.name].low > 0]
    text = f"Of {number(len(kinds), 'kind')} peaks outgrew bandwidths by more than chance for {len(ahead) or 'none'}"
    if ahead:
        most = max(ahead, key=lambda series: ridges[series.name].rate)
        peak, bandwidth = (most.growth(column).rate for column in ("peak_flop_per_s", "bandwidth_byte_per_s"))
        text += (
            f", {'most for ' if len(ahead) > 1 else ''}{most.name}: by {percent(peak)} a year for the peaks against "
            f"{percent(bandwidth)} for the bandwidths"
        )
    text += "."
    if behind := [name for name, ridge in ridges.items() if ridge.high < 0]:
        text += f" Bandwidths outgrew peaks for {listing(behind)}."
    if undecided := [name for name, ridge in ridges.items() if ridge.low <= 0 <= ridge.high]:
        names = listing(undecided)
        text += f" For {names} the interval of the difference, the growth of the ridge point, includes none."
    return text
