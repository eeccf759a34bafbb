"""The machines that were measured."""

from measure.domain.values import significant
from report.analysis import datasheet, fleet
from report.analysis.available import or_missing
from report.load.paper import Machine, Paper
from report.tables.pipe import NONE, known, named, pipe
from report.text.frame_rows import each
from report.text.prose import escape, intensity, si


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
    """List the machines, a column each, in their newest environments; of a fleet those that figures show."""
    found, _ = fleet.listed(paper)
    columns = [_properties(machine) for machine in found]
    rows = [[name, *(escape(str(column[name])) if column[name] else NONE for column in columns)] for name in columns[0]]
    return pipe(" | ".join(["Property", *map(named, found)]), rows)


@or_missing
def fleets(paper: Paper) -> str:
    """List the machines that share cells, a row each, the fastest first."""
    rows = [
        [
            escape(row.folder), escape(row.name), str(row.cells), str(row.loaded), significant(row.speed),
            known(row.peak, si, "FLOP/s"), known(row.bandwidth, si, "B/s"),
            known(row.peak / row.bandwidth, intensity),
        ]
        for row in each(fleet.speeds(paper))
    ]  # fmt: skip
    return pipe("Folder | Machine | Cells > | Loaded > | Speed > | Peak > | Bandwidth > | Ridge point >", rows)
