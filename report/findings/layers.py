"""Where within the models work and bytes sit."""

from report.analysis import available
from report.analysis.available import finding, or_missing
from report.analysis.layer_costs import shares_by_kind
from report.load.paper import Machine, Paper
from report.load.workloads import PRODUCTS
from report.text.frame_rows import extremes, highest
from report.text.quantities import by_number, intensity, listing, number, percent, significant


@finding
def kinds(paper: Paper) -> str:
    """Say the share of the layers that multiply, in work and in bytes, and what the others move."""
    shares = shares_by_kind(available.layers(paper))
    multiplies = shares.layer_kind.isin(PRODUCTS)
    products = shares[multiplies].groupby("model")[["flop", "traffic_byte"]].sum()
    wide = 1 - products.traffic_byte
    others = shares[~multiplies].groupby("layer_kind").traffic_byte.sum() / shares.model.nunique()
    others = others[others >= 0.01].sort_values(ascending=False)
    parts = [f"{kind} {percent(share)}" for kind, share in others.items()]
    text = (
        f"In the median of {number(len(products), 'model')}, the layers that multiply (convolutions, linear layers, "
        f"attention, recurrent layers) do {percent(products.flop.median(), 3)} of the FLOP, and move "
        f"{percent(products.traffic_byte.median())} of the bytes. What the others move, up to "
        f"{percent(wide.max())} ({wide.idxmax()}), is what fusing operators can save"
    )
    return f"{text}: on average {listing(parts)} of the traffic." if parts else f"{text}."


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
