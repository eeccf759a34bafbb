"""The table of all latencies."""

from report import display
from report.chapters.latency.facts import COMMAND, timed_here
from report.markdown import escape
from report.markdown_table import markdown_table
from report.paper import Paper
from report.paper.frames import each, spread
from report.stats.value import estimated, exact


@display.table
def latencies(paper: Paper) -> str:
    timed = display.required(timed_here(paper), COMMAND)
    cells = {(row.model, row.batch): row for row in each(timed.rows)}
    listed = spread(timed.rows.sort_values(["flop", "batch"]).drop_duplicates("model"), display.LISTED)
    rows = [
        (
            escape(row.label), exact(row.flop, "FLOP"), exact(int(row.parameters)),
            *(estimated(cells.get((row.model, batch)), "latency_s", "s").interval for batch in timed.batches),
        )
        for row in each(listed)
    ]  # fmt: skip
    sizes = " | ".join(f"Batch {batch} >" for batch in timed.batches)
    return markdown_table(f"Network | FLOP > | Parameters > | {sizes}", rows)
