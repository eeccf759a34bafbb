"""Tables of what roofs are made of: the arithmetic of each benchmark, and the levels of memory."""

from measure.domain.values import SPACE
from report.analysis import available, datasheet, fleet
from report.analysis.available import or_missing
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.load.roofs import ARITHMETIC, STREAMS, burst, sustained
from report.tables.pipe import NONE, between, cited, known, named, pipe, with_interval
from report.text.frame_rows import each, highest
from report.text.prose import escape, intensity, percent, rate_unit, si


@or_missing
def arithmetic(paper: Paper) -> str:
    """List the rates of arithmetic of each machine, by precision and benchmark; of a fleet the shown."""
    machines, _ = fleet.listed(paper)
    rows = [row for machine in machines for row in _arithmetic(machine)]
    if not rows:
        available.roof(machines[0])
    return pipe("Machine | Precision | Kernel | Rows > | Sustained > | 95 % interval > | Burst >", rows, of="Machine")


def _arithmetic(machine: Machine) -> list[list[str]]:
    rows = []
    for (precision, kernel), lasting in sustained(machine.roof_measurements, ARITHMETIC).groupby(
        ["precision", "roof_kernel"], sort=False
    ):
        best = highest(lasting, "flop_per_s")
        short = burst(machine.roof_measurements, [str(kernel)])
        short = short[short.precision == precision]
        unit = rate_unit(str(precision))
        rows.append(
            [
                named(machine), str(precision), ARITHMETIC[str(kernel)],
                NONE if kernel == "fma" else str(best["size"]), si(best.flop_per_s, unit),
                between(best.flop_per_s_low, best.flop_per_s_high, unit),
                NONE if short.empty else si(highest(short, "flop_per_s").flop_per_s, unit),
            ]
        )  # fmt: skip
    return rows


@or_missing
def levels(paper: Paper) -> str:
    """List the levels of memory of the machines shown: what each serves, and how fast."""
    rows = [
        [
            named(machine), level.name, between(level.level.first_byte, level.level.last_byte, "B"),
            si(level.cache.byte, "B") if level.cache else NONE,
            *(si(level.kernels[name].byte_per_s, "B/s") if name in level.kernels else NONE
              for name in STREAMS.values()),
        ]
        for machine in paper.shown
        for level in machine.levels
    ]  # fmt: skip
    if not rows:
        available.levels(available.machines(paper)[0])
    streams = " > | ".join(name.capitalize() for name in STREAMS.values())
    return pipe(f"Machine | Level | Working sets > | Reported > | {streams} >", rows, of="Machine")


@or_missing
def measured_roofs(paper: Paper) -> str:
    """List the measured roofs of each machine: of each precision the peak, and the bandwidth below all of them.

    Of a fleet they are those of the machines that figures show.
    """
    machines, _ = fleet.listed(paper)
    rows = []
    for machine in machines:
        for roof in each(machine.roofs):
            peak = (roof.peak_flop_per_s, roof.peak_low_flop_per_s, roof.peak_high_flop_per_s)
            ridge = intensity(roof.peak_flop_per_s / roof.bandwidth_byte_per_s)
            rows.append(
                [named(machine), roof.precision, ARITHMETIC[roof.peak_kernel], *with_interval(*peak, "FLOP/s"), ridge]
            )
        for roof in each(machine.roofs.drop_duplicates("bandwidth_byte_per_s")):
            bandwidth = (roof.bandwidth_byte_per_s, roof.bandwidth_low_byte_per_s, roof.bandwidth_high_byte_per_s)
            stream = STREAMS[roof.bandwidth_kernel]
            rows.append([named(machine), "memory", stream, *with_interval(*bandwidth, "B/s"), NONE])
    if not rows:
        available.roof(machines[0])
    return pipe("Machine | Roof | By | Rate > | 95 % interval > | Ridge point >", rows, of="Machine")


@or_missing
def datasheet_roofs(paper: Paper) -> str:
    """List the datasheet roofs of each machine beside the measured share of its peak; of a fleet the shown."""
    machines, _ = fleet.listed(paper)
    rows = []
    for machine in machines:
        measured = machine.measured_roof.flop_per_s
        for roof in datasheet.roofs(paper, machine):
            peak = measured.get(roof.precision)
            rows.append(
                [
                    named(machine), roof.precision + ("" if roof.confirmed else f"{SPACE}\\*"),
                    escape(roof.derivation), si(roof.peak_flop_per_s, rate_unit(roof.precision)),
                    known(roof.bandwidth_byte_per_s, si, "B/s"),
                    percent(peak / roof.peak_flop_per_s) if peak else NONE,
                    cited(roof.source),
                ]
            )  # fmt: skip
    if not rows:
        gaps = [datasheet.gap(paper, machine, BASE_PRECISION) for machine in machines]
        raise available.DataMissingError(" ".join(gaps))
    return pipe("Machine | Precision | Derivation | Peak > | Bandwidth > | Measured > | Sources", rows, of="Machine")
