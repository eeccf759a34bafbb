"""Tables of what roofs are made of: the arithmetic of each kernel, and the levels of memory."""

from report.analysis import available, datasheet
from report.analysis.available import or_missing
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.load.roofs import ARITHMETIC, STREAMED_BY, STREAMS, burst, fastest, sustained
from report.tables.pipe import LEFT, NONE, RIGHT, between, cited, pipe, with_interval
from report.text.frame_rows import each
from report.text.prose import escape
from report.text.quantities import SPACE, intensity, percent, rate_unit, si


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


@or_missing
def measured_roofs(paper: Paper) -> str:
    """The measured roofs of all machines, with their intervals."""
    rows = []
    for machine in available.machines(paper):
        for roof in each(machine.roofs):
            rows.append(
                [
                    escape(available.title(machine)), roof.precision, ARITHMETIC[roof.peak_kernel],
                    *with_interval(
                        roof.peak_flop_per_s, roof.peak_low_flop_per_s, roof.peak_high_flop_per_s, "FLOP/s"
                    ),
                    STREAMED_BY[roof.bandwidth_kernel],
                    *with_interval(
                        roof.bandwidth_byte_per_s, roof.bandwidth_low_byte_per_s, roof.bandwidth_high_byte_per_s,
                        "B/s",
                    ),
                    intensity(roof.peak_flop_per_s / roof.bandwidth_byte_per_s),
                ]
            )  # fmt: skip
    if not rows:
        available.roof(available.machines(paper)[0])
    header = [("Machine", LEFT), ("Precision", LEFT), ("By", LEFT), ("Peak", RIGHT), ("95 % interval", RIGHT)]
    header += [("By", LEFT), ("Bandwidth", RIGHT), ("95 % interval", RIGHT), ("Ridge point", RIGHT)]
    return pipe(header, rows)


@or_missing
def datasheet_roofs(paper: Paper) -> str:
    """The datasheet roofs of all machines beside the share of each peak that was measured."""
    rows = []
    for machine in available.machines(paper):
        for roof in datasheet.roofs(paper, machine):
            measured = machine.roof(roof.precision)
            doubt = "" if roof.confirmed else f"{SPACE}\\*"
            rows.append(
                [
                    escape(available.title(machine)), roof.precision + doubt,
                    escape(roof.derivation), si(roof.peak_flop_per_s, rate_unit(roof.precision)),
                    NONE if roof.bandwidth_byte_per_s is None else si(roof.bandwidth_byte_per_s, "B/s"),
                    percent(measured.peak_flop_per_s / roof.peak_flop_per_s) if measured else NONE,
                    cited(roof.source),
                ]
            )  # fmt: skip
    if not rows:
        gaps = [datasheet.gap(paper, machine, BASE_PRECISION) for machine in available.machines(paper)]
        raise available.DataMissingError(" ".join(gaps))
    header = [
        ("Machine", LEFT),
        ("Precision", LEFT),
        ("Derivation", LEFT),
        ("Peak", RIGHT),
    ]
    header += [("Bandwidth", RIGHT), ("Measured", RIGHT), ("Sources", LEFT)]
    return pipe(header, rows)
