"""The tables of chips: their rates, the arithmetic behind those, and how they grow."""

from typing import Any

import pandas as pd

from measure.domain.values import SPACE, significant
from report.analysis import available
from report.analysis.available import or_missing
from report.load import chips
from report.load.paper import Paper
from report.tables.pipe import NONE, cited, known, pipe
from report.text.frame_rows import each
from report.text.prose import change, escape, rate_unit, si


def _rate(row: Any) -> str:
    """Return precision and unit, marked where an input of the roof was not confirmed."""
    return f"{row.precision}{SPACE}{row.unit}" + ("" if row.verified == "yes" else f"{SPACE}\\*")


def _peak(row: Any) -> str:
    return si(row.peak_flop_per_s, rate_unit(row.precision))


def _marked(values: pd.Series, unit: str, mark: str, marked: pd.Series) -> list[str]:
    """Return quantities, with a mark where ``marked`` says so."""
    return [
        known(value, si, unit) + (f"{SPACE}{mark}" if is_marked else "")
        for value, is_marked in zip(values, marked, strict=True)
    ]


def _bandwidths(rows: pd.DataFrame) -> list[str]:
    """Return bandwidths, marked where they are those of memory on the chip."""
    return _marked(rows.bandwidth_byte_per_s, "B/s", "†", chips.on_chip(rows))


def _unrepeated(cells: list[list[str]], columns: set[int]) -> list[list[str]]:
    """Return the cells, in these columns empty where they repeat the row above, which begins alike."""
    return [
        ["" if row[0] == above[0] and at in columns and text == above[at] else text for at, text in enumerate(row)]
        for above, row in zip([[""], *cells], cells, strict=False)
    ]


@or_missing
def fastest(paper: Paper, count: int = 3) -> str:
    """List the chips of each kind with the highest dense peaks at the precision that its figure shows."""
    available.chips(paper)
    shown = pd.concat([chips.comparable(paper.chips, kind)[0].head(count) for kind in chips.KINDS])
    rows = [
        [escape(row.chip), _rate(row), _peak(row), bandwidth, significant(row.ridge_flop_per_byte), cited(row.source)]
        for row, bandwidth in zip(each(shown), _bandwidths(shown), strict=True)
    ]
    return pipe("Chip | Rate | Dense peak > | Bandwidth > | Ridge point > | Sources", rows)


@or_missing
def rates(paper: Paper, kind: str) -> str:
    """List all rates of a kind's chips; what several of a chip's rates share stands beside the first."""
    found = available.chips(paper, kind)
    powers = _marked(found.power_w, "W", "‡", chips.measured_power(found))
    rows = [
        [
            escape(row.chip), f"{row.year:.0f}", _rate(row), _peak(row),
            known(row.sparse_peak_flop_per_s, si, rate_unit(row.precision)), bandwidth,
            significant(row.ridge_flop_per_byte), power, cited(row.source),
        ]
        for row, bandwidth, power in zip(each(found), _bandwidths(found), powers, strict=True)
    ]  # fmt: skip
    header = "Chip | Year | Rate | Dense peak > | Sparse peak > | Bandwidth > | Ridge point > | Power > | Sources"
    return pipe(header, _unrepeated(rows, {0, 1, 5, 7, 8}))


@or_missing
def derivations(paper: Paper) -> str:
    """Show the arithmetic behind the peaks and bandwidths of CPUs."""
    found = available.chips(paper, "cpu")
    found = found[found.derivation != ""]
    if found.empty:
        raise available.DataMissingError(
            "No peak of a CPU in data/chips.csv has a derivation; fill its column derivation, or restore it."
        )
    rows = []
    for row in each(found):
        peak, _, bandwidth = row.derivation.replace(" x ", " × ").partition("; ")
        rows.append([escape(row.chip), _rate(row), escape(peak), _peak(row), escape(bandwidth) or NONE])
    header = "Chip | Rate | Derivation of the peak | Dense peak > | Derivation of the bandwidth"
    return pipe(header, _unrepeated(rows, {0, 4}))


@or_missing
def growth(paper: Paper) -> str:
    """List the growth of peaks, bandwidths and ridge points per year, of kinds and of lines, their parts."""
    table = []
    for series in available.growing(paper):
        rows = series.rows
        years = f"{rows.year.min():.0f}–{rows.year.max():.0f}"
        fits = [series.growth(column) for column in ("peak_flop_per_s", "bandwidth_byte_per_s", "ridge_flop_per_byte")]
        growths = [change(found.rate, found.low, found.high) for found in fits]
        name = f"{series.name}, of the {series.whole}" if series.whole else series.name
        table.append([name, str(len(rows)), years, *growths])
    return pipe("Chips | n > | Years | Peak > | Bandwidth > | Ridge point >", table)
