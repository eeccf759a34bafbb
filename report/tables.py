"""The tables, in Markdown: functions from the paper's frames to a pipe table, or to the sentence in its place."""

import re
from collections.abc import Sequence

import pandas as pd

from report import available, chips, datasheet
from report.available import or_missing
from report.paper import BASE_PRECISION, Paper
from report.prose import escape
from report.quantities import SPACE, digits_to, intensity, percent, place_of, rate_unit, si, throughput
from report.roofs import ARITHMETIC, STREAMED_BY
from report.rows import each

LEFT, RIGHT = "left", "right"
NONE = "–"
"""Stands in a cell for what is not known or does not apply."""


CITATION = re.compile(r"@[^;\]]+")


def _printed_width(cell: str) -> int:
    """About how many characters a cell takes in print: a citation is an author and a year."""
    return len(CITATION.sub("Author 2000", cell).replace("\\", ""))


def pipe(header: Sequence[tuple[str, str]], rows: Sequence[Sequence[str]]) -> str:
    """A pipe table. ``header`` holds names and alignments; cells are Markdown on one line.

    Columns are as wide as their longest cell or word of the header, up to 24 characters: pandoc shares the width of
    the text among the columns of a long table by the numbers of dashes.
    """
    rules = []
    for at, (name, side) in enumerate(header):
        widths = [len(word) for word in name.split()] + [_printed_width(row[at]) for row in rows]
        dashes = "-" * max(3, min(24, max(widths, default=0)))
        rules.append(":" + dashes if side == LEFT else dashes + ":")
    lines = [[name for name, _ in header], rules, *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def cited(keys: str) -> str:
    """Keys split by ``;`` as a citation."""
    return "[" + "; ".join(f"@{key}" for key in keys.split(";")) + "]"


def quantity(value: float, unit: str, digits: int = 3) -> str:
    """With an SI prefix, but for a ratio, whose unit is "", and an intensity."""
    if unit in ("", "FLOP/B"):
        return intensity(value, unit, digits).rstrip(SPACE)
    return si(value, unit, digits)


def between(low: float, high: float, unit: str, place: int | None = None) -> str:
    """Two quantities, to a place, the unit once where both have the same; a narrow cell may break before the second."""
    first, last = (quantity(value, unit, digits_to(value, place)) for value in (low, high))
    number, _, prefixed = first.partition(SPACE)
    return f"{number if last.endswith(SPACE + prefixed) else first} to {last}"


def with_interval(value: float, low: float, high: float, unit: str) -> list[str]:
    """A quantity and its interval, in two cells, both to the place to which the interval lets it be known."""
    place = place_of(low, high)
    return [quantity(value, unit, digits_to(value, place)), between(low, high, unit, place)]


@or_missing
def measured_roofs(paper: Paper) -> str:
    """The measured roofs of all machines, with their intervals."""
    rows = []
    for machine in available.machines(paper):
        for roof in each(machine.roofs):
            rows.append(
                [
                    escape(available.title(machine)), roof.precision, ARITHMETIC[roof.peak_kernel],
                    *with_interval(
                        roof.peak_flop_per_s, roof.peak_low_flop_per_s, roof.peak_high_flop_per_s, "FLOP/s"
                    ),
                    STREAMED_BY[roof.bandwidth_kernel],
                    *with_interval(
                        roof.bandwidth_byte_per_s, roof.bandwidth_low_byte_per_s, roof.bandwidth_high_byte_per_s,
                        "B/s",
                    ),
                    intensity(roof.peak_flop_per_s / roof.bandwidth_byte_per_s),
                ]
            )  # fmt: skip
    if not rows:
        available.roof(available.machines(paper)[0])
    header = [("Machine", LEFT), ("Precision", LEFT), ("By", LEFT), ("Peak", RIGHT), ("95 % interval", RIGHT)]
    header += [("By", LEFT), ("Bandwidth", RIGHT), ("95 % interval", RIGHT), ("Ridge point", RIGHT)]
    return pipe(header, rows)


@or_missing
def datasheet_roofs(paper: Paper) -> str:
    """The datasheet roofs of all machines beside the share of each peak that was measured."""
    rows = []
    for machine in available.machines(paper):
        for roof in datasheet.roofs(paper, machine):
            measured = machine.roof(roof.precision)
            doubt = "" if roof.confirmed else f"{SPACE}\\*"
            rows.append(
                [
                    escape(available.title(machine)), roof.precision + doubt,
                    escape(roof.derivation), si(roof.peak_flop_per_s, rate_unit(roof.precision)),
                    NONE if roof.bandwidth_byte_per_s is None else si(roof.bandwidth_byte_per_s, "B/s"),
                    percent(measured.peak_flop_per_s / roof.peak_flop_per_s) if measured else NONE,
                    cited(roof.source),
                ]
            )  # fmt: skip
    if not rows:
        gaps = [datasheet.gap(paper, machine, BASE_PRECISION) for machine in available.machines(paper)]
        raise available.DataMissingError(" ".join(gaps))
    header = [
        ("Machine", LEFT),
        ("Precision", LEFT),
        ("Derivation", LEFT),
        ("Peak", RIGHT),
    ]
    header += [("Bandwidth", RIGHT), ("Measured", RIGHT), ("Sources", LEFT)]
    return pipe(header, rows)


@or_missing
def machines(paper: Paper) -> str:
    """The machines, a column each, in their newest environments."""
    shown = available.machines(paper)
    about = [machine.environment for machine in shown]
    properties: list[tuple[str, list[str | None]]] = [
        ("folder", [machine.folder for machine in shown]),
        ("device", [each.device for each in about]),
        ("processor", [datasheet.identity(each) for each in about]),
        ("physical cores", [str(each.physical_cores) if each.physical_cores else None for each in about]),
        ("threads", [str(each.threads) if each.threads else None for each in about]),
        ("memory", [si(each.memory_byte, "B") if each.memory_byte else None for each in about]),
        ("vector units", [each.vector_extension for each in about]),
        ("driver", [each.driver for each in about]),
        ("system", [each.system for each in about]),
        ("Python", [each.python for each in about]),
        ("torch", [each.torch for each in about]),
        ("torchvision", [each.torchvision for each in about]),
        ("torchaudio", [each.torchaudio for each in about]),
        ("tuned by", [each.tuning for each in about]),
        ("environment", [each.environment_id for each in about]),
        ("first seen (UTC)", [each.recorded_at[:16].replace("T", " ") for each in about]),
    ]
    header = [("Property", LEFT), *((escape(available.title(machine)), LEFT) for machine in shown)]
    return pipe(
        header, [[name, *(escape(text) if text else NONE for text in texts)] for name, texts in properties]
    )


def _latency(row: pd.Series) -> list[str]:
    """A cell's median, interval, rounds and samples, or what became of it."""
    if row.status != "ok" or pd.isna(row.latency_s):
        return [
            NONE,
            escape(f"{row.status}: {row.reason}" if row.reason and not pd.isna(row.reason) else row.status),
            NONE,
            NONE,
        ]
    known = (
        [si(row.latency_s, "s"), NONE]
        if pd.isna(row.latency_low_s)
        else with_interval(row.latency_s, row.latency_low_s, row.latency_high_s, "s")
    )
    return [*known, str(int(row.rounds)), str(int(row.sample_count))]


@or_missing
def latencies(paper: Paper) -> str:
    """Latency of every cell of the machines shown, failed cells with their status and reason."""
    available.machines(paper)
    tried = [machine.cells.assign(device=chips.KINDS[machine.kind]) for machine in paper.shown]
    cells = pd.concat(tried, ignore_index=True)
    cells = cells[cells.precision == BASE_PRECISION].sort_values(["device", "model", "batch"])
    if cells.empty:
        available.shown_cells(paper)
    header = [
        ("Device", LEFT),
        ("Model", LEFT),
        ("Batch", RIGHT),
        ("Latency", RIGHT),
        ("95 % interval", RIGHT),
        ("Rounds", RIGHT),
        ("Samples", RIGHT),
    ]
    header += [("Throughput", RIGHT), ("Share of attainable", RIGHT)]
    rows = []
    for row in each(cells):
        rate = NONE if pd.isna(row.throughput_per_s) else throughput(row.throughput_per_s)
        share = NONE if pd.isna(row.attained) else percent(row.attained)
        rows.append([row.device, escape(row.model), str(row.batch), *_latency(row), rate, share])
    return pipe(header, rows)
