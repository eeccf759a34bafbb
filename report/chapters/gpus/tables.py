"""The tables of the chapter on GPUs that others timed."""

import pandas as pd

from report import display
from report.chapters.gpus.facts import changes, halved
from report.markdown import escape, percent
from report.paper import Paper
from report.paper.rows import each as rows_of
from report.pipe import NONE, pipe
from report.stats import published
from report.stats.published import SOURCE, share, short_name, typical
from report.stats.summary import exact


@display.table
def devices(paper: Paper) -> str:
    """A row is a GPU, with the shares of three bounds that networks reach on it in eager mode."""
    rows = [
        (
            escape(short_name(each.device)), each.computed, each.rows.model.nunique(),
            *(value.interval for value in (
                typical(each.rows.peak_share, each.rows.model, "%"), share(each.rows, "whole_s"),
                share(each.rows, "layers_s"),
            )),
        )
        for each in published.by_device(paper)
    ]  # fmt: skip
    header = "Device | Precision | Networks > | Peak > | Whole network > | Layer by layer >"
    return pipe(header, display.required(rows, SOURCE.command))


@display.table
def gains(paper: Paper) -> str:
    """A row is a change, with the gain of networks and what the rooflines promise."""
    rows = [
        (
            escape(each.name), each.networks, exact(each.speed), f"{exact(each.low)}–{exact(each.high)}",
            percent(each.slower),
            *(NONE if pd.isna(value) else exact(value) for value in (each.whole, each.layers)),
        )
        for each in rows_of(pd.concat([changes(paper), halved(paper)]))
    ]  # fmt: skip
    header = "Change | Networks > | Times as fast > | Eight in ten > | Slower > | Whole > | Layers >"
    return pipe(header, display.required(rows, SOURCE.command))
