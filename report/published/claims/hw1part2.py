"""The claims of hw1part2 (``passes`` has those about the backward pass)."""

import pandas as pd

from report.analysis import available, correlations, layer_costs
from report.analysis.available import missing
from report.charts.theme import OUTSIDE
from report.load.paper import Paper
from report.published.claims.ruling import Ruling, claim, whole
from report.text.frame_rows import each
from report.text.quantities import intensity, listing, number, percent

LOW_FLOP = ("mobilenet_v2", "efficientnet_b0")
DOMINANT = ("convolution", "depthwise convolution", "linear")


@claim("hw1part2-2")
def low_flop_high_intensity(paper: Paper) -> Ruling:
    """Hold the two models against the median at batch size 1, by footprint, and intensity against FLOP, by rank."""

    def named() -> Ruling:
        rows = available.workloads(paper, batch=1)
        lean = rows[rows.model.isin(LOW_FLOP)]
        if lean.empty:
            what, flags = f"{listing(LOW_FLOP)} have not been counted", f"--models {' '.join(LOW_FLOP)}"
            raise missing(what, sections=["workload"], flags=flags, does="counts them")
        median = float(rows.footprint_intensity.median())
        parts = [f"{row.model} has {intensity(row.footprint_intensity)}" for row in each(lean)]
        return Ruling(
            bool((lean.footprint_intensity > median).all()),
            f"By footprint at batch size 1 {listing(parts)}, where the median of {number(len(rows), 'model')} is "
            f"{intensity(median)}.",
        )

    def ordered() -> Ruling:
        rows = available.workloads(paper, batch=1)
        found = correlations.correlation(rows.forward_flop, rows.footprint_intensity, rows.model)
        if found is None:
            return Ruling(None, "Too few models were counted for a correlation.")
        text = f"FLOP and intensity have a rank correlation of {found}."
        return Ruling(found.value < 0 if found.settled else None, text)

    return whole([named, ordered])


@claim("hw1part2-4")
def dominant(paper: Paper) -> Ruling:
    """Rule on more than half of the FLOP, with everything but products, and of the time, in every model."""

    def flop() -> Ruling:
        layers = available.layers(paper)
        layers = layers.assign(all_flop=layers.forward_flop + layers.forward_other_flop.fillna(0))
        return _share(layers, "all_flop", "FLOP of the forward pass")

    def time() -> Ruling:
        machine, kinds = layer_costs.of_shown(paper, layer_costs.of_kinds)
        rows = kinds[(kinds.stage == "forward") & (kinds.kind != OUTSIDE)]
        what = f"time of the layers in the forward pass on the {available.title(machine)}"
        return _share(rows, "time_s", what)

    return whole([flop, time])


def _share(rows: pd.DataFrame, column: str, what: str) -> Ruling:
    rows = rows.assign(part=rows[column].astype(float).where(rows.kind.isin(DOMINANT), 0.0))
    sums = rows.groupby("model")[["part", column]].sum()
    share = sums.part / sums[column].astype(float)
    return Ruling(
        bool((share > 0.5).all()),
        f"They have {percent(share.median())} of the {what} in the median of {number(len(share), 'model')}, at least "
        f"{percent(share.min())} ({share.idxmin()}).",
    )
