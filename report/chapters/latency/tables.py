"""The table of all latencies."""

from report import display
from report.chapters.latency.timed import COMMAND, timed_gpu, timed_here
from report.markdown import escape
from report.markdown_table import markdown_table
from report.paper import Paper
from report.paper.frames import each, spread
from report.stats.value import estimated, exact


@display.table
def latencies(paper: Paper) -> str:
    timed = display.required(timed_here(paper), COMMAND)
    devices = [found for found in (timed, timed_gpu(paper)) if found]
    cells = {(found.kind, row.model, row.batch): row for found in devices for row in each(found.rows)}
    columns = [(found.kind, batch) for found in devices for batch in found.batches]
    listed = spread(timed.rows.sort_values(["flop", "batch"]).drop_duplicates("model"), display.LISTED)
    rows = [
        (
            escape(row.label), exact(row.flop, "FLOP"), exact(int(row.parameters)),
            *(estimated(cells.get((kind, row.model, batch)), "latency_s", "s").interval for kind, batch in columns),
        )
        for row in each(listed)
    ]  # fmt: skip
    sizes = " | ".join(f"{kind}, batch {batch} >" for kind, batch in columns)
    return markdown_table(f"Network | FLOP > | Parameters > | {sizes}", rows)
