"""What the measured roofs are made of: kernels, levels of memory, paces."""

from report.analysis import available
from report.analysis.available import finding
from report.load.paper import Machine, Paper
from report.load.roofs import (
    ARITHMETIC,
    STREAMS,
    MemoryLevel,
    burst,
    fastest,
    fastest_arithmetic,
    sustained,
)
from report.text.frame_rows import each
from report.text.quantities import listing, number, percent, si

NOTICED = 0.02
"""A share below which two rates are told as the same: the width that intervals are measured to."""


def peaks(machine: Machine) -> str:
    """Which kernel each precision's roof is, and how near the best matrix product comes to it."""
    available.roof(machine)
    rates = {
        (what, row.precision): float(row.flop_per_s) for what, row in fastest_arithmetic(machine.ceilings)
    }
    told, without = [], []
    for roof in each(machine.roofs):
        added, product = (rates.get((what, roof.precision)) for what in ("multiply-add", "matrix product"))
        rate = si(roof.peak_flop_per_s, "FLOP/s")
        if added is None:
            without.append(f"{roof.precision} ({rate})")
            continue
        text = f"at {roof.precision} the {ARITHMETIC[roof.peak_kernel]} with {rate}"
        if product is not None:
            text += (
                f" (the fastest matrix product reaches {percent(product / added)} of the multiply-add's rate)"
            )
        told.append(text)
    if without:
        told.append(
            f"the fastest matrix product at {listing(without)}, where no multiply-add in registers was measured"
        )
    return f"The fastest arithmetic of the {available.title(machine)} is {listing(told)}."


def level(found: MemoryLevel) -> str:
    """A level's extent and its fastest stream."""
    rate = si(found.bandwidth_byte_per_s, "B/s")
    if found.name == "memory":
        return f"memory at {rate} ({found.fastest}) from {si(found.level.first_byte, 'B')} on"
    return f"{found.name} at {rate} ({found.fastest}) up to {si(found.level.last_byte, 'B')}"


def levels(machine: Machine) -> str:
    """The levels of memory that the sweep shows, against the caches that the system reports."""
    found = available.levels(machine)
    text = (
        f"Reading working sets of growing size shows {number(len(found), 'level')} of memory: "
        f"{listing([level(one) for one in found])}. "
    )
    if not machine.caches:
        return f"{text}The system reports no caches to compare them with."
    agreed = [one.cache for one in found]
    missed = [cache for cache in machine.caches if cache not in agreed]
    named = [f"L{cache.level} of {si(cache.byte, 'B')}" for cache in machine.caches]
    text += f"The system reports {listing(named)}, all cores' together"
    if not missed:
        return f"{text}; each level ends where one of these does."
    silent = [f"L{cache.level}" for cache in missed]
    return f"{text}; of these the sweep shows no end of {listing(silent)}."


def paces(machine: Machine) -> str:
    """How much faster bursts are than what lasts."""
    parts = []
    rows = machine.ceilings
    for kernels, rate, names in ((ARITHMETIC, "flop_per_s", ARITHMETIC), (STREAMS, "byte_per_s", STREAMS)):
        for (kernel, precision), short in burst(rows, kernels).groupby(["kernel", "precision"], sort=False):
            steady = sustained(rows, [str(kernel)])
            steady = steady[(steady.precision == precision) & steady["size"].isin(list(short["size"]))]
            if not steady.empty:
                gain = fastest(short, rate)[rate] / fastest(steady, rate)[rate] - 1
                at = f" at {precision}" if kernels is ARITHMETIC else ""
                parts.append((float(gain), f"{names[str(kernel)]}{at}"))
    if not parts:
        return "No bursts were measured."
    most, kernel = max(parts)
    if most < NOTICED:
        return f"No kernel is faster in bursts than over seconds by {percent(NOTICED)} or more."
    return f"In bursts the {kernel} is {percent(most)} faster than over seconds, the others less."


@finding
def measured(paper: Paper) -> str:
    """The roofs of each machine shown: kernels, levels, paces."""
    return available.told_of_each(
        paper, lambda machine: f"{peaks(machine)} {available.or_missing(levels)(machine)} {paces(machine)}"
    )
