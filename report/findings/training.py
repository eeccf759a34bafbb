"""What training steps take, counted and measured: FLOP, time beside the least, and memory."""

import pandas as pd

from measure.domain.values import significant
from report.analysis import available, ratio_reasons
from report.analysis.available import DataMissingError, finding, missing, on_each_machine, or_missing
from report.analysis.layer_costs import at_shown_batch
from report.findings.utilisation import named
from report.findings.waterfall import counts
from report.load.paper import Machine, Paper
from report.load.steps import MEMORY_PARTS, update_byte
from report.text.frame_rows import extremes, highest, lowest
from report.text.prose import by_number, listing, number, percent, si


def span(rows: pd.DataFrame, column: str) -> str:
    """Say a median over models, and both ends: ``2.1 in the median of 24 models. The ends are 1.7 (a) and 2.9 (b)``."""
    text = f"{significant(rows[column].median())} in the median of {number(len(rows), 'model')}"
    least, most = extremes(rows, column)
    if least.model == most.model:
        return text
    ends = [f"{significant(row[column])} ({row.model})" for row in (least, most)]
    return f"{text}. The ends are {listing(ends)}"


@on_each_machine
def time_ratios(paper: Paper, machine: Machine) -> str:
    """Say backward over forward in time, its spread, and how often it is what the FLOP say."""
    rows = at_shown_batch(available.steps(machine))
    agree = ratio_reasons.agree(rows)
    higher = int((~agree & (rows.time_ratio > rows.flop_ratio)).sum())
    lower = int((~agree & (rows.time_ratio < rows.flop_ratio)).sum())
    return (
        f"On the {available.title(machine)} at batch size {rows.batch.iloc[0]}, the time of the backward pass over "
        f"that of the forward pass is {span(rows, 'time_ratio')}. That of the FLOP is "
        f"{significant(rows.flop_ratio.median(), 4)} in the median. The two agree within "
        f"{percent(ratio_reasons.AGREEING)}, or within the interval of the former, in "
        f"{int(agree.sum()) or 'none'} of {number(len(rows), 'model')}. In {higher or 'none'} the time grows more "
        f"than the FLOP, in {lower or 'none'} less."
    )


@on_each_machine
def reasons(paper: Paper, machine: Machine) -> str:
    """Say which layers make the two ratios differ."""
    rows = at_shown_batch(ratio_reasons.explained(paper, machine))
    where = f"On the {available.title(machine)}"
    apart = rows[~rows.agrees]
    if apart.empty:
        return f"{where} no model has ratios that differ."
    known = apart[apart.cause != ""]
    if known.empty:
        return (
            f"{where} the layers that make the ratios differ are not known; `python -m measure --device "
            f"{machine.environment.device} --sections workload operators` times them."
        )
    slower, faster = known.time_ratio > known.flop_ratio, known.time_ratio < known.flop_ratio
    parts = [
        f"where the backward pass takes {how} than its FLOP say, most of the gap comes from "
        f"{counts(known[side].cause, 'model')}"
        for how, side in (("longer", slower), ("less", faster))
        if side.any()
    ]
    return f"{where}, {listing(parts)}."


@on_each_machine
def rates(paper: Paper, machine: Machine) -> str:
    """Say the FLOP/s of the passes, apart, and their shares of the peak."""
    available.roof(machine)
    rows = at_shown_batch(available.steps(machine))
    parts = []
    for stage in ("forward", "backward"):
        best = highest(rows, f"{stage}_peak_share")
        parts.append(
            f"{percent(rows[f'{stage}_peak_share'].median())} in the {stage} pass (at most "
            f"{percent(best[f'{stage}_peak_share'])}, {best.model})"
        )
    faster = rows[rows.backward_flop_per_s > rows.forward_flop_per_s]
    return (
        f"On the {available.title(machine)} the models achieve in the median, of the peak, {listing(parts)}. The "
        f"backward pass has the higher rate in {len(faster) or 'none'} of {number(len(rows), 'model')}"
        f"{named(sorted(faster.model))}."
    )


