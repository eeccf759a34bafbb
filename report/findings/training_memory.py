"""Where the memory of a training step goes, and what frozen layers or a larger batch would change."""

import pandas as pd

from report.analysis import available
from report.analysis.available import finding, missing, on_each_machine
from report.analysis.layer_costs import at_shown_batch
from report.findings.steps import span
from report.load.paper import Machine, Paper
from report.load.steps import update_byte
from report.text.frame_rows import highest, lowest
from report.text.quantities import listing, number, percent, significant

FIXED = ["parameter_byte", "gradient_byte", "momentum_byte"]
"""What a training step keeps whatever its batch size."""


@on_each_machine
def peaks(paper: Paper, machine: Machine) -> str:
    """Hold the peak of memory that was measured against the one counted."""
    rows = at_shown_batch(available.steps(machine))
    rows = rows[rows.peak_byte.notna() & rows.training_peak_byte.notna()]
    where = f"On the {available.title(machine)}"
    if rows.empty:
        return f"{where} the memory of a step was not measured."
    rows = rows.assign(ratio=rows.peak_byte / rows.training_peak_byte)
    return f"{where} the measured peak of memory over the counted one is {span(rows, 'ratio')}."


@finding
def saved(paper: Paper) -> str:
    """Say which kinds of layer keep the activations that the backward pass needs."""
    layers = available.layers(paper, int(available.trained(paper).batch.iloc[0]))
    sums = layers.groupby(["model", "layer_kind"]).saved_byte.sum().astype(float)
    shares = (sums / sums.groupby("model").transform("sum")).unstack(fill_value=0)
    means = shares.mean().sort_values(ascending=False)
    parts = [f"{kind} {percent(share)}" for kind, share in means.items() if share >= 0.05]
    first = shares.idxmax(axis=1).value_counts()
    return (
        f"What is saved for the backward pass is kept, on average of {number(len(shares), 'model')}, for layers of the "
        f"kinds {listing(parts)}; {first.index[0]} layers keep most in {first.iloc[0]} of them."
    )


@finding
def freezing(paper: Paper) -> str:
    """Say what is left of the backward pass where only the last layer that multiplies is trained."""
    rows = available.trained(paper).set_index("model")
    last = last_layers(available.layers(paper, int(rows.batch.iloc[0])))
    rows = rows.loc[rows.index.intersection(last.index)]
    last = last.loc[rows.index]
    # Of its two gradients, each of which costs what its forward pass does, only that of the weights is left.
    backward = last.forward_flop / rows.backward_flop
    step = (rows.forward_flop + last.forward_flop) / (rows.forward_flop + rows.backward_flop)
    kept = input_byte(last) / rows.saved_byte
    weights = last.parameter_byte / rows.parameter_byte
    return (
        f"With all layers frozen but the last that multiplies, {percent(backward.median())} of the backward pass's "
        f"FLOP remain in the median of {number(len(rows), 'model')}, at most {percent(backward.max())} "
        f"({backward.idxmax()}), and a step takes {percent(step.median())} of its FLOP. Of the saved activations only "
        f"that layer's input is needed, {percent(kept.median())} of their bytes in the median, and of gradients and "
        f"momentum {percent(weights.median())}."
    )


def last_layers(layers: pd.DataFrame) -> pd.DataFrame:
    """Return the last layer of each model that multiplies by parameters of its own, by model."""
    running = layers[(layers.calls > 0) & (layers.parameter_count > 0) & (layers.forward_flop > 0)]
    return running.sort_values("position").drop_duplicates("model", keep="last").set_index("model")


def input_byte(layers: pd.DataFrame) -> pd.Series:
    """Return what layers that multiply read besides parameters: their forward pass reads both and writes its output."""
    return layers.traffic_byte - layers.parameter_byte - layers.activation_byte


@finding
def larger_batch(paper: Paper) -> str:
    """Say how memory and bytes grow from the batch size shown to the next one at which most models were counted."""
    small, rows = available.trained(paper), available.workloads(paper)
    batch = int(small.batch.iloc[0])
    rows = rows[(rows.batch > batch) & rows.training_peak_byte.notna()]
    if rows.empty:
        what = f"No training step at a batch size above {batch} has been counted"
        raise missing(what, sections=["workload"], flags=f"--batch-sizes {4 * batch}", does="counts them")
    most_counted = rows.groupby("batch").model.nunique().idxmax()
    both = small.merge(rows[rows.batch == most_counted], on="model", suffixes=("", "_larger"))
    larger = int(both.batch_larger.iloc[0])
    growth = both.training_peak_byte_larger / both.training_peak_byte
    fixed = both[FIXED].sum(axis=1) / both.training_peak_byte
    less = 1 - moved_byte(both, "_larger") / both.batch_larger / (moved_byte(both, "") / both.batch)
    both = both.assign(growth=growth, less=less)
    least, most = lowest(both, "growth"), highest(both, "less")
    return (
        f"A batch of {larger} in place of {batch} takes {significant(growth.median())} times the memory in the "
        f"median of {number(len(both), 'model')}, and {significant(least.growth)} times at the least ({least.model}): "
        f"weights, gradients and momentum, {percent(fixed.median())} of the peak at {batch} in the median and at most "
        f"{percent(fixed.max())}, do not grow. The FLOP of an input stay the same, and a step moves "
        f"{percent(less.median())} fewer bytes for it in the median, at most {percent(most.less)} ({most.model})."
    )


def moved_byte(rows: pd.DataFrame, suffix: str) -> pd.Series:
    """Return what a step's operators and its update move (byte); columns of the workload have the suffix."""
    names = {column + suffix: column for column in (*FIXED, "traffic_byte", "backward_traffic_byte")}
    workload = rows[list(names)].rename(columns=names)
    return workload.traffic_byte + workload.backward_traffic_byte + update_byte(workload)
