"""Tables of chips: the arithmetic of some peaks, the chips of the figure, and in the HTML every rate."""

import re
from math import prod
from typing import Any

import pandas as pd

from measure.domain.values import SPACE, significant
from report import display
from report.chapters.chips.facts import has_measured_power, has_own_price, labelled, promised
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


def _power(text: str, is_measured: bool) -> str:
    """Mark power that somebody measured; the vendor's limit has no mark."""
    return text + (f"{SPACE}‡" if is_measured else "")


def _in(unit: float, number: Any) -> str:
    """Return a number in a unit that the head of its column names."""
    return known(number, lambda found: f"{float(significant(found / unit)):,g}")


def _memory(number: Any) -> str:
    """Return a memory as its vendor prints it: some in GiB, most in GB, which a driver may count as GiB too."""
    if pd.isna(number):
        return NONE
    unit, size = ("GB", 1e9) if number % 2**30 or number % 1e9 == 0 else ("GiB", 2**30)
    return f"{_in(size, number)}{SPACE}{unit}"


def _price(row: Any, own: bool) -> str:
    """Return the list price; a mark for an estimate and for the price of a whole device."""
    return known(row.price_usd, "{:,.0f}".format) + ("" if own or pd.isna(row.price_usd) else f"{SPACE}§")


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
            escape(row.short), chips.KINDS[row.chip_kind], f"{row.year:.0f}", _marked(row, row.precision),
            _in(1e12, row.peak_flop_per_s), _in(1e9, row.bandwidth_byte_per_s) + (f"{SPACE}†" if inside else ""),
            significant(row.ridge_flop_per_byte), _memory(row.memory_byte),
            _power(_in(1, row.power_w), measured), _price(row, own), cited(row.source.partition(";")[0]),
        ]
        for row, inside, measured, own in zip(
            each(found), chips.on_chip(found), has_measured_power(found), has_own_price(found), strict=True
        )
    ]  # fmt: skip
    header = "Chip | Kind | Year | Rate | TFLOP/s > | GB/s > | FLOP/B > | Memory > | W > | USD > | Source"
    return markdown_table(header, rows)


@display.table
def rates(paper: Paper) -> str:
    found = display.required(paper.chips)
    repeated = found.duplicated(["chip", "source"])
    rows = [
        [
            escape(row.chip), f"{row.year:.0f}", _marked(row, f"{row.precision}{SPACE}{row.unit}"),
            si(row.peak_flop_per_s, rate_unit(row.precision)),
            known(row.sparse_peak_flop_per_s, si, rate_unit(row.precision)), _bandwidth(row, inside),
            significant(row.ridge_flop_per_byte), _memory(row.memory_byte),
            _power(known(row.power_w, si, "W"), measured), _price(row, own), _derived(row.derivation) or NONE,
            "" if again else cited(row.source),
        ]
        for row, inside, measured, own, again in zip(
            each(found), chips.on_chip(found), has_measured_power(found), has_own_price(found), repeated, strict=True
        )
    ]  # fmt: skip
    rates = "Rate | Dense > | Sparse > | Bandwidth > | Ridge >"
    header = f"Chip | Year | {rates} | Memory > | Power > | USD > | Derivation | Sources"
    return markdown_table(header, rows)
