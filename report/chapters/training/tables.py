"""The table of the chapter on training."""

from measure.domain.names import model_name
from report import display
from report.chapters.training import costs
from report.chapters.training.figures import STEPS, with_names
from report.markdown import escape
from report.markdown_table import markdown_table
from report.paper import Paper
from report.paper.frames import each, spread
from report.stats.value import estimated, exact


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
