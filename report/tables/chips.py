"""The tables of chips, in Markdown: functions from the paper's frames to a pipe table, or to a sentence."""

from typing import Any

import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.analysis.growth import Growth, fit
from report.load import chips
from report.load.paper import Paper
from report.tables.pipe import LEFT, NONE, RIGHT, cited, pipe
from report.text.frame_rows import each
from report.text.prose import escape
from report.text.quantities import SPACE, change, rate_unit, si, significant


def _rate(row: Any) -> str:
    """Precision and unit, marked where an input of the roof was not confirmed."""
    return f"{row.precision}{SPACE}{row.unit}" + ("" if row.verified == "yes" else f"{SPACE}\\*")


def _bandwidths(rows: pd.DataFrame) -> list[str]:
    """Bandwidths, marked where they are those of memory on the chip."""
    told = [si(value, "B/s") for value in rows.bandwidth_byte_per_s]
    return [
        text + (f"{SPACE}†" if inside else "") for text, inside in zip(told, chips.on_chip(rows), strict=True)
    ]


def _powers(rows: pd.DataFrame) -> list[str]:
    """Powers, marked where they were measured."""
    told = [NONE if pd.isna(value) else si(value, "W") for value in rows.power_w]
    return [
        text + (f"{SPACE}‡" if met else "")
        for text, met in zip(told, chips.measured_power(rows), strict=True)
    ]


def _unrepeated(cells: list[list[str]], columns: set[int]) -> list[list[str]]:
    """The cells; in these columns, those that repeat the row above, which begins alike, are left empty."""
    return [
        [
            "" if row[0] == above[0] and at in columns and text == above[at] else text
            for at, text in enumerate(row)
        ]
        for above, row in zip([[""], *cells], cells, strict=False)
    ]


@or_missing
def fastest(paper: Paper, count: int = 3) -> str:
    """Of each kind, the chips with the highest dense peaks at the precision that its figure shows."""
    available.chips(paper)
    shown = pd.concat([chips.comparable(paper.chips, kind)[0].head(count) for kind in chips.KINDS])
    cells = [
        [
            escape(row.chip), _rate(row), si(row.peak_flop_per_s, rate_unit(row.precision)), bandwidth,
            significant(row.ridge_flop_per_byte), cited(row.source),
        ]
        for row, bandwidth in zip(each(shown), _bandwidths(shown), strict=True)
    ]  # fmt: skip
    header = [("Chip", LEFT), ("Rate", LEFT), ("Dense peak", RIGHT), ("Bandwidth", RIGHT)]
    return pipe([*header, ("Ridge point", RIGHT), ("Sources", LEFT)], cells)


@or_missing
def rates(paper: Paper, kind: str) -> str:
    """All rates of a kind's chips; what is the same for several of a chip's rates stands beside the first."""
    rows = available.chips(paper, kind)
    cells = [
        [
            escape(row.chip), f"{row.year:.0f}", _rate(row), si(row.peak_flop_per_s, rate_unit(row.precision)),
            NONE if pd.isna(row.sparse_peak_flop_per_s) else si(row.sparse_peak_flop_per_s, rate_unit(row.precision)),
            bandwidth, significant(row.ridge_flop_per_byte), power, cited(row.source),
        ]
        for row, bandwidth, power in zip(each(rows), _bandwidths(rows), _powers(rows), strict=True)
    ]  # fmt: skip
    header = [("Chip", LEFT), ("Year", LEFT), ("Rate", LEFT), ("Dense peak", RIGHT), ("Sparse peak", RIGHT)]
    header += [("Bandwidth", RIGHT), ("Ridge point", RIGHT), ("Power", RIGHT), ("Sources", LEFT)]
    return pipe(header, _unrepeated(cells, {0, 1, 5, 7, 8}))


@or_missing
def derivations(paper: Paper) -> str:
    """The arithmetic behind the peaks and bandwidths of CPUs."""
    rows = available.chips(paper, "cpu")
    rows = rows[rows.derivation != ""]
    if rows.empty:
        raise available.DataMissingError(
            "No peak of a CPU in data/chips.csv has a derivation; fill its column derivation, or restore it."
        )
    cells = []
    for row in each(rows):
        peak, _, bandwidth = row.derivation.replace(" x ", " × ").partition("; ")
        told = si(row.peak_flop_per_s, rate_unit(row.precision))
        cells.append([escape(row.chip), _rate(row), escape(peak), told, escape(bandwidth) or NONE])
    header = [("Chip", LEFT), ("Rate", LEFT), ("Derivation of the peak", LEFT), ("Dense peak", RIGHT)]
    return pipe([*header, ("Derivation of the bandwidth", LEFT)], _unrepeated(cells, {0, 4}))


@or_missing
def growth(paper: Paper) -> str:
    """Growth of peaks, bandwidths and ridge points per year, of kinds and of lines of products."""
    cells = []
    for series in available.growing(paper):
        rows = series.rows
        years = f"{rows.year.min():.0f}–{rows.year.max():.0f}"
        fits = [
            _growth(fit(rows.year.tolist(), rows[column].tolist()))
            for column in ("peak_flop_per_s", "bandwidth_byte_per_s", "ridge_flop_per_byte")
        ]
        cells.append([series.name, str(len(rows)), years, *fits])
    header = [("Chips", LEFT), ("n", RIGHT), ("Years", LEFT)]
    header += [("Peak", RIGHT), ("Bandwidth", RIGHT), ("Ridge point", RIGHT)]
    return pipe(header, cells)


def _growth(growth: Growth) -> str:
    return change(growth.rate, growth.low, growth.high)
