"""What share of its datasheet a device delivers, by streams and matrix products that others timed."""

import pandas as pd

from report.analysis.available import DataMissingError, at_least_one
from report.analysis.elsewhere import ADD
from report.load.paper import Paper

STREAMS = {"read": "read", "init": "write", "scale": "copy", "triad": "triad"}
"""The streams of gpu-benches by the names that they have here; its stencils reuse what they read."""

CACHES = "gpu-cache"
"""The program that has all multiprocessors read one buffer again and again; gpu-l2-cache prints a part of its set."""


def streams(paper: Paper) -> pd.DataFrame:
    """One row is a stream through a device's memory, by the number of threads that is fastest.

    Its ``share`` is that of the ``printed`` bandwidth. At least one row.
    """
    rows = paper.elsewhere.bandwidths
    rows = rows[(rows.benchmark == "gpu-stream") & rows.stream.isin(STREAMS)]
    rows = rows.assign(stream=rows.stream.map(STREAMS), printed=rows.device.map(_bandwidths(paper)))
    found = (
        rows.dropna(subset="printed").sort_values("byte_per_s", ascending=False).drop_duplicates(["device", "stream"])
    )
    return at_least_one(
        found.assign(share=found.byte_per_s / found.printed),
        DataMissingError(
            f"No stream through the memory of a chip of data/chips.csv was published; restore the table, or {ADD}."
        ),
    )


def products(paper: Paper) -> pd.DataFrame:
    """One row is the fastest matrix product of a device at a precision; its ``share`` is that of the ``printed`` peak.

    At least one row.
    """
    rows = paper.elsewhere.products
    peaks = paper.chips.groupby(["chip", "precision"]).peak_flop_per_s.max()
    printed = [peaks.get(key, float("nan")) for key in zip(rows.device, rows.precision, strict=True)]
    known = rows.assign(printed=printed).dropna(subset="printed")
    return at_least_one(
        known.assign(share=known.flop_per_s / known.printed),
        DataMissingError(f"No matrix product on a chip of data/chips.csv was published; restore the table, or {ADD}."),
    )


def levels(paper: Paper) -> pd.DataFrame:
    """Return the rates at which all units of a device together read a working set again and again; at least one row."""
    rows = paper.elsewhere.bandwidths
    return at_least_one(
        rows[rows.benchmark == CACHES],
        DataMissingError(f"No bandwidth by working set was published; restore the table, or {ADD}."),
    )


def _bandwidths(paper: Paper) -> dict[str, float]:
    return dict(zip(paper.chips.chip, paper.chips.bandwidth_byte_per_s, strict=True))