@on_each_machine
def estimates(paper: Paper, machine: Machine) -> str:
    """Say how far the measured step is from its FLOP at the peak, and from its operators' least time."""
    available.roof(machine)
    rows = at_shown_batch(available.steps(machine))
    rows = rows.assign(share=rows.update_s / rows.latency_s, over_flop=rows.latency_s / rows.flop_bound_s)
    text = (
        f"On the {available.title(machine)} at batch size {rows.batch.iloc[0]}, a measured step is FLOP over peak "
        f"times {span(rows, 'over_flop')}."
    )
    bounded = rows[rows.operator_bound_s.notna()]
    if not bounded.empty:
        bounded = bounded.assign(over=bounded.latency_s / bounded.operator_bound_s)
        waiting = (bounded.operator_bound_s / bounded.flop_bound_s).median()
        text += (
            f" The least time of its operators, one after the other, is {significant(waiting)} times FLOP over "
            f"peak in the median. The measured step is that times {span(bounded, 'over')}."
        )
    update = highest(rows, "share")
    return (
        f"{text} The update takes {percent(rows.share.median())} of a step in the median, at most "
        f"{percent(update.share)} ({update.model})."
    )


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
    what = "measured peak of memory over the counted one"
    if machine.environment.device == "mps":  # it has no counter of the most
        what = "memory that Metal has given by the end of a step over the counted peak"
    return f"{where} the {what} is {span(rows, 'ratio')}."


@finding
def saved(paper: Paper) -> str:
    """Say which kinds of layer keep the activations that the backward pass needs."""
    layers = available.layers(paper, int(available.trained(paper).batch.iloc[0]))
    sums = layers.groupby(["model", "layer_kind"]).saved_byte.sum().astype(float)
    shares = (sums / sums.groupby("model").transform("sum")).unstack(fill_value=0)
    means = shares.mean().sort_values(ascending=False)
    parts = [f"{kind} ({percent(share)})" for kind, share in means.iloc[:2].items()]
    first = shares.idxmax(axis=1).value_counts()
    return (
        f"On average of {number(len(shares), 'model')}, most of what is saved for the backward pass is kept for layers "
        f"of the kinds {listing(parts)}. In {first.iloc[0]} of them {first.index[0]} layers keep most."
    )


@finding
def freezing(paper: Paper) -> str:
    """Say what is left of the backward pass where only the last layer that multiplies is trained."""
    rows = available.trained(paper)
    last = last_layers(available.layers(paper, int(rows.batch.iloc[0])))
    # A frozen network has a backward pass without products
    rows = rows[(rows.backward_flop > 0) & rows.saved_byte.notna() & rows.model.isin(last.index)]
    gap = DataMissingError("No model that was counted multiplies in its backward pass.")
    rows = available.at_least_one(rows, gap).set_index("model")
    last = last.loc[rows.index]
    # Of its two gradients, each of which costs what its forward pass does, only that of the weights is left.
    backward = last.forward_flop / rows.backward_flop
    step = (rows.forward_flop + last.forward_flop) / (rows.forward_flop + rows.backward_flop)
    kept = input_byte(last) / rows.saved_byte
    weights = last.parameter_byte / rows.parameter_byte
    return (
        f"With all layers frozen but the last that multiplies, {percent(backward.median())} of the backward pass's "
        f"FLOP remain in the median of {number(len(rows), 'model')}, at most {percent(backward.max())} "
        f"({backward.idxmax()}). A step then takes {percent(step.median())} of its FLOP. Of the saved activations only "
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
        f"median of {number(len(both), 'model')}, and {significant(least.growth)} times at the least ({least.model}). "
        f"Weights, gradients and momentum do not grow; they are {percent(fixed.median())} of the peak at {batch} in "
        f"the median, at most {percent(fixed.max())}. The FLOP of an input stay the same, and a step moves "
        f"{percent(less.median())} fewer bytes for it in the median, at most {percent(most.less)} ({most.model})."
    )


