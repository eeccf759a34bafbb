"""What figures share of the GPU that stands in where none was measured here: its marks, titles and words."""

from typing import Any

import altair as alt
import pandas as pd

from report.analysis.stand_in import StandIn
from report.charts import theme
from report.text.prose import si

OPEN_SQUARES: dict[str, Any] = {"shape": "square", "filled": False, "strokeWidth": 1.3}
"""The look of what others timed, whatever it is of: what was measured here differs in shape by family or batch size."""

TIMING = ["latency", "samples", "timed by"]
"""The columns in which a tooltip tells how long a call took, in place of those of ``report.figures.benchmarks``."""


def title(gpu: StandIn, what: str) -> alt.Title:
    """Return the title of a panel of the GPU, with who timed it."""
    style: dict[str, Any] = {"subtitleFontSize": theme.LABEL_SIZE, "subtitleColor": theme.INK}
    return alt.Title(f"{gpu.device}, {what}", subtitle=f"timed by others ({gpu.source})", **style)


def told(gpu: StandIn | None) -> str:
    """Return the sentence of a description on the GPU's panel, with the space before it; empty without a GPU."""
    return f" A panel of open squares, under the roof of its datasheet, shows {gpu.described}." if gpu else ""


def described(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the columns that charts of cells need (``report.figures.benchmarks.described``): there is no interval."""
    words: dict[str, Any] = {
        "latency": [si(value, "s", 5) for value in cells.latency_s],
        "samples": ["not said" if pd.isna(count) else f"{count:.0f}" for count in cells.samples],
        "timed by": cells.source,
    }
    columns = cells[["model", "device", "family", "batch", "latency_s"]]
    return columns.assign(low=float("nan"), high=float("nan"), sound=False, **words)
