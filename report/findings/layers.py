"""Where within the models work and bytes sit, and which layers a training step's time and memory go to."""

import pandas as pd

from measure.domain.values import significant
from measure.domain.words import BACKWARD, FORWARD, PRODUCT_KINDS
from report.analysis import available, layer_costs
from report.analysis.available import finding, on_each_machine, or_missing
from report.analysis.layer_costs import OUTSIDE, shares_by_kind
from report.load.paper import Machine, Paper
from report.text.frame_rows import extremes, highest
from report.text.prose import by_number, capitalised, intensity, number, percent, signed_percent


@finding
def kinds(paper: Paper) -> str:
    """Say the share of the layers that multiply, in work and in bytes, and what the others move."""
    shares = shares_by_kind(available.layers(paper))
    multiplies = shares.layer_kind.isin(PRODUCT_KINDS)
    products = shares[multiplies].groupby("model")[["flop", "traffic_byte"]].sum()
    wide = 1 - products.traffic_byte
    others = shares[~multiplies].groupby("layer_kind").traffic_byte.sum() / shares.model.nunique()
    others = others[others >= 0.01].sort_values(ascending=False)
    text = (
        f"In the median of {number(len(products), 'model')}, the layers that multiply (convolutions, linear layers, "
        f"attention, recurrent layers) do {percent(products.flop.median(), 3)} of the FLOP, and move "
        f"{percent(products.traffic_byte.median())} of the bytes. What the others move, up to "
        f"{percent(wide.max())} ({wide.idxmax()}), is what fusing operators can save"
    )
    parts = [f"{kind} ({percent(share)}" for kind, share in others.items()]
    if not parts:
        return f"{text}."
    then = f", then {parts[1]})" if len(parts) > 1 else ""
    return f"{text}. On average most of it is moved by {parts[0]} of the traffic){then}."


@finding
def parameters_apart(paper: Paper) -> str:
    """Name the model whose parameters sit farthest from its work."""
    shares = shares_by_kind(available.layers(paper))
    most = highest(shares.assign(apart=shares.parameter_count - shares.flop), "apart")
    return (
        f"Parameters need not sit where the work is: in {most.model}, {most.layer_kind} layers hold "
        f"{percent(most.parameter_count)} of the parameters and do {percent(most.flop)} of the FLOP."
    )


@finding
def depthwise(paper: Paper) -> str:
    """Say whether depthwise convolutions wait for memory in models that as a whole do not, on each machine shown."""
    layers = available.layers(paper)
    layers = layers[(layers.layer_kind == "depthwise convolution") & (layers.forward_flop > 0)]
    if layers.empty:
        return "Of the models that were counted none has depthwise convolutions."
    sums = layers.groupby("model")[["forward_flop", "traffic_byte"]].sum().astype(float)
    whole = available.workloads(paper, batch=1).set_index("model").footprint_intensity
    rows = sums.assign(intensity=sums.forward_flop / sums.traffic_byte, whole=whole).reset_index()
    least, most = extremes(rows, "intensity")
    span = significant(least.intensity)
    if least.model != most.model:
        span += f" ({least.model}) to {significant(most.intensity)} ({most.model})"
    text = (
        f"In the {number(len(rows), 'model')} that have them, depthwise convolutions do {span} FLOP for each byte that "
        "they read or write at batch size 1."
    )

    def beside_ridge(machine: Machine) -> str:
        ridge = available.roof(machine).ridge_flop_per_byte
        above = rows[rows.whole > ridge]
        lie, below = by_number(len(above), "lies", "lie"), int((above.intensity < ridge).sum())
        return (
            f"The ridge point of the {available.title(machine)} is {intensity(ridge)}: by footprint "
            f"{len(above) or 'none'} of these models as a whole {lie} above it, and in "
            f"{below or 'none'} of those the depthwise convolutions lie below."
        )

    return f"{text} {or_missing(available.sentences_of_each)(paper, beside_ridge)}"


@on_each_machine
def dominant(paper: Paper, machine: Machine) -> str:
    """Say which kind of layer takes most time and most memory, and how far time goes where the FLOP do not."""
    rows = layer_costs.of_kinds(paper, machine)
    first = layer_costs.most_costly(rows)
    models = f" of {number(rows.model.nunique(), 'model')}"
    time = _most(first["time_s", FORWARD], first["time_s", BACKWARD], models)
    memory = _most(first["byte", FORWARD], first["byte", BACKWARD])
    return (
        f"On the {available.title(machine)}, most of the layers' time goes to {time}. Most of their memory goes to "
        f"{memory}. {_apart(rows)}"
    )


Most = tuple[str, int, float]
"""A kind of layer, in how many models it is the largest, and its median share in these, which is not told."""


def _most(forward: Most, backward: Most, models: str = "") -> str:
    """Say the largest kind of layer of each pass."""
    (kind, count, _), (other, others, _) = forward, backward
    again = "backward" if other == kind else f"to {other} backward"
    return f"{kind} forward in {count}{models} and {again} in {others}"


def _apart(rows: pd.DataFrame) -> str:
    """Hold the kind that takes most time against its share of the FLOP, where that differs most."""
    rows = rows[rows.layer_kind != OUTSIDE]
    time, flop = layer_costs.shares(rows, "time_s"), layer_costs.shares(rows, "flop")
    most = highest(rows.assign(time_share=time, flop_share=flop, apart=time - flop), "apart")
    return (
        f"Time and FLOP differ most in the {most.stage} pass of {most.model}, whose {most.layer_kind} layers take "
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
            f"what is {OUTSIDE} is {signed_percent(rest.share.median())} of the {stage} pass in the median of "
            f"{number(len(rest), 'model')}, at the extreme {signed_percent(most.share)} ({most.model})"
        )
    return f"On the {available.title(machine)}, {'. '.join([parts[0], *map(capitalised, parts[1:])])}."


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
        f"({most.path} of {most.model}, {most.layer_kind}). In the median of {number(len(first), 'model')} the "
        f"heaviest layer takes {percent(first.share.median())}. Half the time is that of "
        f"{number(round(half.median()), 'layer')} out of {round(layers.groupby('model').size().median())}."
    )
