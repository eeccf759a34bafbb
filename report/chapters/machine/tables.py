"""Tables of the measured machines, and of the peaks of a processor."""

import re

from measure.domain.values import SPACE
from measure.published.records import CHIP_PRECISIONS
from report import display
from report.markdown import escape, rate_unit, si
from report.markdown_table import NONE, cited, known, markdown_table
from report.options import measure_command
from report.paper import Machine, Paper, processor
from report.paper.chips import datasheet


@display.table
def machines(paper: Paper) -> str:
    rows = []
    for machine in display.required(paper.machines, measure_command()):
        environment = machine.environment
        model = f"compute capability {environment.capability}" if environment.capability else None
        if environment.device == "cpu":
            model = processor.numbers(environment) or None
        system = filter(None, (environment.system, environment.c_library, environment.hypervisor, environment.driver))
        software = {"Python": environment.python, "PyTorch": environment.torch, "torchvision": environment.torchvision}
        rows.append([
            escape(machine.name), known(model, escape), known(year(paper, machine), str),
            known(environment.memory_byte, si, "B"), escape(", ".join(system)) or NONE,
            escape(", ".join(f"{name} {version}" for name, version in software.items() if version)),
            environment.recorded_at[:10].replace("-", "\u2011"),  # a date stays on one line
        ])  # fmt: skip
    return markdown_table("Machine | Processor model | Year > | Memory > | System | Software | Seen", rows)


@display.table
def peaks(paper: Paper) -> str:
    machine = display.required(paper.at_hand, measure_command())
    found = processor.peaks(paper.flop_per_cycle, machine.environment, machine.clock_hz)
    rows = []
    for precision in filter(found.get, CHIP_PRECISIONS):
        peak = found[precision]
        factors = re.sub(r"(?<=\d) (?=[A-Za-z])", SPACE, peak.arithmetic.replace(" x ", " × "))
        roof = machine.roof(precision) if machine.chip_kind == "cpu" else None
        unit = rate_unit(precision)
        measured = NONE if roof is None else si(roof.peak_flop_per_s, unit)
        rows.append([
            precision, escape(peak.row.vector_extension), escape(factors), known(peak.flop_per_s, si, unit), measured,
            escape(peak.row.note) or NONE, cited(peak.row.source),
        ])  # fmt: skip
    header = "Precision | Extension | Cores × clock × rate | Peak > | Measured > | Units of a core | Sources"
    return markdown_table(header, display.required(rows))


def year(paper: Paper, machine: Machine) -> int | None:
    """Return the year of the chip with the machine's name, else of the first processor of its kind in the table.

    A chip is of a microarchitecture if its die or its note begins with that name.
    """
    chips = datasheet(paper.chips, machine.environment.name)
    if chips.empty:
        name = processor.microarchitecture(paper.flop_per_cycle, machine.environment)
        if not name:
            return None
        kinds = tuple(part.partition(" (")[0] for part in re.split(" and | or ", name))
        chips = paper.chips[paper.chips.die.str.startswith(kinds) | paper.chips.note.str.startswith(kinds)]
    return None if chips.empty else int(chips.year.min())
