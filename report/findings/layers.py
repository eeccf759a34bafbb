"""Where within the models work and bytes sit."""

from report import available
from report.available import finding
from report.figures.layers import by_kind
from report.paper import Paper
from report.quantities import listing, number, percent
from report.rows import highest
from report.workloads import PRODUCTS


@finding
def kinds(paper: Paper) -> str:
    """The share of the layers that multiply, in work and in bytes, and what the others move."""
    shares = by_kind(available.layers(paper))
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
    shares = by_kind(available.layers(paper))
    most = highest(shares.assign(apart=shares.parameter_count - shares.flop), "apart")
    return (
        f"Parameters need not sit where the work is: in {most.model}, {most.kind} layers hold "
        f"{percent(most.parameter_count)} of the parameters and do {percent(most.flop)} of the FLOP."
    )
