"""What the chips' datasheets say, and what precision, sparsity and units do to a roof."""

from typing import Any

import pandas as pd

from measure.domain.values import significant
from report.analysis import available
from report.analysis.available import DataMissingError, finding
from report.load import chips as table
from report.load.paper import Paper
from report.text.frame_rows import each, extremes, highest, lowest, matching
from report.text.prose import by_number, intensity, listing, number, rate_unit, ridge_unit, si

SIXTEEN_BITS = ("bf16", "fp16")


def count(paper: Paper) -> str:
    """Say how many chips of which kinds the table holds."""
    chips = available.chips(paper)
    counts = chips.groupby("chip_kind").chip.nunique()
    kinds = [number(int(counts[kind]), name) for kind, name in table.KINDS.items() if kind in counts]
    return f"{number(chips.chip.nunique(), 'chip')} ({listing(kinds)})"


def _die(row: Any) -> str:
    """Name a chip, after its die where one is told."""
    return f"{row.die}, {row.chip}" if row.die else str(row.chip)


def ratio_range(pairs: pd.DataFrame) -> str:
    """Say from which ``ratio`` to which those of dies run, and whose they are: ``2.00 (A1) to 16.0 times (D4)``."""
    least, most = extremes(table.confirmed(pairs), "ratio")
    if least.ratio == most.ratio:
        return f"{significant(most.ratio)} times ({_die(most)})"
    return f"{significant(least.ratio)} ({_die(least)}) to {significant(most.ratio)} times ({_die(most)})"


def tensor_beside_vector(chips: pd.DataFrame) -> pd.DataFrame:
    """Pair each chip's fastest 16-bit rate on tensor units with that at fp32 on vector units; maybe none.

    The columns of the latter end in ``_vector``; ``ratio`` is the former's peak over the latter's.
    """
    tensor = table.fastest(chips[chips.precision.isin(SIXTEEN_BITS) & (chips.unit == "tensor")])
    pairs = tensor.merge(matching(chips, precision="fp32", unit="vector"), on="chip", suffixes=("", "_vector"))
    return pairs.assign(ratio=pairs.peak_flop_per_s / pairs.peak_flop_per_s_vector)


@finding
def extent(paper: Paper) -> str:
    chips = available.chips(paper)
    roofs = number(len(chips), "roof")
    text = f"The table holds {count(paper)} with {roofs}, a roof being a chip's dense peak at one precision and unit."
    doubtful = chips[chips.verified == "no"]
    if doubtful.empty:
        return text + " Every roof is confirmed by its sources."
    return (
        f"{text} For {len(doubtful)} of these roofs, of {number(doubtful.chip.nunique(), 'chip')}, neither a document "
        "of the vendor nor two independent sources state every input, where a scrape, a reseller or a wiki does not "
        "count; figures draw them hollow and dashed."
    )


@finding
def on_chip(paper: Paper) -> str:
    chips = available.chips(paper)
    names = sorted(set(chips[table.on_chip(chips)].chip))
    if not names:
        return "All bandwidths are those of memory outside the chip."
    noun, verb = by_number(len(names), "bandwidth", "bandwidths"), by_number(len(names), "is", "are")
    owners = listing([f"the {name}" for name in names])
    return f"The {noun} of {owners} {verb} that of memory on the chip (marked †), and not comparable with DRAM."


@finding
def ridges(paper: Paper) -> str:
    chips = available.chips(paper)
    points = table.headline(chips[~table.on_chip(chips)])
    if points.empty:
        raise DataMissingError(
            "No chip of the table has memory outside the chip and a floating-point rate of 16 bits or more; add rows "
            "to data/chips.csv."
        )
    least, most = extremes(table.confirmed(points), "ridge_flop_per_byte")
    text = (
        "Among chips with memory outside the chip, confirmed ridge points of floating-point rates run from "
        f"{_ridge(least)} ({least.chip}) to {_ridge(most)} ({most.chip})."
    )
    kinds = ridge_medians(points)
    if len(kinds) < 2:
        return text
    low, *_, high = each(kinds.reset_index())
    return (
        f"{text} The median is lowest among {table.KINDS[low.chip_kind]}s ({intensity(low.median)}, "
        f"{number(int(low.dies), 'die')}) and highest among {table.KINDS[high.chip_kind]}s ({intensity(high.median)}, "
        f"{number(int(high.dies), 'die')}): a model needs that many operations for each byte it moves before "
        "arithmetic, and not memory, is its bound."
    )


