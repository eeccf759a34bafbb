"""What the measured roofs are made of, kernels and levels of memory, and whether a burst would tell them."""

from measure.domain.words import EIGHT_BITS
from report.analysis import available, datasheet
from report.analysis.available import on_each_machine, or_missing
from report.load import roofs
from report.load.paper import Machine, Paper
from report.load.roofs import ARITHMETIC, STREAMS
from report.text.frame_rows import each, highest
from report.text.prose import command, listing, number, percent, rate_unit, si

NOTICED = 0.02
"""A share below which two rates are told as the same."""


def peaks(machine: Machine) -> str:
    """Say which kernel each precision's roof is, and how near the best matrix product comes to it."""
    available.roof(machine)
    rates = {
        (what, row.precision): float(row.flop_per_s)
        for what, row in roofs.fastest_arithmetic(machine.roof_measurements)
    }
    parts, without = [], []
    for roof in each(machine.roofs):
        added, product = (rates.get((what, roof.precision)) for what in ("multiply-add", "matrix product"))
        rate = si(roof.peak_flop_per_s, "FLOP/s")
        if added is None:
            without.append(f"{roof.precision} ({rate})")
            continue
        text = f"at {roof.precision} the {ARITHMETIC[roof.peak_kernel]} with {rate}"
        if product is not None:
            near = percent(product / added)
            text += f" (the fastest matrix product reaches {near} of the multiply-add's rate)"
        parts.append(text)
    if without:
        where = "where no multiply-add in registers was measured"
        parts.append(f"the fastest matrix product at {listing(without)}, {where}")
    return f"The fastest arithmetic of the {available.title(machine)} is {listing(parts)}."


def eight_bits(paper: Paper, machine: Machine) -> str:
    """Say the peaks that no model is held against, and what share of the datasheet's they are; empty without any."""
    printed = {roof.precision: roof.peak_flop_per_s for roof in datasheet.roofs(paper, machine)}
    parts = []
    for precision, rate in machine.measured_roof.flop_per_s.items():
        if precision in EIGHT_BITS:
            share = f" ({percent(rate / printed[precision])} of the datasheet's peak)" if precision in printed else ""
            parts.append(f"{si(rate, rate_unit(precision))} at {precision}{share}")
    if not parts:
        return ""
    return (
        f"Matrix products at precisions that no model is run in reach {listing(parts)}; no model is held against them."
    )


def levels(machine: Machine) -> str:
    """Hold the levels of memory that the sweep shows against the caches that the system reports."""
    found = available.levels(machine)
    rates = [f"{si(level.bandwidth_byte_per_s, 'B/s')} ({level.name}, {level.fastest})" for level in found]
    text = f"Reading working sets of growing size shows {number(len(found), 'level')} of memory"
    text += f", whose fastest streams reach {rates[0]} to {rates[-1]}." if len(rates) > 1 else f", at {rates[0]}."
    if not machine.caches:
        return f"{text} The system reports no caches to compare them with."
    agreed = [level.cache for level in found]
    missed = [f"L{cache.level}" for cache in machine.caches if cache not in agreed]
    if not missed:
        return (
            f"{text} The size of each cache that the system reports, all cores' together, lies between the largest set "
            "that a level serves and the smallest that the next one does, a step more or less."
        )
    return f"{text} Of the caches that the system reports the sweep shows no end of {listing(missed)}."


@on_each_machine
def paces(paper: Paper, machine: Machine) -> str:
    """Say whether a short test tells a peak: how much faster bursts are than what lasts."""
    available.roof(machine)
    where = f"On the {available.title(machine)}"
    gains = []
    rows = machine.roof_measurements
    for names, rate in ((ARITHMETIC, "flop_per_s"), (STREAMS, "byte_per_s")):
        for (kernel, precision), short in roofs.burst(rows, names).groupby(["roof_kernel", "precision"], sort=False):
            steady = roofs.sustained(rows, [str(kernel)])
            steady = steady[(steady.precision == precision) & steady["size"].isin(list(short["size"]))]
            if not steady.empty:
                gain = float(highest(short, rate)[rate] / highest(steady, rate)[rate] - 1)
                at = f" at {precision}" if names is ARITHMETIC else ""
                gains.append((gain, f"{names[str(kernel)]}{at}"))
    if not gains:
        return f"{where} no bursts were measured, which would tell whether a short test tells a peak."
    most, name = max(gains)
    if most < NOTICED:
        return (
            f"{where} a short test tells a peak as well as a long one: no kernel is faster in bursts than over seconds "
            f"by {percent(NOTICED)} or more."
        )
    return f"{where} take a peak from seconds of work: in bursts the {name} is {percent(most)} faster, the others less."


@on_each_machine
def measured(paper: Paper, machine: Machine) -> str:
    """Say what the roofs are made of: kernels and levels."""
    parts = [peaks(machine), disturbed(machine), eight_bits(paper, machine), or_missing(levels)(machine)]
    return " ".join(filter(None, parts))


def disturbed(machine: Machine) -> str:
    """Say that other programs ran while the roofs were measured, and what to do; empty where none did."""
    load = machine.measured_roof.load
    if not load:
        return ""
    again = command(f"python -m measure --device {machine.environment.device} --sections roofs")
    return (
        f"Other programs used {percent(load)} of its cores meanwhile, so its roofs are too low and every "
        f"share of them is too high; {again} measures them again."
    )
