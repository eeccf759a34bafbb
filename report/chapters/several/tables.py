"""The table of the chapter on several GPUs."""

from report import display
from report.chapters.several import timed
from report.markdown import escape, percent, si
from report.markdown_table import known, markdown_table
from report.paper import Paper
from report.paper.chips import short_name
from report.paper.frames import each


@display.table
def links(paper: Paper) -> str:
    """List the highest bus bandwidth of all-reduces of eight GPUs beside the datasheet's link, and their shortest."""
    rows = display.required(timed.by_device(paper)).sort_values("bus", ascending=False)
    lines = [
        (
            escape(short_name(str(row.Index))), si(row.bus, "B/s"), known(row.link, si, "B/s"),
            known(row.bus / row.link, percent, 3), si(row.half_byte, "B"), si(row.shortest_s, "s"),
        )
        for row in each(rows)
    ]  # fmt: skip
    return markdown_table("GPU | Bus > | Link > | Share > | Half at > | Shortest >", lines)
