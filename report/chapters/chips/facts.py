"""Facts of chips: their ridge points, what a watt and a dollar buy, and the bound of the median network."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from measure.domain.chips import fastest_units
from measure.domain.statistics import FEWEST_MODELS
from report.facts import Facts, missing, source_of, sourced
from report.paper import BASE_PRECISION, LOWER_PRECISIONS, Machine, Paper, chips, processor
from report.paper.frames import each, matching
from report.stats.value import NOTHING, Name, Source, Value, count_of, estimated, exact, extremes, ratio

FEWEST_DIES = 3  # for a median of a kind
MOST_LABELLED = 24  # roofs with room for a name; more chips are cut to LABELLED
SMALL = "phones, laptops and boards"
LABELLED = {
    "data centre and desktop": (
        "Intel Xeon Platinum 8380", "NVIDIA Grace CPU (72 cores)", "NVIDIA T4", "NVIDIA GeForce RTX 4090",
        "AMD Instinct MI250X", "NVIDIA H100 SXM", "NVIDIA B200 SXM", "Google TPU v6e (Trillium)",
    ),
    SMALL: (
        "Qualcomm Snapdragon 865 (Adreno 650)", "Apple A16 GPU", "MediaTek Dimensity 9200 (Immortalis-G715 MC11)",
        "Apple M2 GPU (10 cores)", "Apple M1 Max GPU (32 cores)", "NVIDIA Jetson Nano", "NVIDIA Jetson AGX Orin 64GB",
    ),
}  # fmt: skip
"""The chips of the figure's panels."""

UNITS = {"cpu": "vector", "gpu": "tensor", "asic": "tensor", "soc": "vector"}
"""The units by which the chips of a kind are compared: most phones' rates are known at fp32 alone."""

EXAMPLE = "NVIDIA T4"  # compared at two precisions; without it, the first chip with both
LATER = "NVIDIA H100 SXM"  # compared with the example


class ChipTable(Facts):
    """Counts of the table of chips; missing for one chip, as no sentence is about a single one."""

    chips: Value  #: chips with a datasheet roof
    unconfirmed: Value  #: chips with a number that neither the vendor nor two independent sources state


class Typical(Facts):
    """The median ridge point over the dies of a kind with memory outside the chip."""

    cpu: Value  #: median ridge point of CPUs by die, at fp32
    gpu: Value  #: median ridge point of GPUs with matrix units by die, at fp32 on vector units
    matrix: Value  #: median ridge point of the same GPUs, at 16 bits on matrix units
    asic: Value  #: median ridge point of ASICs by die, at 16 bits on matrix units
    soc: Value  #: median ridge point of the GPUs in phones, laptops and boards by die, at fp32 on vector units


class Costs(Facts):
    """What a watt and a dollar buy. Medians are over dies. Memory on the chip is left out."""

    flop_gpu: Value  #: median peak for each watt of GPUs with matrix units, at fp32 on vector units
    flop_matrix: Value  #: median peak for each watt of the same GPUs, at 16 bits on matrix units
    byte_gpu: Value  #: median bandwidth for each watt of the same GPUs
    reading_gpu: Value  #: median time in which a GPU reads its whole memory
    reading_most: Value  #: the longest time in which a chip reads its whole memory, with the chip
    listed: Value  #: chips with a list price of their own
    least_price: Value  #: the lowest list price for each GB/s of bandwidth, with the chip
    most_price: Value  #: the highest list price for each GB/s of bandwidth, with the chip


class ChipDemand(Facts):
    """The median network at bf16 under the dies' ridge points at 16 bits."""

    networks: Value  #: networks counted at both batch sizes
    dies: Value  #: dies with a 16-bit rate and memory outside the chip
    large: Value  #: the larger batch size
    whole_small: Value  #: dies where the median network is memory-bound at the smaller batch, by its compulsory bytes
    whole_large: Value  #: dies where the median network is memory-bound at the larger batch, by its compulsory bytes
    layers_small: Value  #: dies where the median network is memory-bound at the smaller batch, by its layers' bytes
    layers_large: Value  #: dies where the median network is memory-bound at the larger batch, by its layers' bytes
    intensity: Value  #: FLOP per byte of the median network at the smaller batch, by its compulsory bytes


class Precision(Facts):
    chip: Name  #: the chip compared at two precisions
    vector: Value  #: ridge point of that chip at fp32 on vector units
    tensor: Value  #: ridge point of that chip at 16 bits on tensor units


class Upgrade(Facts):
    """From the NVIDIA T4 to the NVIDIA H100 SXM, at 16 bits on tensor units."""

    peak: Value  #: peak of the later chip over that of the earlier one
    bandwidth: Value  #: bandwidth of the later chip over that of the earlier one