def ridge_medians(points: pd.DataFrame) -> pd.DataFrame:
    """Return the ``median`` ridge point (FLOP/B) of each kind of several dies, the lowest first, and their number."""
    kinds = table.of_dies(points).groupby("chip_kind").ridge_flop_per_byte.agg(median="median", dies="size")
    return kinds[kinds.dies > 1].sort_values("median")


def _ridge(row: Any) -> str:
    return intensity(row.ridge_flop_per_byte, ridge_unit(row.precision))


@finding
def demand(paper: Paper) -> str:
    """Say which chips leave the models memory-bound, at 16-bit floating point."""
    chips = available.chips(paper)
    points = table.of_dies(table.fastest(chips[chips.precision.isin(SIXTEEN_BITS) & ~table.on_chip(chips)]))
    if points.empty:
        raise DataMissingError(
            "No chip of the table has memory outside the chip and a rate at 16-bit floating point; add rows to "
            "data/chips.csv."
        )
    models = available.workloads(paper, precision="bf16")
    low, high = extremes(table.confirmed(points), "ridge_flop_per_byte")
    text = (
        f"At 16-bit floating point the ridge points of {number(len(points), 'die')} run, where confirmed, from "
        f"{_ridge(low)} ({low.chip}) to {_ridge(high)} ({high.chip})."
    )
    for batch in sorted({models.batch.min(), models.batch.max()}):
        asked = models[models.batch == batch].footprint_intensity
        bound = int((points.ridge_flop_per_byte > asked.median()).sum())
        above = int((asked > points.ridge_flop_per_byte.median()).sum())
        text += (
            f" At batch size {batch} the median model has {intensity(asked.median())} and is memory-bound on "
            f"{bound or 'none'} of them. On the median die {above or 'none'} of {number(len(asked), 'model')} "
            f"{by_number(above, 'is', 'are')} compute-bound."
        )
    return text


@finding
def leaders(paper: Paper, kind: str) -> str:
    """Say what the figure of a kind shows, and who leads in it."""
    chips = available.chips(paper, kind)
    rows, shared = table.comparable(paper.chips, kind)
    total, name = chips.chip.nunique(), table.KINDS[kind]
    first = highest(table.confirmed(rows), "peak_flop_per_s")
    if not shared:
        some = "each is" if len(rows) == total else f"{len(rows)} of them are"
        form = "integers" if rate_unit(first.precision) == "OP/s" else "floating point"
        text = (
            f"No floating-point precision is shared by half of the {number(total, name)}; {some} shown at the fastest "
            f"rate of {form}."
        )
    elif total > 1:
        some = "All" if len(rows) == total else f"{len(rows)} of"
        text = f"{some} {number(total, name)} {'print' if len(rows) > 1 else 'prints'} a rate at {shared}."
    else:
        text = f"The {name} is at {shared}."
    top = "highest"
    if first.verified == "no":
        text += " No such rate is confirmed."
    elif (rows.verified == "no").any():
        top = "highest confirmed"
    at = "" if shared else f" at {first.precision}"
    text += f" The {top} peak is {si(first.peak_flop_per_s, rate_unit(first.precision))}{at}, of the {first.chip}."
    outside = rows[~table.on_chip(rows)]
    if outside.empty:
        return text
    widest = highest(table.confirmed(outside), "bandwidth_byte_per_s")
    owner = "the same chip" if widest.chip == first.chip else f"the {widest.chip}"
    flow = si(widest.bandwidth_byte_per_s, "B/s")
    return f"{text} The {top} bandwidth of memory outside the chip is {flow}, of {owner}."


FEWER_BITS = ("fp8", "fp6", "fp4", "int8", "int4")


