"""The machines that were measured."""

from report import display
from report.markdown import escape, si
from report.paper import Machine, Paper
from report.paper.chips import datasheet
from report.paper.options import measure_command
from report.pipe import NONE, known, pipe

FIRST_SOLD = {
    "Nehalem and Westmere": 2008, "Sandy Bridge and Ivy Bridge": 2011, "Haswell and Broadwell": 2013,
    "Skylake and Kaby Lake (client)": 2015, "Skylake and Cascade Lake (server)": 2017, "Ice Lake (server)": 2021,
    "Sapphire Rapids": 2023, "Zen and Zen+": 2017, "Zen 2": 2019, "Zen 3": 2020, "Zen 4": 2022, "Zen 5": 2024,
    "Neoverse V2": 2023,
}  # fmt: skip
"""The year of the first processor of each microarchitecture in ``data/flop_per_cycle.csv``."""


@display.table
def machines(paper: Paper) -> str:
    """List the machines, one a row, in their newest environments."""
    if not paper.machines:
        raise display.Missing(measure_command())
    rows = []
    for machine in paper.machines:
        environment = machine.environment
        if environment.device == "cpu":
            model = (
                f"family {environment.cpu_family}, model {environment.cpu_model}" if environment.cpu_family else None
            )
        else:
            model = f"compute capability {environment.capability}" if environment.capability else None
        system = filter(None, (environment.system, environment.c_library, environment.hypervisor, environment.driver))
        software = {"Python": environment.python, "PyTorch": environment.torch, "torchvision": environment.torchvision}
        rows.append([
            escape(machine.name), known(model, escape), known(year(paper, machine), str),
            known(environment.memory_byte, si, "B"), escape(", ".join(system)) or NONE,
            escape(", ".join(f"{name} {version}" for name, version in software.items() if version)),
            environment.recorded_at[:10],
        ])  # fmt: skip
    return pipe("Machine | Processor model | Year > | Memory > | System | Software | Seen", rows)


def year(paper: Paper, machine: Machine) -> int | None:
    """Return the year of the chip with the machine's name, else of its microarchitecture; None if neither is known."""
    chips = datasheet(paper.chips, machine.environment.name)
    if not chips.empty:
        return int(chips.year.iloc[0])
    fitting = [row.microarchitecture for row in paper.flop_per_cycle if row.fits(machine.environment)]
    return FIRST_SOLD.get(fitting[0]) if fitting else None