def moved_byte(rows: pd.DataFrame, suffix: str) -> pd.Series:
    """Return what a step's operators and its update move (byte); columns of the workload have the suffix."""
    names = {column + suffix: column for column in (*FIXED, "traffic_byte", "backward_traffic_byte")}
    workload = rows[list(names)].rename(columns=names)
    return workload.traffic_byte + workload.backward_traffic_byte + update_byte(workload)


@finding
def flop_ratios(paper: Paper) -> str:
    """Say the backward pass's FLOP over the forward pass's, and why the ratio is below two."""
    rows = available.trained(paper)
    rows = rows.assign(ratio=rows.backward_flop / rows.forward_flop)
    least, most = extremes(rows, "ratio")
    text = f"The backward pass takes {significant(rows.ratio.median(), 4)} times the FLOP of the forward pass in the "
    text += f"median of {number(len(rows), 'model')}"
    if most.ratio > least.ratio:
        text += f". The ends are {listing([f'{significant(row.ratio, 4)} ({row.model})' for row in (least, most)])}"
    lacking_to_two = or_missing(_lacking_to_two)(paper)
    other = (rows.backward_other_flop / rows.backward_flop).median()
    return f"{text}. Everything but products adds {percent(other)} to its FLOP in the median. {lacking_to_two}"


def _lacking_to_two(paper: Paper) -> str:
    """Say in how many models the products that a ratio of two lacks are those of the first layer's input."""
    rows = available.trained(paper).set_index("model")
    layers = available.layers(paper, int(rows.batch.iloc[0]))
    working = layers[layers.forward_flop > 0].sort_values("position")
    first = working.drop_duplicates("model").set_index("model").forward_flop
    lacking = (2 * rows.forward_flop - rows.backward_flop).reindex(first.index)
    return (
        f"In {int((lacking == first).sum()) or 'none'} of {number(len(first), 'model')} what it lacks to two is, to "
        "the last FLOP, the work of the first layer, whose input needs no gradient."
    )


@finding
def recomputation(paper: Paper) -> str:
    """Say which models compute parts of the forward pass again in the backward pass."""
    rows = available.trained(paper)
    again = rows[rows.recompute_flop > 0]
    if again.empty:
        return "No model computes a part of the forward pass again."
    most = highest(again.assign(share=again.recompute_flop / again.forward_flop), "share")
    return (
        f"In the backward pass {number(len(again), 'model')} {by_number(len(again), 'computes', 'compute')} parts of "
        f"the forward pass again (fused attention its scores, a checkpoint what it did not keep), at most "
        f"{percent(most.share)} of the forward FLOP ({most.model}); they are excluded from the ratios here."
    )


@finding
def memory(paper: Paper) -> str:
    """Say what fills the memory of a training step, and how that compares with inference."""
    rows = available.trained(paper)
    peak = rows.training_peak_byte
    rows = rows.assign(growth=peak / rows.inference_peak_byte, share=rows.saved_byte / peak)
    kept = sum(rows[column] for column in MEMORY_PARTS.values()) / peak
    most, widest, least = highest(rows, "training_peak_byte"), highest(rows, "growth"), lowest(rows, "share")
    return (
        f"At batch size {rows.batch.iloc[0]} a training step's peak is {significant(rows.growth.median())} times that "
        f"of inference in the median, at most {significant(widest.growth)} times ({widest.model}). The highest is "
        f"{si(most.training_peak_byte, 'B')} ({most.model}). Activations saved for the backward pass are "
        f"{percent(rows.share.median())} of the peak in the median, least in {least.model} ({percent(least.share)}). "
        f"The sum of parameters, gradients, momentum and saved activations is between {percent(kept.min(), 3)} and "
        f"{percent(kept.max(), 3)} of the peak."
    )


@finding
def optimisers(paper: Paper) -> str:
    """Say what the optimisers' state adds, against the parameters."""
    rows = available.trained(paper)
    momentum = significant((rows.momentum_byte / rows.parameter_byte).median())
    adam = significant((rows.adam_byte / rows.parameter_byte).median())
    return (
        f"The state of SGD with momentum is {momentum} times the parameters in the median, that of Adam {adam} times."
    )