class Hand(Facts):
    machine: Name  #: the machine at hand
    promised: Value  #: peak at fp32 from cores, clock and FLOP per cycle, or from the datasheet
    measured: Value  #: measured peak at fp32
    share: Value  #: measured over promised peak


class Sparse(Facts):
    factor: Value  #: sparse over dense peak of the median die


class Generations(Facts):
    v100: Value  #: ridge point of the NVIDIA V100 SXM2, 2017, at 16 bits
    h100: Value  #: ridge point of the NVIDIA H100 SXM, 2022, at 16 bits
    b200: Value  #: ridge point of the NVIDIA B200 SXM, 2024, at 16 bits
    rtx4090: Value  #: ridge point of the NVIDIA GeForce RTX 4090, 2022, at 16 bits
    rtx5090: Value  #: ridge point of the NVIDIA GeForce RTX 5090, 2025, at 16 bits
    narrow: Value  #: dense peak at fp4 over 16 bits of the NVIDIA B300 SXM, 2025


class Chips(Facts):
    table: ChipTable
    typical: Typical
    costs: Costs
    demand: ChipDemand
    precision: Precision
    upgrade: Upgrade
    hand: Hand
    arithmetic: Name  #: the factors of the peak at fp32 of the machine at hand
    sparse: Sparse
    generations: Generations
    is_small_like_large: (
        bool  #: At fp32 small GPUs have a ridge point little below that of large ones, CPUs a lower one
    )
    has_integers: bool  #: The figure's chips include one with a rate of integers alone
    has_unconfirmed: bool  #: ... one with a rate that is not confirmed
    has_memory_inside: bool  #: ... one with its memory on the chip
    has_measured_power: bool  #: ... one with power that somebody measured
    has_other_prices: bool  #: ... one with a price that is an estimate, or of a whole device
    waits_on_both: bool  #: The median network, as a whole, is below the ridge points of the T4 and of the H100
    levelled_off: bool  #: V100 to H100 doubled the ridge point, and B200 is within a tenth of H100
    turned_back: bool  #: The RTX 5090 has a lower ridge point than the RTX 4090


def of(paper: Paper) -> Chips:
    found = paper.chips
    outside = found[~chips.on_chip(found)]
    generations, (hand, arithmetic) = _generations(found), _hand(paper)
    counts = found.chip.nunique(), found[found.verified == "no"].chip.nunique()
    table = ChipTable(*(count_of(count, "chips") if counts[0] > 1 else NOTHING for count in counts))
    v100, h100, b200, rtx4090, rtx5090 = (
        getattr(generations, chip).number or 0.0 for chip in ("v100", "h100", "b200", "rtx4090", "rtx5090")
    )
    typical, drawn = _typical(outside), labelled(found)
    demand, precision, upgrade = _demand(paper, outside), _precision(found), _upgrade(found)
    cpu, gpu, soc = (each.number or 0.0 for each in (typical.cpu, typical.gpu, typical.soc))
    return Chips(
        table=sourced(table, _source("all")),
        typical=sourced(typical, _source("off-chip memory, by die")),
        costs=sourced(_costs(outside), _source("off-chip memory, by die")),
        demand=demand,
        precision=sourced(precision, _source("fp32 and 16 bits")),
        upgrade=sourced(upgrade, _source("tensor units, 16 bits")),
        hand=hand,
        arithmetic=Name(arithmetic.replace(" x ", " × ") or None, hand.machine.source),
        sparse=sourced(_sparse(found), _source("with sparse peaks")),
        generations=sourced(generations, _source("tensor units, 16 bits")),
        is_small_like_large=0 < cpu < soc and 0.75 * gpu < soc < gpu,
        has_integers=bool((~drawn.precision.isin(chips.FLOATING)).any()),
        has_unconfirmed=bool((drawn.verified != "yes").any()),
        has_memory_inside=bool(chips.on_chip(drawn).any()),
        has_measured_power=bool(has_measured_power(drawn).any()),
        has_other_prices=bool((drawn.price_usd.notna() & ~has_own_price(drawn)).any()),
        waits_on_both=0 < (demand.intensity.number or 0.0) < min(precision.tensor.number or 0.0, h100),
        levelled_off=h100 > 2 * v100 > 0 and abs(b200 - h100) < 0.1 * h100,
        turned_back=0 < rtx5090 < rtx4090,
    )


def _source(rows: str) -> Source:
    return Source("chips.csv", rows)


def alike(outside: pd.DataFrame, kind: str, unit: str | None = None) -> pd.DataFrame:
    """Return the chips of a kind: at fp32 on vector units, at 16 bits on tensor units; by default of ``UNITS``."""
    unit = unit or UNITS[kind]
    precisions = [BASE_PRECISION] if unit == "vector" else LOWER_PRECISIONS
    of_kind = outside[(outside.chip_kind == kind) & (outside.unit == unit) & outside.precision.isin(precisions)]
    return chips.fastest(of_kind)


