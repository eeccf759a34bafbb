"""The machines that were measured."""

from report.analysis import available, datasheet
from report.analysis.available import or_missing
from report.load.paper import Machine, Paper
from report.tables.pipe import NONE, named, pipe
from report.text.prose import escape
from report.text.quantities import si


def _properties(machine: Machine) -> dict[str, str | int | None]:
    environment = machine.environment
    return {
        "folder": machine.folder, "device": environment.device, "processor": datasheet.identity(environment),
        "physical cores": environment.physical_cores, "threads": environment.threads,
        "memory": si(environment.memory_byte, "B") if environment.memory_byte else None,
        "vector units": environment.vector_extension, "driver": environment.driver,
        "system": environment.system, "Python": environment.python, "torch": environment.torch,
        "torchvision": environment.torchvision, "torchaudio": environment.torchaudio,
        "C library": environment.c_library, "hypervisor": environment.hypervisor,
        "huge pages": environment.huge_pages, "tuned by": environment.tuning, "environment": environment.environment_id,
        "first seen (UTC)": environment.recorded_at[:16].replace("T", " "),
    }  # fmt: skip


@or_missing
def machines(paper: Paper) -> str:
    """List the machines, a column each, in their newest environments."""
    found = available.machines(paper)
    columns = [_properties(machine) for machine in found]
    rows = [[name, *(escape(str(column[name])) if column[name] else NONE for column in columns)] for name in columns[0]]
    return pipe(" | ".join(["Property", *map(named, found)]), rows)
