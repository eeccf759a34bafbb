"""The machine at hand with its software, and whether other machines were measured."""

from dataclasses import replace

from report.facts import Facts, missing, sourced
from report.options import measure_command
from report.paper import OF_AUTHORS, Paper
from report.paper.cells import is_loaded
from report.stats.value import Name, Source, Value, exact


class AtHand(Facts):
    name: Name  #: Processor, microarchitecture and cores, or the GPU.
    threads: Value  #: Threads of PyTorch.
    torch: Name  #: Version of PyTorch.
    python: Name  #: Version of Python.
    hypervisor: Name  #: The hypervisor of a virtual machine; missing on bare metal.
    cells: Value  #: Cells measured on it, variants and training steps included.
    loaded: Value  #: Cells measured while other programs used it; missing if none.


class Machines(Facts):
    several: bool
    marked: bool  #: Whether the table has machines of the project besides a reader's.
    at_hand: AtHand


def of(paper: Paper) -> Machines:
    source = Source("machines/*/machine.csv", "newest environment", measure_command())
    machine = paper.at_hand
    if machine is None:
        return sourced(missing(Machines), source)
    environment = machine.environment
    virtual = None if environment.hypervisor == "none" else environment.hypervisor
    flagged = [is_loaded(table) for table in (machine.cells, machine.variants, machine.steps)]
    loaded = exact(sum(int(each.sum()) for each in flagged) or None)
    at_hand = AtHand(
        Name(machine.name), exact(environment.threads), Name(environment.torch),
        Name(environment.python), Name(virtual), exact(sum(map(len, flagged))),
        replace(loaded, source=Source(f"machines/{machine.folder}/runs.csv", "flags")),  # without a command
    )  # fmt: skip
    marked = paper.is_readers and any(each.folder in OF_AUTHORS for each in paper.machines)
    return sourced(Machines(len(paper.machines) > 1, marked, at_hand), source)
