"""The machine at hand with its software, and whether there are others."""

from report.facts import Facts, missing, sourced
from report.options import measure_command
from report.paper import Paper
from report.stats.value import Name, Source, Value, exact


class AtHand(Facts):
    name: Name  #: Processor, microarchitecture and cores, or the GPU.
    threads: Value  #: Threads of PyTorch.
    torch: Name  #: Version of PyTorch.
    python: Name  #: Version of Python.
    hypervisor: Name  #: The hypervisor of a virtual machine; missing on bare metal.


class Machines(Facts):
    several: bool
    at_hand: AtHand


def of(paper: Paper) -> Machines:
    source = Source("machines/*/machine.csv", "newest environment", measure_command())
    machine = paper.at_hand
    if machine is None:
        return sourced(missing(Machines), source)
    environment = machine.environment
    virtual = None if environment.hypervisor == "none" else environment.hypervisor
    at_hand = AtHand(
        Name(machine.name), exact(environment.threads), Name(environment.torch),
        Name(environment.python), Name(virtual),
    )  # fmt: skip
    return sourced(Machines(len(paper.machines) > 1, at_hand), source)
