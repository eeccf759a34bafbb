"""Tables of chips: the arithmetic of three peaks, the chips of the figure, and in the HTML every rate."""

import re
from math import prod
from typing import Any

import pandas as pd

from measure.domain.values import SPACE, significant
from report import display
from report.chapters.chips.facts import labelled, promised
from report.markdown import escape, rate_unit, si
from report.markdown_table import NONE, cited, known, markdown_table
from report.paper import BASE_PRECISION, Paper, chips
from report.paper.frames import each, matching

EXAMPLES = (("Intel Xeon Platinum 8380", "fp32"), ("NVIDIA T4", "fp16"), ("Apple M2 GPU (10 cores)", "fp32"))
FACTORS = r"^\d+ .+ x .+ GHz"  # a derivation by units and clock; others halve a printed rate


def _marked(row: Any, rate: str) -> str:
    return rate + ("" if row.verified == "yes" else f"{SPACE}\\*")


def _bandwidth(row: Any, inside: bool) -> str:
    return si(row.bandwidth_byte_per_s, "B/s") + (f"{SPACE}†" if inside else "")


def _derived(text: str) -> str:
    """Return the text of a derivation. A number and its unit stay on one line."""
    return escape(re.sub(r"(?<=\d) (?=[A-Za-zµ])", SPACE, text.replace(" x ", " × ")))


def _product(factors: str, peak: float) -> str:
    return _derived(f"{factors} = ".replace(" (base)", "") if factors else "") + si(peak, "FLOP/s")


@display.table
def peaks(paper: Paper) -> str:
    derived = paper.chips[paper.chips.derivation.str.contains(FACTORS)]
    examples = pd.concat([matching(derived, chip=chip, precision=precision) for chip, precision in EXAMPLES])
    rows = []
    for row in each(derived.drop_duplicates("chip").head(len(EXAMPLES)) if examples.empty else examples):
        factors, flow = (re.split(r" = | \((?!base)", part)[0] for part in f"{row.derivation};".split(";")[:2])
        product = prod(float(factor.split()[0]) for factor in factors.split(" x ")) * 1e9
        bandwidth = _derived(f"{flow} = " if flow else "") + si(row.bandwidth_byte_per_s, "B/s")
        ridge = significant(row.ridge_flop_per_byte)
        rows.append([f"{escape(row.chip)}, {row.precision}", _product(factors, product), bandwidth, ridge])
    machine = paper.at_hand
    peak, arithmetic = promised(paper, machine) if machine else (None, "")
    roof = machine.roof(BASE_PRECISION) if machine else None
    if machine and peak and roof:
        flow = f"measured: {si(roof.bandwidth_byte_per_s, 'B/s')}"
        ridge = significant(peak / roof.bandwidth_byte_per_s)
        rows.append([f"{escape(machine.name)}, {BASE_PRECISION}", _product(arithmetic, peak), flow, ridge])
    return markdown_table("Chip | Peak | Bandwidth | Ridge point >", display.required(rows))


@display.table
def labelled_chips(paper: Paper) -> str:
    found = display.required(labelled(paper.chips))
    rows = [
        [
            escape(row.chip), chips.KINDS[row.chip_kind], f"{row.year:.0f}", _marked(row, row.precision),
            si(row.peak_flop_per_s, rate_unit(row.precision)), _bandwidth(row, inside),
            significant(row.ridge_flop_per_byte), cited(row.source.partition(";")[0]),
        ]
        for row, inside in zip(each(found), chips.on_chip(found), strict=True)
    ]  # fmt: skip
    return markdown_table("Chip | Kind | Year | Rate | Dense peak > | Bandwidth > | Ridge > | Source", rows)


@display.table
def rates(paper: Paper) -> str:
    found = display.required(paper.chips)
    repeated = found.duplicated(["chip", "source"])
    has_measured = found.note.str.contains("power is measured max", case=False)  # others have their vendor's limit
    rows = [
        [
            escape(row.chip), f"{row.year:.0f}", _marked(row, f"{row.precision}{SPACE}{row.unit}"),
            si(row.peak_flop_per_s, rate_unit(row.precision)),
            known(row.sparse_peak_flop_per_s, si, rate_unit(row.precision)), _bandwidth(row, inside),
            significant(row.ridge_flop_per_byte), known(row.power_w, si, "W") + (f"{SPACE}‡" if measured else ""),
            _derived(row.derivation) or NONE, "" if again else cited(row.source),
        ]
        for row, inside, measured, again in zip(each(found), chips.on_chip(found), has_measured, repeated, strict=True)
    ]  # fmt: skip
    header = "Chip | Year | Rate | Dense > | Sparse > | Bandwidth > | Ridge > | Power > | Derivation | Sources"
    return markdown_table(header, rows)
