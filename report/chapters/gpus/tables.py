"""The tables of the chapter on GPUs that others timed."""

from measure.domain.names import model_name
from report import display
from report.chapters.gpus import energy, host
from report.markdown import escape, percent, si
from report.markdown_table import NONE, known, markdown_table
from report.paper import BASE_PRECISION, Paper, operator_groups, published
from report.paper.chips import roof_of, short_name
from report.paper.published import SOURCE, share, typical
from report.paper.roofs import with_cache
from report.stats.value import Value


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


@display.table
def prices(paper: Paper) -> str:
    """List what a FLOP, a byte between layers and a second cost on each GPU that reports its energy."""
    rows = []
    for machine in energy.machines_with_energy(paper):
        for precision in (BASE_PRECISION, machine.lower_precision):
            fit = energy.fit_of(machine, precision)
            if fit.cells.number:
                costs = [_price(value) for value in (fit.flop, fit.byte, fit.constant)]
                ends = (fit.low, fit.high), (fit.unseen_low, fit.unseen_high)
                ratios = [f"{low.number:.2f}–{high.number:.2f}" for low, high in ends]
                rows.append([escape(machine.name), precision, fit.cells, *costs, *ratios])
    header = "GPU | Precision | Cells > | FLOP > | Byte > | Constant power > | Measured ÷ fitted > | Unseen >"
    return markdown_table(header, display.required(rows, host.COMMAND))


def _price(value: Value) -> str:
    """Print a price with its interval; of one that may be near zero, the upper end."""
    if value.high is not None and (value.is_missing or not value.low):
        return f"≤ {si(value.high, value.unit, 2)}"
    return value.interval


@display.table
def joules(paper: Paper) -> str:
    """List the joules of an image by network, precision and batch size, on the GPU with the most."""
    machine = display.required(next(iter(energy.machines_with_energy(paper)), None), host.COMMAND)
    rows = energy.images(machine)
    sizes = sorted(set(rows.batch))
    columns = [(precision, size) for precision in (BASE_PRECISION, machine.lower_precision) for size in sizes]
    found = rows.set_index(["model", "precision", "batch"]).input_j
    lines = [
        [escape(model_name(model)), *(known(found.get((model, *column)), si, "J", 2) for column in columns)]
        for model in sorted(set(rows.model), key=model_name)
    ]
    header = " | ".join(["Network", *(f"{precision}, {size} >" for precision, size in columns)])
    return markdown_table(header, display.required(lines))
