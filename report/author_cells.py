"""Outputs of an author's own cells, in both engines."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import altair as alt
import pandas as pd

from report.charts.drawing import converted
from report.display import Display
from report.engine.project import PICTURES
from report.engine.source import included
from report.files import read_text
from report.markdown import escape, quoted
from report.markdown_table import markdown_table
from report.new_paper import OWN_FILES


def register() -> None:
    """Show data frames and Altair's charts as Markdown only. Pictures, also matplotlib's, need nothing.

    Quarto would choose the HTML of both, with an index, years as 2022.0, and scripts from other sites.
    """
    from IPython.core.getipython import get_ipython

    shell = get_ipython()
    if shell is None:
        return
    bundle = shell.display_formatter.mimebundle_formatter
    bundle.for_type(pd.DataFrame, lambda frame, **_: {"text/markdown": table(frame).markdown})
    shell.display_formatter.formatters["text/html"].for_type(pd.DataFrame, lambda _: None)
    bundle.for_type(alt.TopLevelMixin, lambda chart, **_: {"text/markdown": vega_lite(chart.to_dict()).markdown})


def vega_lite(specification: dict[str, Any], alternative_text: str = "") -> Display:
    """Show a specification of Vega-Lite with its data as a picture."""
    drawn: str = converted(specification, "svg")
    digest = hashlib.blake2b(json.dumps(specification, default=str).encode(), digest_size=8).hexdigest()
    PICTURES.mkdir(exist_ok=True)
    path = PICTURES / f"own-{digest}.svg"
    path.write_text(drawn, "utf-8")
    text = alternative_text or specification.get("description") or "a chart"
    return Display(f"![]({path.as_posix()}){{fig-alt={quoted(text)}}}")


def table(frame: pd.DataFrame) -> Display:
    """Show a data frame without its index, numbers aligned to the right."""
    rows = [
        [escape(f"{cell:.6g}" if isinstance(cell, float) else str(cell)) for cell in row]
        for row in frame.itertuples(index=False)
    ]
    are_numbers = [pd.api.types.is_numeric_dtype(kind) for kind in frame.dtypes]
    names = [escape(str(name)) + " >" * is_number for name, is_number in zip(frame.columns, are_numbers, strict=True)]
    return Display(markdown_table(" | ".join(names), rows))


def colophon() -> Display:
    """Name the author's own sections. Runs in the folder of the assembled paper."""
    theirs = set(read_text(Path(OWN_FILES)).splitlines())
    files = [file for line in read_text(Path("index.qmd")).split("\n") if (file := included(line)) in theirs]
    titles = [heading[1] for file in files if (heading := re.search(r"(?m)^# (.+?)( \{.*\})?$", read_text(Path(file))))]
    wrote = f"The author wrote {', '.join(escape(title) for title in titles)}. " if titles else ""
    return Display(f"{wrote}All other sections come with Roofwright, which computes their numbers.")
