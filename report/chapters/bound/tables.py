"""The tables of the chapter on the bound."""

from report import display
from report.markdown import escape
from report.markdown_table import markdown_table
from report.paper import Paper, published
from report.paper.chips import short_name
from report.paper.published import SOURCE, share, typical


@display.table
def devices(paper: Paper) -> str:
    """List GPUs with the shares of three bounds that networks reach in eager mode."""
    rows = [
        (
            escape(short_name(each.device)), each.computed, each.rows.model.nunique(),
            typical(each.rows.peak_share, each.rows.model, "%").interval,
            share(each.rows, "whole_s").interval, share(each.rows, "layers_s").interval,
        )
        for each in published.by_device(paper.published)
    ]  # fmt: skip
    header = "Device | Precision | Networks > | Peak > | Whole network > | Layer by layer >"
    return markdown_table(header, display.required(rows, SOURCE.command))
