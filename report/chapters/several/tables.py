"""The tables of the chapter on several GPUs."""

from typing import Any

from measure.domain.groups import OVERSUBSCRIBED
from measure.domain.names import model_name
from report import display
from report.chapters.several import here, timed
from report.markdown import escape, percent, si
from report.markdown_table import known, markdown_table
from report.options import measure_command
from report.paper import Paper
from report.paper.chips import short_name
from report.paper.frames import each
from report.stats.value import estimated


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


@display.table
def steps(paper: Paper) -> str:
    """List the data-parallel steps of each machine: with the exchange of gradients, without it, and the ratio."""
    found = [(machine, machine.data_parallel_steps) for machine in paper.machines]
    display.required([rows for _, rows in found if len(rows)], measure_command(here.COMMAND))
    lines = [
        (
            escape(machine.name), escape(model_name(row.model)), row.batch, row.precision, _processes(row),
            si(row.gradient_byte, "B"), estimated(row, "latency_s", "s").interval,
            estimated(row, "alone_latency_s", "s").interval, estimated(row, "ratio").interval,
        )
        for machine, rows in found for row in each(rows)
    ]  # fmt: skip
    header = "Machine | Network | Batch > | Precision | Processes | Gradients > | Step > | Without exchange > | Ratio >"
    return markdown_table(header, lines)


def _processes(row: Any) -> str:
    return f"{row.processes} ({row.backend}{', more than cores' if OVERSUBSCRIBED in row.flags else ''})"
