"""The tables of the chapter on causes."""

from report import display
from report.markdown import escape, percent, si
from report.markdown_table import NONE, known, markdown_table
from report.paper import Paper, operator_groups
from report.paper.chips import roof_of, short_name
from report.paper.published import SOURCE
from report.paper.roofs import with_cache


@display.table
def traces(paper: Paper) -> str:
    """List the traces, imported or measured here: the time of a step and its longest kind of layer."""
    rows, machines = [], {f"machines/{machine.folder}": machine for machine in paper.machines}
    for trace in paper.traces:
        roof, machine = roof_of(paper.chips, trace.devices[0].chip), machines.get(trace.devices[0].source or "")
        if roof and machine:
            roof = with_cache(roof, machine.caches, machine.levels)
        parts = operator_groups.traced(trace.operators, roof)
        total_s, span_s = parts.time_s.sum(), sum(step.span_s for step in trace.steps)
        if not total_s or not span_s:  # nothing ran in its steps
            continue
        first, longest = trace.devices[0], parts.iloc[0]
        rows.append([
            escape(first.network or NONE), escape(short_name(first.chip or first.device_name or NONE)),
            si(span_s / len(trace.steps), "s"), percent(1 - sum(step.busy_s for step in trace.steps) / span_s),
            percent(1 - parts.uncounted_s.sum() / total_s), longest.kind, percent(longest.share),
            known(longest.roof_share, percent),
        ])  # fmt: skip
    header = "Network | Chip | On the GPU > | Idle > | Counted > | Longest | Of the time > | Of the roof >"
    return markdown_table(header, display.required(rows, SOURCE.command))
