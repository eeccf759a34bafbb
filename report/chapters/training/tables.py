"""The tables of the chapter on training."""

from measure.domain.names import model_name
from report import display
from report.chapters.training import costs
from report.chapters.training.figures import STEPS, known
from report.markdown import escape, percent, si
from report.paper import Paper
from report.paper.frames import each, spread
from report.pipe import NONE, pipe
from report.pipe import known as if_known
from report.stats.value import estimated, exact


@display.table
def ratios(paper: Paper) -> str:
    rows = known(costs.steps(paper.at_hand), STEPS).sort_values("time_ratio", ascending=False)
    causes = costs.causes(paper, paper.at_hand)
    lines = [
        [
            escape(row.network), row.batch, si(row.forward_s, "s"), si(row.backward_s, "s"),
            estimated(row, "time_ratio").interval, exact(row.flop_ratio), if_known(row.forward_peak_share, percent),
            if_known(row.backward_peak_share, percent), NONE if row.agrees else causes.get(row.model, NONE),
        ]
        for row in each(spread(rows.assign(agrees=costs.agreeing(rows)), display.LISTED))
    ]  # fmt: skip
    header = "Network | Batch > | Forward > | Backward > | Ratio in time > | In FLOP > | Of peak, forward > "
    return pipe(header + "| Of peak, backward > | Farthest off", lines)


@display.table
def steps(paper: Paper) -> str:
    machine = paper.at_hand
    rows = known(costs.steps(machine) if machine is None else machine.steps, STEPS)
    lines = [
        [
            escape(model_name(row.model)), row.batch, row.precision, estimated(row, "latency_s", "s").interval,
            exact(row.flop_bound_s, "s"), exact(row.operator_bound_s, "s"),
            exact(row.latency_s / row.operator_bound_s), exact(row.peak_byte, "B"), exact(row.training_peak_byte, "B"),
        ]
        for row in each(spread(rows.sort_values(["batch", "model"]), display.LISTED))
    ]  # fmt: skip
    header = "Network | Batch > | Precision | Step > | FLOP at peak > | Layer by layer > | Step over it > | Peak > "
    return pipe(header + "| Counted >", lines)
