"""The tables of the chapter on training."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from measure.domain.names import model_name
from report import display, options
from report.chapters.training import costs
from report.chapters.training.figures import FEW, STEPS, with_names
from report.markdown import escape
from report.markdown_table import NONE, markdown_table
from report.paper import Paper
from report.paper.frames import each, spread
from report.stats.value import estimated, exact


@display.table
def ratios(paper: Paper) -> str:
    """List backward over forward of networks on every device and precision; the networks of most devices."""
    rows = display.required(costs.everywhere(paper), options.measure_command(STEPS))
    cells = {
        f"{escape(str(device))}, {precision}, batch {batch}": own.set_index("model")
        for (device, precision, batch), own in rows.groupby(["device", "precision", "batch"], sort=False)
    }
    shared = rows.groupby("model").device.count()
    shared = shared[shared > 1] if (shared > 1).any() else shared
    flop = rows.groupby("model").flop_ratio.median()
    networks = spread(flop[shared.index].to_frame().assign(name=shared.index.map(model_name)).sort_values("name"), FEW)
    lines = [
        [escape(row.name), exact(row.flop_ratio), *(_ratio(own, row.Index) for own in cells.values())]
        for row in each(networks)
    ]
    lines += _medians(rows, [*cells.values()])
    return markdown_table(" | ".join(["Network", "FLOP >", *(f"{name} >" for name in cells)]), lines)


def _ratio(own: pd.DataFrame, model: Any) -> str:
    return str(estimated(own.loc[model], "time_ratio")) if model in own.index else NONE


def _medians(rows: pd.DataFrame, cells: list[pd.DataFrame]) -> Iterator[list[Any]]:
    """Yield the last rows of the table of ratios: medians over all networks of a column, and their number."""
    flop = rows.groupby("model").flop_ratio.median()
    yield ["*All networks, median*", exact(flop.median()), *(exact(own.time_ratio.median()) for own in cells)]
    yield ["*Step over forward, median*", exact(1 + flop.median()), *(exact(own.over.median()) for own in cells)]
    yield ["*Networks*", len(flop), *(len(own) for own in cells)]


@display.table
def steps(paper: Paper) -> str:
    machine = paper.at_hand
    rows = with_names(costs.steps(machine) if machine is None else machine.steps, STEPS)
    lines = [
        [
            escape(model_name(row.model)), row.batch, row.precision,
            exact(row.forward_s, "s"), exact(row.backward_s, "s"), estimated(row, "time_ratio").interval,
            exact(row.flop_ratio), estimated(row, "latency_s", "s").interval, exact(row.operator_bound_s, "s"),
            exact(row.peak_byte, "B"), exact(row.training_peak_byte, "B"),
        ]
        for row in each(spread(rows.sort_values(["batch", "model"]), display.LISTED))
    ]  # fmt: skip
    header = "Network | Batch > | Precision | Forward > | Backward > | Ratio in time > | In FLOP > | Step > "
    return markdown_table(header + "| Layer by layer > | Peak > | Counted >", lines)
