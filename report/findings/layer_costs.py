"""Which layers a training step's time, FLOP and memory go to."""

import pandas as pd

from measure.cache.words import BACKWARD, FORWARD
from report.analysis import available, layer_costs
from report.analysis.available import finding, on_each_machine
from report.analysis.layer_costs import OUTSIDE
from report.load.paper import Machine, Paper
from report.text.frame_rows import highest
from report.text.quantities import listing, number, percent, signed_percent


@on_each_machine
def dominant(paper: Paper, machine: Machine) -> str:
    """Say which kind of layer is largest in each quantity, and how far time goes where the FLOP do not."""
    rows = layer_costs.of_kinds(paper, machine)
    first = layer_costs.most_costly(rows)
    parts = []
    for quantity, name in layer_costs.QUANTITIES.items():
        stages = []
        for stage in (FORWARD, BACKWARD):
            kind, count, share = first[quantity, stage]
            stages.append(f"{kind} ({count}, {percent(share)}) {stage}")
        parts.append(f"for {name} {listing(stages)}")
    return (
        f"On the {available.title(machine)}, the kind of layer whose share is the largest in most models, with the "
        f"number of these models out of {rows.model.nunique()} and its median share in them, is {'; '.join(parts)}. "
        f"{_apart(rows)}"
    )


def _apart(rows: pd.DataFrame) -> str:
    """Hold the kind that takes most time against its share of the FLOP, where that differs most."""
    rows = rows[rows.layer_kind != OUTSIDE]
    time, flop = layer_costs.shares(rows, "time_s"), layer_costs.shares(rows, "flop")
    most = highest(rows.assign(time_share=time, flop_share=flop, apart=time - flop), "apart")
    return (
        f"Time and FLOP part most in the {most.stage} pass of {most.model}, whose {most.layer_kind} layers take "
        f"{percent(most.time_share)} of the layers' time for {percent(most.flop_share)} of the FLOP."
    )


@on_each_machine
def remainders(paper: Paper, machine: Machine) -> str:
    """Say what the stages take outside the layers."""
    rows = layer_costs.of_kinds(paper, machine)
    rows = rows.assign(share=layer_costs.shares(rows, "time_s"))
    parts = []
    for stage in (FORWARD, BACKWARD):
        rest = rows[(rows.layer_kind == OUTSIDE) & (rows.stage == stage)]
        most = highest(rest.assign(size=rest.share.abs()), "size")
        parts.append(
            f"{signed_percent(rest.share.median())} of the {stage} pass in the median of "
            f"{number(len(rest), 'model')}, at the extreme {signed_percent(most.share)} ({most.model})"
        )
    return f"On the {available.title(machine)}, what is {OUTSIDE} is {listing(parts)}."


@finding
def pictured(paper: Paper) -> str:
    """Say whose layers the figures that show one machine are of."""
    machine, rows = layer_costs.of_shown(paper, layer_costs.of_kinds)
    return (
        f"The pies, and the layers one by one, are those of steps on the {available.title(machine)} at batch size "
        f"{rows.batch.iloc[0]}."
    )


@on_each_machine
def single(paper: Paper, machine: Machine) -> str:
    """Name the single layers that cost most."""
    layers = layer_costs.of_layers(paper, machine)
    time_s = layers.forward_time_s + layers.backward_time_s
    share = time_s / time_s.groupby(layers.model).transform("sum")
    ranked = layers.assign(share=share).sort_values("share", ascending=False)
    first = ranked.drop_duplicates("model")
    half = ranked.groupby("model").share.apply(lambda shares: int((shares.cumsum() < 0.5).sum()) + 1)
    most = first.iloc[0]
    return (
        f"On the {available.title(machine)}, one layer takes at most {percent(most.share)} of the time of all layers "
        f"({most.path} of {most.model}, {most.layer_kind}); in the median of {number(len(first), 'model')} the "
        f"heaviest layer takes {percent(first.share.median())}, and half the time is that of "
        f"{number(round(half.median()), 'layer')} out of {round(layers.groupby('model').size().median())}."
    )
