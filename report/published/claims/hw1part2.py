"""The claims of hw1part2."""

from functools import partial

import pandas as pd

from report.analysis import available, correlations, layer_costs
from report.charts.theme import OUTSIDE
from report.load.paper import Paper
from report.published.claims import passes
from report.published.claims.ruling import Claim, Part, Ruling, anywhere, whole
from report.text.frame_rows import each
from report.text.quantities import intensity, listing, number, percent

LOW_FLOP = ("mobilenet_v2", "efficientnet_b0")
DOMINANT = ("convolution", "depthwise convolution", "linear")


def twice_to_thrice(paper: Paper) -> Ruling:
    return anywhere(paper, passes.twice_to_thrice)


def low_flop_high_intensity(paper: Paper) -> Ruling:
    """At batch size 1, by footprint: the two models beside the median, and the rank correlation with FLOP."""

    def named() -> Part:
        rows = available.workloads(paper, batch=1)
        own = rows[rows.model.isin(LOW_FLOP)]
        if own.empty:
            raise available.DataMissingError(
                f"{listing(list(LOW_FLOP))} have not been counted; python -m measure --sections workload --models "
                f"{' '.join(LOW_FLOP)} counts them."
            )
        median = float(rows.footprint_intensity.median())
        parts = [f"{row.model} has {intensity(row.footprint_intensity)}" for row in each(own)]
        return Part(
            bool((own.footprint_intensity > median).all()),
            f"By footprint at batch size 1 {listing(parts)}, where the median of {number(len(rows), 'model')} is "
            f"{intensity(median)}.",
        )

    def ordered() -> Part:
        rows = available.workloads(paper, batch=1)
        found = correlations.correlation(rows.forward_flop, rows.footprint_intensity, rows.model)
        if found is None:
            return Part(None, "Too few models were counted for a correlation.")
        return Part(
            found.value < 0 if found.settled else None,
            f"FLOP and intensity have a rank correlation of {found}.",
        )

    return whole([named, ordered])


def deeper_larger_ratio(paper: Paper) -> Ruling:
    return anywhere(paper, partial(passes.deeper, paper))


def dominant(paper: Paper) -> Ruling:
    """More than half of the FLOP, with everything but products, and of the time, in every model."""

    def flop() -> Part:
        layers = available.layers(paper)
        layers = layers.assign(all_flop=layers.forward_flop + layers.forward_other_flop.fillna(0))
        return _part(layers, "all_flop", "FLOP of the forward pass")

    def time() -> Part:
        machine, kinds = layer_costs.of_shown(paper, layer_costs.of_kinds)
        rows = kinds[(kinds.stage == "forward") & (kinds.kind != OUTSIDE)]
        return _part(
            rows, "time_s", f"time of the layers in the forward pass on the {available.title(machine)}"
        )

    return whole([flop, time])


def _part(rows: pd.DataFrame, column: str, what: str) -> Part:
    rows = rows.assign(part=rows[column].astype(float).where(rows.kind.isin(DOMINANT), 0.0))
    sums = rows.groupby("model")[["part", column]].sum()
    share = sums.part / sums[column].astype(float)
    return Part(
        bool((share > 0.5).all()),
        f"They have {percent(share.median())} of the {what} in the median of {number(len(share), 'model')}, at least "
        f"{percent(share.min())} ({share.idxmin()}).",
    )


CLAIMS: dict[str, Claim] = {
    "hw1part2-1": twice_to_thrice,
    "hw1part2-2": low_flop_high_intensity,
    "hw1part2-3": deeper_larger_ratio,
    "hw1part2-4": dominant,
}
