"""Tables of what others measured: the devices with their shares of the roof, and what contradicts itself."""

import numpy as np
import pandas as pd

from measure.domain.values import significant
from report.analysis import elsewhere
from report.analysis.available import or_missing
from report.engine import columns
from report.load.paper import Paper
from report.tables.pipe import NONE, cited, pipe
from report.text.frame_rows import highest
from report.text.prose import escape, percent

AGREES = 0.05
"""A rate times its time is the batch size, but for this share."""


@or_missing
def devices(paper: Paper) -> str:
    """List each device at the precision of most models, with their shares; and its highest share at any precision."""
    rows = elsewhere.fastest(elsewhere.counted(paper))
    lines = []
    for device, computed in elsewhere.most_models(rows):
        found = rows[(rows.device == device) & (rows.computed == computed)]
        best = highest(rows[rows.device == device], "peak_share")
        lines.append(
            [
                escape(device), computed, str(found.model.nunique()), percent(found.attained.median()),
                percent(found.peak_share.median()), percent(best.peak_share, 3),
                _breakable(f"{best.model} ({best.computed}, {best.batch})"), _cited(found),
            ]
        )  # fmt: skip
    return pipe("Device | Precision | Models > | Of roof > | Of peak > | Highest > | By | Source", lines)


@or_missing
def contradictions(paper: Paper) -> str:
    """Count by source and device the rows whose printed rate and time do not multiply to their batch size."""
    rows = elsewhere.timings(paper)
    printed = rows[rows.throughput_per_s.notna()]
    ratio = printed.throughput_per_s * printed.printed_latency_s / printed.batch
    wrong = printed.assign(ratio=ratio)[(ratio - 1).abs() > AGREES]
    lines = [
        [
            cited(str(source)), escape(str(device)), str(len(found)), str(len(printed[(printed.source == source)
            & (printed.device == device)])), f"{significant(found.ratio.min())} to {significant(found.ratio.max())}",
            _farthest(found),
        ]
        for (source, device), found in wrong.groupby(["source", "device"])
    ]  # fmt: skip
    header = "Source | Device | Contradict themselves > | Of > | Rate × time over batch > | Farthest from 1"
    return pipe(header, lines or [[NONE] * 6])


def _breakable(text: str) -> str:
    """Return a text as a cell that may break where timm's long names have a dash: other columns need room, too."""
    return escape(text).replace("_", "_" + columns.BREAK)


def _cited(rows: pd.DataFrame) -> str:
    """Return the sources of rows as a citation."""
    return cited(";".join(sorted(set(rows.source))))


def _farthest(rows: pd.DataFrame) -> str:
    """Name the row whose rate times its time is farthest from its batch size."""
    worst = highest(rows.assign(off=np.abs(np.log(rows.ratio))), "off")
    return escape(f"{worst.model} at {worst.batch}, {worst.computed}, {worst.file}")
