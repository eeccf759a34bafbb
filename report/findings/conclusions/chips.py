"""What follows from the datasheets: sparse peaks, tensor units, and where ridge points go."""

from report.analysis import available
from report.analysis.available import DataMissingError
from report.analysis.effect import Effect, Interval, median_of
from report.analysis.product_lines import Series
from report.findings.chips import ratio_range
from report.findings.comparisons import growing_kinds, tensor_gpus
from report.findings.conclusions.conclusion import Answer, of_paper
from report.load.chips import of_dies
from report.load.paper import Paper
from report.text.prose import listing, number


@of_paper(6, "Sparse peaks", "sec-chip-table", is_margin=True)
def sparsity(paper: Paper) -> Answer:
    """Say how far sparse peaks exceed dense ones, die by die: the roofs of one chip say the same."""
    chips = available.chips(paper)
    both = of_dies(chips[chips.sparse_peak_flop_per_s.notna()])
    if both.empty:
        raise DataMissingError("No chip in data/chips.csv has a sparse peak beside the dense one; add rows to it.")
    effect = median_of((both.sparse_peak_flop_per_s / both.peak_flop_per_s).groupby(both.chip).median())
    median = f"{effect} in the median of {number(effect.count, 'die')} that have both"
    text = (
        "make sure that a peak is the dense one before you compare with it: the sparse peak over the dense one is "
        f"{median}"
    )
    return {"": effect}, f"{text}.", "It holds only where the hardware may skip zeros."


@of_paper(4, "Tensor units", "sec-chip-precisions", "sec-chip-table", is_margin=True)
def tensor_units(paper: Paper) -> Answer:
    """Say what the tensor units of data-center GPUs promise at 16 bits over the vector units at fp32.

    The ratios cluster by generation, so that their range is told and not their median.
    """
    pairs = tensor_gpus(paper)
    dies = f"{number(len(pairs), 'die')} of data-center GPUs"
    text = (
        "run at 16 bits on a data-center GPU, and give it models or batches of high operational intensity: the peak of "
        f"the tensor units of {dies} is {ratio_range(pairs)} that of their vector units at fp32"
    )
    return {"": median_of(pairs.ratio)}, f"{text}.", "The ridge point moves by as much."


@of_paper(5, "Ridge points", "fig-chip-generations")
def ridge(paper: Paper, confidence: float) -> Answer:
    """Say how far the ridge points of each kind moved over the years of the table."""
    grown = [(series, _growth(series, confidence)) for series in growing_kinds(paper)]
    rising, falling = ([series.name for series, effect in grown if effect.side == side] for side in (1, -1))
    advice = [
        f"expect {bound} to bound more models on newer {listing(names)}, and look at {first} first"
        for names, bound, first in ((rising, "memory", "a chip's bandwidth"), (falling, "arithmetic", "a chip's peak"))
        if names
    ] or ["do not expect newer chips to bound models otherwise than older ones"]
    clear = [(series, effect) for series, effect in grown if effect.side]
    factors = [
        f"{effect} for {number(effect.count, 'die')} of {series.name} ({series.rows.year.min():.0f} to "
        f"{series.rows.year.max():.0f})"
        for series, effect in clear or grown
    ]
    verb = "rose" if clear and not falling else "moved"
    told = f"over the years of the table ridge points {verb} by a factor of {listing(factors)}"
    return {series.name: effect for series, effect in grown}, f"{'; '.join(advice)}: {told}.", ""


def _growth(series: Series, confidence: float) -> Effect:
    """Return the factor by which the ridge points of a series moved from its first year to its last."""
    years = series.rows.year
    span = float(years.max() - years.min())

    def interval_at(confidence: float) -> Interval:
        growth = series.growth("ridge_flop_per_byte", confidence)
        return (1 + growth.low) ** span, (1 + growth.high) ** span

    growth = series.growth("ridge_flop_per_byte")
    return Effect((1 + growth.rate) ** span, interval_at, growth.count, confidence)
