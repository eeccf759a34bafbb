"""What follows from the datasheets: sparse peaks, tensor units, and where ridge points go."""

from report.analysis import available
from report.analysis.available import DataMissingError
from report.analysis.effect import Effect, Interval, median_of
from report.analysis.growth import Growth, fit
from report.findings.comparisons import growing_kinds, tensor_gpus
from report.findings.conclusions.conclusion import Answer, of_paper
from report.load.paper import Paper
from report.text.quantities import change, number


@of_paper(6, "Sparse peaks", "sec-chip-table", is_margin=True)
def sparsity(paper: Paper) -> Answer:
    """Say how far sparse peaks exceed dense ones, chip by chip: the roofs of one chip say the same."""
    chips = available.chips(paper)
    both = chips[chips.sparse_peak_flop_per_s.notna()]
    if both.empty:
        raise DataMissingError("No chip in data/chips.csv has a sparse peak beside the dense one; add rows to it.")
    effect = median_of((both.sparse_peak_flop_per_s / both.peak_flop_per_s).groupby(both.chip).median())
    return (
        [effect],
        "make sure that a peak is the dense one before you compare with it: the sparse peak over the dense one is "
        f"{effect} in the median of {number(effect.count, 'chip')} that print both, and holds only where the hardware "
        "may skip zeros.",
        f"sparse peaks are {effect} times the dense ones in the median of {number(effect.count, 'chip')} that print "
        "both",
    )


@of_paper(4, "Tensor units", "fig-chip-precisions", "sec-chip-table", is_margin=True)
def tensor_units(paper: Paper) -> Answer:
    """Say what the tensor units of data-center GPUs promise at 16 bits over the vector units at fp32."""
    effect = median_of(tensor_gpus(paper).ratio)
    advice = {
        1: "run at 16 bits on a data-center GPU, and give it models or batches of high operational intensity",
        0: "do not count on the tensor units of a data-center GPU",
        -1: "stay at fp32 on a data-center GPU",
    }[effect.side]
    return (
        [effect],
        f"{advice}: the peak of its tensor units at 16 bits over that of its vector units at fp32 is {effect} in the "
        f"median of {number(effect.count, 'chip')}, and the ridge point moves by as much.",
        f"at 16 bits the tensor units of data-center GPUs promise {effect} times what their vector units do at fp32",
    )


@of_paper(5, "Ridge points", "fig-chip-generations", "tbl-growth")
def ridge(paper: Paper, confidence: float) -> Answer:
    """Say how far the ridge points of the kind with most chips moved over the years of the table."""
    kinds = growing_kinds(paper)
    if not kinds:
        raise DataMissingError(
            "No kind of chip in data/chips.csv has chips enough at one precision for a rate of growth; add rows to it."
        )
    series = max(kinds, key=lambda series: len(series.rows))
    years = series.rows.year
    period_years = float(years.max() - years.min())

    def growth_at(confidence: float) -> Growth:
        return fit(years.tolist(), series.rows.ridge_flop_per_byte.tolist(), confidence)

    def interval_at(confidence: float) -> Interval:
        growth = growth_at(confidence)
        return (1 + growth.low) ** period_years, (1 + growth.high) ** period_years

    growth = growth_at(confidence)
    effect = Effect((1 + growth.rate) ** period_years, interval_at, growth.count, confidence)
    advice = {
        1: "expect memory to bound models on newer chips, and look at a chip's bandwidth first",
        0: "do not expect newer chips to bound models otherwise than older ones",
        -1: "expect arithmetic to bound models on newer chips, and look at a chip's peak first",
    }[effect.side]
    period = f"from {years.min():.0f} to {years.max():.0f}"
    return (
        [effect],
        f"{advice}: the ridge points of {number(effect.count, series.name.removesuffix('s'))} ({series.rate}) moved by "
        f"{change(growth.rate, growth.low, growth.high)} a year, {period} by a factor of {effect}.",
        f"the ridge points of {number(effect.count, series.name.removesuffix('s'))} moved {period} by a factor of "
        f"{effect}",
    )
