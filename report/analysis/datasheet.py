"""The datasheet roof of a machine that was measured: a GPU's by its name, a processor's by arithmetic."""

from dataclasses import dataclass

from measure.cache.records import Environment
from measure.domain.chips import fastest_units
from report.load import chips
from report.load.paper import Machine, Paper
from report.load.printed import FlopPerCycle
from report.text.frame_rows import each
from report.text.prose import number, si


@dataclass(frozen=True)
class DatasheetRoof:
    """A roof that is not measured: peak (FLOP/s) and bandwidth (B/s; None where it cannot be derived).

    ``chip`` is the chip or microarchitecture that answers, ``derivation`` the arithmetic or where the number stands,
    ``confirmed`` whether a source stands behind each input, ``source`` keys of the bibliography split by ``;``.
    """

    chip: str
    precision: str
    peak_flop_per_s: float
    bandwidth_byte_per_s: float | None
    derivation: str
    confirmed: bool
    source: str


def roofs(paper: Paper, machine: Machine) -> tuple[DatasheetRoof, ...]:
    """Return the datasheet roofs of a machine at all precisions; none where ``gap`` says why."""
    return _derived(paper, machine) if machine.chip_kind == "cpu" else _printed(paper, machine)


def roof(paper: Paper, machine: Machine, precision: str) -> DatasheetRoof | None:
    """Return the datasheet roof at a precision."""
    return next((each for each in roofs(paper, machine) if each.precision == precision), None)


def _printed(paper: Paper, machine: Machine) -> tuple[DatasheetRoof, ...]:
    """Return the fastest unit at each precision of the chip that answers to the machine's name."""
    fastest = fastest_units(each(chips.datasheet(paper.chips, machine.environment.name)))
    return tuple(
        DatasheetRoof(
            chip=row.chip, precision=row.precision, peak_flop_per_s=row.peak_flop_per_s,
            bandwidth_byte_per_s=row.bandwidth_byte_per_s,
            derivation=f"{row.chip}: {row.derivation or f'as printed, {row.unit} units'}",
            confirmed=row.verified == "yes", source=row.source,
        )
        for row in fastest.values()
    )  # fmt: skip


def _derived(paper: Paper, machine: Machine) -> tuple[DatasheetRoof, ...]:
    """Return cores × FLOP per cycle × clock, for each precision that the table knows of the processor's family.

    Not the roof of the chip whose name it bears: a virtual machine or a container sees only some of its cores. The
    cores are the physical ones, since two threads of a core share its units.
    """
    if machine.clock is None:
        return ()
    count, hertz = machine.environment.physical_cores or machine.environment.cores, machine.clock.hertz
    assert count is not None  # not known only of a GPU whose counters were imported
    fastest: dict[str, FlopPerCycle] = {}
    for row in paper.flop_per_cycle:
        known = fastest.get(row.precision)
        if row.fits(machine.environment) and (known is None or row.flop_per_cycle > known.flop_per_cycle):
            fastest[row.precision] = row
    return tuple(
        DatasheetRoof(
            chip=row.microarchitecture, precision=row.precision,
            peak_flop_per_s=count * row.flop_per_cycle * hertz, bandwidth_byte_per_s=None,
            derivation=f"{number(count, 'core')} × {row.flop_per_cycle} FLOP/cycle ({row.microarchitecture}, "
            f"{row.vector_extension}) × {si(hertz, 'Hz')}",
            confirmed=True, source=row.source,
        )
        for row in fastest.values()
    )  # fmt: skip


def identity(environment: Environment) -> str | None:
    """Return what a processor says that it is; None where that was not recorded."""
    if None in (environment.cpu_vendor, environment.cpu_family, environment.cpu_model):
        return None
    return f"{environment.cpu_vendor} family {environment.cpu_family} model {environment.cpu_model}"


def gap(paper: Paper, machine: Machine, precision: str) -> str:
    """Say in a sentence why a machine has no datasheet roof at a precision."""
    name, environment = machine.environment.name, machine.environment
    if roofs(paper, machine):
        return f"The measured roof of the {name} stands alone: its datasheet gives no {precision} peak."
    if machine.chip_kind != "cpu":
        return f"The measured roof of the {name} stands alone: no chip of the table answers to that name."
    fills = "`python -m measure --device cpu --sections roofs`"
    if identity(environment) is None:
        reason = f"its family of processors was not recorded; {fills} records it"
    elif not any(row.fits(environment) for row in paper.flop_per_cycle):
        reason = f"data/flop_per_cycle.csv holds no row for {identity(environment)} with the vector extensions it shows"
    else:
        reason = f"its clock was not measured; {fills} measures it, where Numba is installed"
    return f"The measured roof of the {name} stands alone: no datasheet roof can be derived, since {reason}."
