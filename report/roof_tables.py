"""Tables of what roofs are made of: the arithmetic of each kernel, and the levels of memory."""

from report import available
from report.available import or_missing
from report.paper import Machine, Paper
from report.prose import escape
from report.quantities import si
from report.roofs import ARITHMETIC, STREAMS, burst, fastest, sustained
from report.tables import LEFT, NONE, RIGHT, between, pipe


@or_missing
def arithmetic(paper: Paper) -> str:
    """The rates of arithmetic of all machines, by precision and kernel, at both paces."""
    rows = [
        [escape(available.title(machine)), *cells]
        for machine in available.machines(paper)
        for cells in _arithmetic(machine)
    ]
    if not rows:
        available.roof(available.machines(paper)[0])
    header = [("Machine", LEFT), ("Precision", LEFT), ("Kernel", LEFT), ("Rows", RIGHT)]
    header += [("Sustained", RIGHT), ("95 % interval", RIGHT), ("Burst", RIGHT)]
    return pipe(header, rows)


def _arithmetic(machine: Machine) -> list[list[str]]:
    table = []
    steady = sustained(machine.ceilings, ARITHMETIC)
    for (precision, kernel), own in steady.groupby(["precision", "kernel"], sort=False):
        best = fastest(own, "flop_per_s")
        short = burst(machine.ceilings, [str(kernel)])
        short = short[short.precision == precision]
        table.append(
            [
                str(precision),
                ARITHMETIC[str(kernel)],
                NONE if kernel == "fma" else str(best["size"]),
                si(best.flop_per_s, "FLOP/s"),
                between(best.flop_per_s_low, best.flop_per_s_high, "FLOP/s"),
                NONE if short.empty else si(fastest(short, "flop_per_s").flop_per_s, "FLOP/s"),
            ]
        )
    return table


@or_missing
def levels(paper: Paper) -> str:
    """The levels of memory of the machines that figures show: what each serves, and how fast."""
    rows = []
    for machine in paper.shown:
        for level in machine.levels:
            rates = [
                level.kernels[name].byte_per_s if name in level.kernels else None for name in STREAMS.values()
            ]
            rows.append(
                [
                    escape(available.title(machine)),
                    level.name,
                    between(level.level.first_byte, level.level.last_byte, "B"),
                    si(level.cache.byte, "B") if level.cache else NONE,
                    *(NONE if rate is None else si(rate, "B/s") for rate in rates),
                ]
            )
    if not rows:
        available.levels(available.machines(paper)[0])
    header = [("Machine", LEFT), ("Level", LEFT), ("Working sets", RIGHT), ("Reported", RIGHT)]
    header += [(name.capitalize(), RIGHT) for name in STREAMS.values()]
    return pipe(header, rows)
