"""The tables of counters, in Markdown: functions from the paper's frames to a pipe table, or to a sentence."""

from typing import Any

import pandas as pd

from report.analysis import available
from report.analysis.available import or_missing
from report.load import counting_programs
from report.load.paper import Paper
from report.tables.pipe import LEFT, NONE, RIGHT, pipe
from report.text.frame_rows import each, highest, lowest
from report.text.prose import escape
from report.text.quantities import percent, si


def _farthest(row: Any) -> str:
    return f"{counting_programs.signed(row.deviation)} ({escape(row.model)})"


@or_missing
def accuracy(paper: Paper) -> str:
    """Of how many models each counter is right, and how far it is off at most."""
    results = available.counted(paper)
    cells = []
    for row in each(counting_programs.scores(results)):
        own = results[(results.counter == row.counter) & results.deviation.notna()]
        same = NONE if pd.isna(row.same_parameters) else f"{row.same_parameters:.0f}"
        ends = [NONE, NONE] if own.empty else [_farthest(end(own, "deviation")) for end in (lowest, highest)]
        counts = [row.right, row.equal, same, row.models - row.counted]
        cells.append([escape(counting_programs.name(row.counter)), *map(str, counts), *ends])
    header = [
        ("Counter", LEFT),
        (f"Within {percent(counting_programs.TOLERANCE, 1)}", RIGHT),
        ("Equal", RIGHT),
        ("Parameters", RIGHT),
    ]
    return pipe([*header, ("Failed", RIGHT), ("Lowest", LEFT), ("Highest", LEFT)], cells)


@or_missing
def effort(paper: Paper) -> str:
    """The version of each counter, the time that it took and the memory that its process held."""
    cells = [
        [
            escape(counting_programs.name(row.counter)), NONE if pd.isna(row.version) else escape(row.version),
            *(NONE if pd.isna(time) else si(time, "s") for time in (row.count_s, row.build_s)),
            NONE if pd.isna(row.peak_byte) else si(row.peak_byte, "B"),
        ]
        for row in each(counting_programs.scores(available.counted(paper)))
    ]  # fmt: skip
    header = [("Counter", LEFT), ("Version", LEFT), ("Counting", RIGHT), ("Building", RIGHT)]
    return pipe([*header, ("Peak memory", RIGHT)], cells)
