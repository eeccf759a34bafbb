"""Which layers a training step's time, FLOP and memory go to."""

import pandas as pd

from measure.cache.records import BACKWARD, FORWARD
from report.analysis import available, layer_costs
from report.analysis.available import finding
from report.analysis.layer_costs import QUANTITIES
from report.charts.theme import OUTSIDE
from report.load.paper import Machine, Paper
from report.text.frame_rows import highest
from report.text.quantities import listing, number, percent


@finding
def dominant(paper: Paper) -> str:
    """Which kind of layer is largest in each quantity, and how far time goes where the FLOP do not."""

    def part(of: Machine) -> str:
        rows = layer_costs.of_kinds(paper, of)
        first = layer_costs.most_costly(rows)
        told = []
        for quantity, name in QUANTITIES.items():
            stages = [
                f"{kind} ({count}, {percent(share)}) {stage}"
                for stage in (FORWARD, BACKWARD)
                for kind, count, share in [first[quantity, stage]]
            ]
            told.append(f"for {name} {listing(stages)}")
        return (
            f"On the {available.title(of)}, the kind of layer whose share is the largest in most models, with the "
            f"number of these models out of {rows.model.nunique()} and its median share in them, is {'; '.join(told)}. "
            f"{apart(rows)}"
        )

    return available.told_of_each(paper, part)


def apart(rows: pd.DataFrame) -> str:
    """The kind that takes most time beside its share of the FLOP, and where that is largest."""
    rows = rows[rows.kind != OUTSIDE]
    both = rows.assign(
        time_share=layer_costs.shares(rows, "time_s"), flop_share=layer_costs.shares(rows, "flop")
    )
    most = highest(both.assign(apart=both.time_share - both.flop_share), "apart")
    return (
        f"Time and FLOP part most in the {most.stage} pass of {most.model}, whose {most.kind} layers take "
        f"{percent(most.time_share)} of the layers' time for {percent(most.flop_share)} of the FLOP."
    )


@finding
def remainders(paper: Paper) -> str:
    """What the stages take outside the layers."""

    def part(of: Machine) -> str:
        rows = layer_costs.of_kinds(paper, of)
        rows = rows.assign(share=layer_costs.shares(rows, "time_s"))
        rest = rows[rows.kind == OUTSIDE]
        told = []
        for stage in (FORWARD, BACKWARD):
            own = rest[rest.stage == stage]
            most = highest(own.assign(size=own.share.abs()), "size")
            median, largest = (percent(value).replace("-", "−") for value in (own.share.median(), most.share))
            told.append(
                f"{median} of the {stage} pass in the median of {number(len(own), 'model')}, at the extreme "
                f"{largest} ({most.model})"
            )
        return f"On the {available.title(of)}, what is {OUTSIDE} is {listing(told)}."

    return available.told_of_each(paper, part)


@finding
def pictured(paper: Paper) -> str:
    """Whose layers the figures that show one machine are of."""
    machine, rows = layer_costs.of_shown(paper, layer_costs.of_kinds)
    return (
        f"The pies, and the layers one by one, are those of steps on the {available.title(machine)} at batch size "
        f"{rows.batch.iloc[0]}."
    )


@finding
def single(paper: Paper) -> str:
    """The single layers that cost most."""

    def part(of: Machine) -> str:
        layers = layer_costs.of_layers(paper, of)
        time_s = layers.forward_time_s + layers.backward_time_s
        share = time_s / time_s.groupby(layers.model).transform("sum")
        ranked = layers.assign(share=share).sort_values("share", ascending=False)
        first = ranked.drop_duplicates("model")
        half = ranked.groupby("model").share.apply(lambda own: int((own.cumsum() < 0.5).sum()) + 1)
        most = first.iloc[0]
        return (
            f"On the {available.title(of)}, one layer takes at most {percent(most.share)} of the time of all layers "
            f"({most.path} of {most.model}, {most.kind}); in the median of {number(len(first), 'model')} the heaviest "
            f"layer takes {percent(first.share.median())}, and half the time is that of "
            f"{number(round(half.median()), 'layer')} out of {round(layers.groupby('model').size().median())}."
        )

    return available.told_of_each(paper, part)
