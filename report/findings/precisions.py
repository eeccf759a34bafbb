"""What precision, sparsity and units do to a chip's roof."""

import pandas as pd

from report.analysis import available
from report.analysis.available import DataMissingError, finding
from report.findings.chips import SIXTEEN_BITS, tensor_beside_vector
from report.load.paper import Paper
from report.text.frame_rows import each, extremes, highest
from report.text.quantities import by_number, intensity, listing, number, si, significant

FEWER_BITS = ("fp8", "fp6", "fp4", "int8", "int4")


def _beside(chips: pd.DataFrame, precision: str) -> pd.DataFrame:
    """Return rates at a precision, with their ``ratio`` to the chip's fastest 16-bit rate on the same unit."""
    base = chips[chips.precision.isin(SIXTEEN_BITS)].groupby(["chip", "unit"]).peak_flop_per_s.max()
    pairs = chips[chips.precision == precision].join(base.rename("base"), on=["chip", "unit"], how="inner")
    return pairs.assign(ratio=pairs.peak_flop_per_s / pairs.base)


@finding
def low_precision(paper: Paper) -> str:
    """Say how far 8 bits and fewer lift a roof above that of 16 bits."""
    chips = available.chips(paper)
    parts = []
    for precision in FEWER_BITS:
        pairs = _beside(chips, precision)
        if pairs.empty:
            continue
        least, most = extremes(pairs, "ratio")
        text = f"at {precision} the dense peak is {significant(pairs.ratio.median())} times as high in the median of "
        text += number(len(pairs), "roof")
        if most.ratio > least.ratio:
            text += f", from {significant(least.ratio)} ({least.chip}) to {significant(most.ratio)} ({most.chip})"
        parts.append(text)
    if not parts:
        raise DataMissingError(
            "No chip in data/chips.csv has a rate at 8 bits or fewer beside one at 16 bits on the same unit; add rows."
        )
    return f"Against 16-bit floating point on the same unit of the same chip, {'; '.join(parts)}."


@finding
def sparsity(paper: Paper) -> str:
    chips = available.chips(paper)
    both = chips[chips.sparse_peak_flop_per_s.notna()]
    if both.empty:
        return "No roof of the table has a sparse peak beside the dense one."
    both = both.assign(ratio=both.sparse_peak_flop_per_s / both.peak_flop_per_s)
    most = highest(both, "ratio")
    return (
        f"For {number(len(both), 'roof')} the vendor prints a sparse peak beside the dense one, in the median "
        f"{significant(both.ratio.median())} times as high and at most {significant(most.ratio)} times ({most.chip} at "
        f"{most.precision}): whoever takes the one for the other is wrong by that factor."
    )


@finding
def matrix_units(paper: Paper) -> str:
    """Hold tensor units of CPUs against the vector units of the same chip, and against CPUs without."""
    cpus = available.chips(paper, "cpu")
    pairs = tensor_beside_vector(cpus)
    if pairs.empty:
        return "No CPU of the table has a 16-bit rate on tensor units beside one at fp32 on vector units."
    parts = [
        f"the {row.chip} computes {si(row.peak_flop_per_s, 'FLOP/s')} at {row.precision} on its tensor "
        f"units against {si(row.peak_flop_per_s_vector, 'FLOP/s')} at fp32 on its vector units, "
        f"{significant(row.ratio)} times as much, which moves its ridge point "
        f"from {intensity(row.ridge_flop_per_byte_vector)} to {intensity(row.ridge_flop_per_byte)}"
        for row in each(pairs)
    ]
    have = by_number(len(pairs), "has", "have")
    text = f"Of {number(cpus.chip.nunique(), 'CPU')} {len(pairs)} {have} such units: {listing(parts)}."
    vector = cpus[(cpus.unit == "vector") & (cpus.precision == "fp32")]
    tensor = cpus[(cpus.unit == "tensor") & cpus.precision.isin(SIXTEEN_BITS)]
    without = vector[~vector.chip.isin(tensor.chip)]
    if without.empty:
        return text
    best = highest(without, "peak_flop_per_s")
    peak = si(best.peak_flop_per_s, "FLOP/s")
    return f"{text} The fastest CPU without them, the {best.chip}, reaches {peak} at fp32."
