"""The tables of the chapter on training."""

from typing import Any

import pandas as pd

from measure.domain.models import STORY
from measure.domain.names import model_name
from report import display, options
from report.chapters.training import costs
from report.chapters.training.figures import STEPS, with_names
from report.markdown import escape
from report.markdown_table import NONE, markdown_table
from report.paper import Paper
from report.paper.frames import each, spread
from report.stats.value import estimated, exact, median_of

CHOSEN = (*STORY, "resnet50", "vit_b_16")


@display.table
def ratios(paper: Paper) -> str:
    """List backward over forward on every device and precision: of four networks, and medians over the shared ones."""
    rows = display.required(costs.comparable(costs.everywhere(paper)), options.measure_command(STEPS))
    shared = costs.shared(rows)
    columns = costs.pick(shared.model if len(shared) else rows.model, CHOSEN)
    flop = rows.drop_duplicates("model").set_index("model").flop_ratio.astype(float)
    common = flop[list(dict.fromkeys(shared.model))]
    typical = common.median()
    lines = [
        ["*FLOP*", NONE, NONE, NONE, *map(exact, flop[columns]), exact(typical), _range(common), exact(1 + typical)]
    ]
    for (device, precision, batch), own in rows.groupby(costs.COLUMN, sort=False):
        both = shared[(shared[costs.COLUMN] == [device, precision, batch]).all(axis=1)]
        cells = (_ratio(own.set_index("model"), model) for model in columns)
        ends = (exact(both.time_ratio.median()), _range(both.time_ratio), exact(both.over.median()))
        rounds = "–".join(dict.fromkeys(f"{end:.0f}" for end in (own.rounds.min(), own.rounds.max())))
        lines.append([escape(str(device)), precision, batch, rounds, *cells, *ends])
    header = " | ".join(f"{escape(model_name(model))} >" for model in columns)
    return markdown_table(f"Device | Precision | Batch > | Rounds > | {header} | Median > | Range > | Step >", lines)


def _range(ratios: pd.Series) -> str:
    return f"{ratios.min():#.2g}–{ratios.max():#.2g}" if len(ratios) else NONE


def _ratio(own: pd.DataFrame, model: Any) -> str:
    return str(estimated(own.loc[model], "time_ratio")) if model in own.index else NONE


@display.table
def all_ratios(paper: Paper) -> str:
    """List backward over forward of networks at every batch size on every device and precision."""
    rows = display.required(costs.everywhere(paper), options.measure_command(STEPS))
    cells = {key: own.set_index("model") for key, own in rows.groupby(costs.COLUMN, sort=False)}
    flop = rows.groupby("model").flop_ratio.median()
    networks = flop.to_frame().assign(name=flop.index.map(model_name)).sort_values("name")
    lines = [
        [escape(row.name), exact(row.flop_ratio), *(_ratio(own, row.Index) for own in cells.values())]
        for row in each(spread(networks, display.LISTED))
    ]
    lines.append(
        ["*Median of its networks*", exact(flop.median()), *(median_of(own.time_ratio) for own in cells.values())]
    )
    lines.append(["*Networks*", len(flop), *map(len, cells.values())])
    names = (f"{escape(str(device))}, {precision}, batch {batch} >" for device, precision, batch in cells)
    return markdown_table(" | ".join(["Network", "FLOP >", *names]), lines)


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
