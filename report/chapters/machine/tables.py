"""The table of the measured machines."""

from report import display
from report.markdown import escape, si
from report.markdown_table import NONE, known, markdown_table
from report.options import measure_command
from report.paper import Machine, Paper
from report.paper.chips import datasheet


@display.table
def machines(paper: Paper) -> str:
    rows = []
    for machine in display.required(paper.machines, measure_command()):
        environment = machine.environment
        model = f"compute capability {environment.capability}" if environment.capability else None
        if environment.cpu_family and environment.device == "cpu":
            model = f"family {environment.cpu_family}, model {environment.cpu_model}"
        system = filter(None, (environment.system, environment.c_library, environment.hypervisor, environment.driver))
        software = {"Python": environment.python, "PyTorch": environment.torch, "torchvision": environment.torchvision}
        rows.append([
            escape(machine.name), known(model, escape), known(year(paper, machine), str),
            known(environment.memory_byte, si, "B"), escape(", ".join(system)) or NONE,
            escape(", ".join(f"{name} {version}" for name, version in software.items() if version)),
            environment.recorded_at[:10].replace("-", "\u2011"),  # a date stays on one line
        ])  # fmt: skip
    return markdown_table("Machine | Processor model | Year > | Memory > | System | Software | Seen", rows)


def year(paper: Paper, machine: Machine) -> int | None:
    """Return the year of the chip with the machine's name, else of the first processor of its kind in the table.

    A chip is of a microarchitecture if its die or its note begins with that name.
    """
    chips = datasheet(paper.chips, machine.environment.name)
    if chips.empty:
        fitting = next((row.microarchitecture for row in paper.flop_per_cycle if row.fits(machine.environment)), None)
        if fitting is None:
            return None
        kinds = tuple(part.partition(" (")[0] for part in fitting.split(" and "))
        chips = paper.chips[paper.chips.die.str.startswith(kinds) | paper.chips.note.str.startswith(kinds)]
    return None if chips.empty else int(chips.year.min())