def _beside(chips: pd.DataFrame, precision: str) -> pd.DataFrame:
    """Return rates at a precision, with their ``ratio`` to the chip's fastest 16-bit rate on the same unit."""
    base = chips[chips.precision.isin(SIXTEEN_BITS)].groupby(["chip", "unit"]).peak_flop_per_s.max()
    pairs = chips[chips.precision == precision].join(base.rename("base"), on=["chip", "unit"], how="inner")
    return pairs.assign(ratio=pairs.peak_flop_per_s / pairs.base)


@finding
def low_precision(paper: Paper) -> str:
    """Say how far 8 bits and fewer lift a roof above that of 16 bits; of integers these are other operations."""
    chips = available.chips(paper)
    beside = {precision: table.of_dies(_beside(chips, precision)) for precision in FEWER_BITS}
    known = {precision: pairs for precision, pairs in beside.items() if not pairs.empty}
    if not known:
        raise DataMissingError(
            "No chip in data/chips.csv has a rate at 8 bits or fewer beside one at 16 bits on the same unit; add rows."
        )
    medians = {precision: float(pairs.ratio.median()) for precision, pairs in known.items()}
    ends = dict.fromkeys(end(medians, key=medians.__getitem__) for end in (min, max))
    parts = [
        f"{significant(medians[precision])} times as high at {precision} in the median of "
        f"{number(known[precision].chip.nunique(), 'die')}"
        for precision in ends
    ]
    text = f"Against 16 bits on the same unit of the same chip the dense peak is {' and '.join(parts)}."
    precision, slow = min(
        ((precision, lowest(table.confirmed(pairs), "ratio")) for precision, pairs in known.items()),
        key=lambda found: float(found[1].ratio),
    )
    if slow.ratio >= 1:
        return text
    return (
        f"{text} Fewer bits may be slower: {_die(slow)} has {significant(slow.ratio)} times its 16-bit peak at "
        f"{precision}."
    )


@finding
def sparsity(paper: Paper) -> str:
    chips = available.chips(paper)
    both = chips[chips.sparse_peak_flop_per_s.notna()]
    if both.empty:
        return "No roof of the table has a sparse peak beside the dense one."
    both = both.assign(ratio=both.sparse_peak_flop_per_s / both.peak_flop_per_s)
    dies = table.of_dies(both).groupby("chip").ratio.median()
    most = highest(table.confirmed(both), "ratio")
    return (
        "Where vendors print a sparse peak beside the dense one, it is in the median of "
        f"{number(len(dies), 'die')} {significant(dies.median())} times as high and at most {significant(most.ratio)} "
        f"times ({most.chip} at {most.precision}): whoever takes the one for the other is wrong by that factor."
    )


@finding
def matrix_units(paper: Paper) -> str:
    """Hold tensor units of CPUs against the vector units of the same chip, and against CPUs without."""
    cpus = available.chips(paper, "cpu")
    pairs = tensor_beside_vector(cpus)
    if pairs.empty:
        return "No CPU of the table has a 16-bit rate on tensor units beside one at fp32 on vector units."
    parts = [
        f"the {row.chip} computes {significant(row.ratio)} times as fast at {row.precision} on its tensor units as "
        f"at fp32 on its vector units"
        for row in each(pairs)
    ]
    moves = [
        f"from {intensity(row.ridge_flop_per_byte_vector)} to {intensity(row.ridge_flop_per_byte)}"
        for row in each(pairs)
    ]
    have = by_number(len(pairs), "has", "have")
    text = f"Of {number(cpus.chip.nunique(), 'CPU')} {len(pairs)} {have} such units: {listing(parts)}. "
    text += f"{by_number(len(pairs), 'Its ridge point moves', 'Their ridge points move')} {listing(moves)}."
    vector = matching(cpus, unit="vector", precision="fp32")
    tensor = cpus[(cpus.unit == "tensor") & cpus.precision.isin(SIXTEEN_BITS)]
    without = vector[~vector.chip.isin(tensor.chip)]
    if without.empty:
        return text
    best = highest(table.confirmed(without), "peak_flop_per_s")
    return (
        f"{text} The fastest CPU without them, the {best.chip}, reaches {si(best.peak_flop_per_s, 'FLOP/s')} at fp32."
    )