def _gpus(outside: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the dies of GPUs with matrix units: at fp32 on vector units, and at 16 bits on matrix units."""
    vector, matrix = alike(outside, "gpu", "vector"), alike(outside, "gpu")
    matrix = chips.of_dies(matrix[matrix.chip.isin(vector.chip)])
    return vector[vector.chip.isin(matrix.chip)], matrix


def _median(values: "pd.Series[float]", unit: str) -> Value:
    known = values.dropna().astype(float)
    middle = float(known.median()) if len(known) >= FEWEST_DIES else None
    return Value(middle, unit, count=len(known), counted="dies")


def _typical(outside: pd.DataFrame) -> Typical:
    cpu, asic, soc = (chips.of_dies(alike(outside, kind)) for kind in ("cpu", "asic", "soc"))
    dies = (cpu, *_gpus(outside), asic, soc)
    return Typical(*(_median(rows.ridge_flop_per_byte, "FLOP/B") for rows in dies))


def has_own_price(found: pd.DataFrame) -> "pd.Series[bool]":
    """True for rows with a list price of the chip, card or module: no estimate, and not of a whole device."""
    return found.price_usd.notna() & ~found.note.str.contains("price is")


def has_measured_power(found: pd.DataFrame) -> "pd.Series[bool]":
    """True for rows with power that somebody measured, not the vendor's limit."""
    return found.note.str.contains("power is measured")


def _costs(outside: pd.DataFrame) -> Costs:
    vector, matrix = _gpus(outside)
    rows = chips.headline(outside).set_index("chip", drop=False)
    reading = rows.memory_byte.astype(float) / rows.bandwidth_byte_per_s
    price = (rows.price_usd.astype(float) / (rows.bandwidth_byte_per_s / 1e9)).where(has_own_price(rows))
    dies = chips.of_dies(rows)
    return Costs(
        _median(vector.peak_flop_per_s / vector.power_w, "FLOP/s"),
        _median(matrix.peak_flop_per_s / matrix.power_w, "FLOP/s"),
        _median(matrix.bandwidth_byte_per_s / matrix.power_w, "B/s"),
        _median(reading[dies[dies.chip_kind == "gpu"].chip], "s"),
        extremes(reading, "s", fewest=2)[1],
        count_of(price.notna().sum(), "chips"),
        *extremes(price, "USD", fewest=2),
    )


def _demand(paper: Paper, outside: pd.DataFrame) -> ChipDemand:
    source = source_of("workload/models.csv", "bf16, and chips.csv", "workload")
    dies = chips.of_dies(chips.fastest(outside[outside.precision.isin(LOWER_PRECISIONS)])).ridge_flop_per_byte
    counted = matching(paper.workloads, precision="bf16")
    sizes = sorted(int(size) for size in set(counted.batch) if size <= 64)
    small, large = sizes[:1], sizes[1:][-1:]
    ends = counted[counted.batch.isin(small + large)]
    ends = ends[ends.groupby("model").batch.transform("nunique") == ends.batch.nunique()]
    networks = ends.model.nunique()
    if dies.empty or networks < FEWEST_MODELS:
        return sourced(missing(ChipDemand), source)

    def bound(column: str, batch: list[int]) -> Value:
        middle = ends[ends.batch.isin(batch)][column].median()
        return count_of((dies > middle).sum(), "dies") if batch else NOTHING

    facts = ChipDemand(
        networks=count_of(networks, "models"),
        dies=count_of(len(dies), "dies"),
        large=exact(large[0] if large else None),
        whole_small=bound("compulsory_intensity", small),
        whole_large=bound("compulsory_intensity", large),
        layers_small=bound("traffic_intensity", small),
        layers_large=bound("traffic_intensity", large),
        intensity=exact(matching(ends, batch=small[0]).compulsory_intensity.median(), "FLOP/B"),
    )
    return sourced(facts, source)


def _precision(found: pd.DataFrame) -> Precision:
    vector = matching(found, unit="vector", precision="fp32")
    tensor = chips.fastest(found[found.precision.isin(LOWER_PRECISIONS) & (found.unit == "tensor")])
    pairs = vector.merge(tensor, on="chip", suffixes=("", "_tensor"))
    pairs = pairs[pairs.chip == EXAMPLE] if EXAMPLE in set(pairs.chip) else pairs
    if pairs.empty:
        return missing(Precision)
    row: Any = pairs.iloc[0]
    ridges = (row.ridge_flop_per_byte, row.ridge_flop_per_byte_tensor)
    return Precision(Name(row.chip), *(exact(ridge, "FLOP/B") for ridge in ridges))


def _upgrade(found: pd.DataFrame) -> Upgrade:
    rows = chips.fastest(found[found.precision.isin(LOWER_PRECISIONS) & (found.unit == "tensor")]).set_index("chip")
    if not {EXAMPLE, LATER} <= set(rows.index):
        return missing(Upgrade)
    rates = rows[["peak_flop_per_s", "bandwidth_byte_per_s"]].astype(float)
    ratios: Any = rates.loc[LATER] / rates.loc[EXAMPLE]
    return Upgrade(exact(ratios.peak_flop_per_s), exact(ratios.bandwidth_byte_per_s))


def promised(paper: Paper, machine: Machine) -> tuple[float | None, str]:
    """Return a machine's theoretical peak (FLOP/s) at fp32, and the arithmetic behind it.

    A processor has cores x measured clock x FLOP per cycle: a virtual machine sees only some cores of its chip. A GPU
    has the peak of its datasheet.
    """
    if machine.chip_kind != "cpu":
        printed = fastest_units(each(chips.datasheet(paper.chips, machine.environment.name))).get(BASE_PRECISION)
        return (None, "") if printed is None else (printed.peak_flop_per_s, printed.derivation)
    peak = processor.peaks(paper.flop_per_cycle, machine.environment, machine.clock_hz).get(BASE_PRECISION)
    return (None, "") if peak is None or peak.flop_per_s is None else (peak.flop_per_s, peak.arithmetic)


def _hand(paper: Paper) -> tuple[Hand, str]:
    """Return facts of the machine at hand, and the factors of its peak."""
    machine = paper.at_hand
    source = source_of(f"machines/{machine.folder if machine else '*'}/roofs.csv", "fp32", "roofs")
    rows = [] if machine is None else list(each(matching(machine.roofs, precision=BASE_PRECISION)))
    if machine is None or not rows:
        return sourced(replace(missing(Hand), machine=Name(machine.name if machine else None)), source), ""
    peak, arithmetic = promised(paper, machine)
    measured = estimated(rows[0], "peak_flop_per_s", "FLOP/s")
    share = replace(ratio(measured, Value(peak, "", peak, peak)), unit="%")
    facts = Hand(Name(machine.name), exact(peak, "FLOP/s"), measured, share)
    return sourced(facts, source), arithmetic.partition(";")[0].partition(" = ")[0]


def _sparse(found: pd.DataFrame) -> Sparse:
    both = found[found.sparse_peak_flop_per_s.notna()]
    both = both.assign(factor=both.sparse_peak_flop_per_s / both.peak_flop_per_s)
    dies = chips.of_dies(both).groupby("chip").factor.median()
    factor = float(dies.median()) if len(dies) else None
    if factor and factor.is_integer():
        factor = int(factor)  # prints as 2, not as 2.00
    return Sparse(Value(factor, count=len(dies), counted="dies"))


def _generations(found: pd.DataFrame) -> Generations:
    tensor = found[(found.unit == "tensor") & found.precision.isin(LOWER_PRECISIONS)].drop_duplicates("chip")
    ridges = tensor.set_index("chip").ridge_flop_per_byte
    names = (
        "NVIDIA V100 SXM2", "NVIDIA H100 SXM", "NVIDIA B200 SXM", "NVIDIA GeForce RTX 4090",
        "NVIDIA GeForce RTX 5090",
    )  # fmt: skip
    rates = matching(found, chip="NVIDIA B300 SXM").groupby("precision").peak_flop_per_s.max()
    narrow = rates.get("fp4", float("nan")) / rates.get("fp16", float("nan"))
    return Generations(*[*(exact(ridges.get(chip), "FLOP/B") for chip in names), exact(narrow)])


def labelled(found: pd.DataFrame) -> pd.DataFrame:
    """Return the chips of the figure and the table, each at its fastest rate of floating point, else of integers.

    ``panel`` is the figure's panel, ``short`` the name without vendor and cores, if that tells it from the others.
    """
    floating = chips.headline(found)
    rows = pd.concat([floating, chips.fastest(found[~found.chip.isin(floating.chip)])])
    panels = {chip: panel for panel, members in LABELLED.items() for chip in members}
    if rows.chip.nunique() > MOST_LABELLED:
        rows = rows[rows.chip.isin(panels)]
    panel = np.where(rows.chip_kind == "soc", SMALL, next(iter(LABELLED)))
    order = {kind: place for place, kind in enumerate(chips.KINDS)}
    names = [row.chip.removeprefix(f"{row.vendor} ").removeprefix("GeForce ").partition(" (")[0] for row in each(rows)]
    short = pd.Series(names, rows.index)
    short = short.mask(short.duplicated(keep=False), rows.chip)
    rows = rows.assign(panel=panel, order=rows.chip_kind.map(order), short=short)
    return rows.sort_values(["order", "year", "peak_flop_per_s"])
