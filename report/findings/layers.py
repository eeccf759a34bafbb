"""Where within the models work and bytes sit."""

from report.analysis import available
from report.analysis.available import finding, or_missing
from report.analysis.layer_costs import shares_by_kind
from report.load.paper import Machine, Paper
from report.load.workloads import PRODUCTS
from report.text.frame_rows import highest, lowest
from report.text.quantities import intensity, listing, number, percent, significant


@finding
def kinds(paper: Paper) -> str:
    """The share of the layers that multiply, in work and in bytes, and what the others move."""
    shares = shares_by_kind(available.layers(paper))
    columns = ["flop", "traffic_byte"]
    products = shares[shares.kind.isin(PRODUCTS)].groupby("model")[columns].sum()
    wide = 1 - products.traffic_byte
    others = shares[~shares.kind.isin(PRODUCTS)].groupby("kind").traffic_byte.sum() / shares.model.nunique()
    parts = [
        f"{kind} {percent(share)}"
        for kind, share in others.sort_values(ascending=False).items()
        if share >= 0.01
    ]
    text = (
        f"In the median of {number(len(products), 'model')}, the layers that multiply (convolutions, linear layers, "
        f"attention, recurrent layers) do {percent(products.flop.median(), 3)} of the FLOP, and move "
        f"{percent(products.traffic_byte.median())} of the bytes. What the others move, up to "
        f"{percent(wide.max())} ({wide.idxmax()}), is what fusing operators can save"
    )
    return f"{text}: on average {listing(parts)} of the traffic." if parts else f"{text}."


@finding
def parameters_apart(paper: Paper) -> str:
    """The model whose parameters sit farthest from its work."""
    shares = shares_by_kind(available.layers(paper))
    most = highest(shares.assign(apart=shares.parameter_count - shares.flop), "apart")
    return (
        f"Parameters need not sit where the work is: in {most.model}, {most.kind} layers hold "
        f"{percent(most.parameter_count)} of the parameters and do {percent(most.flop)} of the FLOP."
    )


@finding
def depthwise(paper: Paper) -> str:
    """Whether depthwise convolutions wait for memory in models that as a whole do not, on each machine shown."""
    layers = available.layers(paper)
    own = layers[(layers.kind == "depthwise convolution") & (layers.forward_flop > 0)]
    if own.empty:
        return "Of the models that were counted none has depthwise convolutions."
    sums = own.groupby("model")[["forward_flop", "traffic_byte"]].sum().astype(float)
    whole = available.workloads(paper, batch=1).set_index("model").footprint_intensity
    rows = sums.assign(intensity=sums.forward_flop / sums.traffic_byte, whole=whole).reset_index()
    least, most = lowest(rows, "intensity"), highest(rows, "intensity")
    span = significant(least.intensity)
    if least.model != most.model:
        span += f" ({least.model}) to {significant(most.intensity)} ({most.model})"
    text = (
        f"In the {number(len(rows), 'model')} that have them, depthwise convolutions do {span} FLOP for each byte that "
        "they read or write at batch size 1."
    )

    def part(of: Machine) -> str:
        ridge = available.roof(of).ridge_flop_per_byte
        above = rows[rows.whole > ridge]
        waiting = int((above.intensity < ridge).sum())
        return (
            f"The ridge point of the {available.title(of)} is {intensity(ridge)}: by footprint {len(above) or 'none'} "
            f"of these models as a whole {'lies' if len(above) == 1 else 'lie'} above it, and in "
            f"{waiting or 'none'} of those the depthwise convolutions lie below."
        )

    return f"{text} {or_missing(available.told_of_each)(paper, part)}"
