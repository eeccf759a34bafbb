"""The processor behind a name: its microarchitecture and its cores' peak, from ``data/flop_per_cycle.csv``."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from measure.domain.records import Environment
from measure.domain.words import operation
from measure.published.records import FlopPerCycle


class Peak(NamedTuple):
    """The peak of all cores at one precision: cores x clock x FLOP per cycle. Without a clock it is None.

    The clock is that of a chain of integer additions on all cores. Wide vectors may run at a lower one.
    """

    cores: int
    clock_hz: float | None
    row: FlopPerCycle
    flop_per_cycle: int

    @property
    def flop_per_s(self) -> float | None:
        return None if self.clock_hz is None else self.cores * self.clock_hz * self.flop_per_cycle

    @property
    def arithmetic(self) -> str:
        """The factors, for a table."""
        clock = "clock" if self.clock_hz is None else f"{self.clock_hz / 1e9:.2f} GHz"
        return f"{self.cores} cores x {clock} x {self.flop_per_cycle} {operation(self.row.precision)}/cycle/core"


def microarchitecture(rows: Iterable[FlopPerCycle], environment: Environment) -> str:
    """Return the name of the processor's core, by its numbers; empty if the table lacks it.

    A processor of unknown stepping has all names that it may have: Skylake (server) or Cascade Lake.
    """
    return " or ".join(dict.fromkeys(row.microarchitecture for row in rows if row.names(environment)))


def numbers(environment: Environment) -> str:
    """Return the numbers by which a processor is known, as a table writes them; empty if it has none."""
    vendor, family, model = environment.cpu_vendor, environment.cpu_family, environment.cpu_model
    if vendor is None or family is None:
        return ""
    if vendor == "Apple":
        return f"Apple M{family}"
    if vendor.startswith("0x"):
        return f"implementer {vendor}" + ("" if model is None else f", part {model:#x}")
    parts = {"family": family, "model": model, "stepping": environment.cpu_stepping}
    return ", ".join([vendor, *(f"{name} {number}" for name, number in parts.items() if number is not None)])


def _rate(row: FlopPerCycle) -> float:
    """Return a core's rate; an unknown one may be the highest."""
    return row.flop_per_cycle or float("inf")


def peaks(rows: Iterable[FlopPerCycle], environment: Environment, clock_hz: float | None) -> dict[str, Peak]:
    """Return the peak by precision, of the fastest extension that the processor has.

    A precision is left out if a rate is unknown, if slow cores have another rate (nothing tells how many there are), or
    if the microarchitectures that it may be differ in it. Cores are physical, since two threads of a core share its
    units.
    """
    cores = environment.physical_cores or environment.cores
    fitting: dict[str, dict[str, list[FlopPerCycle]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.fits(environment):
            fitting[row.precision][row.microarchitecture].append(row)
    found = {}
    for precision, by_name in fitting.items():
        fastest = [max(group, key=_rate) for group in by_name.values()]
        rate = fastest[0].flop_per_cycle
        if cores and rate and all(row.flop_per_cycle == rate and not row.slow_core_flop_per_cycle for row in fastest):
            found[precision] = Peak(cores, clock_hz, fastest[0], rate)
    return found
