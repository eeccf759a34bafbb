"""Printed figures and ours, row by row."""

from report import display
from report.chapters.published import comparisons
from report.chapters.published.comparisons import VERDICTS
from report.markdown import escape
from report.paper import Paper
from report.pipe import cited, pipe
from report.stats.summary import exact


@display.table
def held(paper: Paper, table: str) -> str:
    """List the figures of a table of ``data/published``."""
    rows = [
        [
            cited(each.study), escape(each.subject), escape(each.quantity), exact(each.printed, each.unit),
            each.ours.interval if each.ours.low else each.ours, VERDICTS[each.verdict],
        ]
        for each in display.required(comparisons.of(paper.reference)[table])
    ]  # fmt: skip
    return pipe("Study | Chip or network | Quantity | Printed > | Ours > | Printed is", rows, of="Study")
