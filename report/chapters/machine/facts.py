"""The machines of this paper: their number, and the software of the one at hand."""

from report.facts import Facts, missing, sourced
from report.options import measure_command
from report.paper import Paper
from report.stats.summary import count_of, exact
from report.stats.value import NOTHING, Name, Source, Value


class AtHand(Facts):
    """The machine that the text speaks of."""

    name: Name  #: Processor, microarchitecture and cores, or the GPU.
    threads: Value  #: Threads of PyTorch.
    torch: Name  #: Version of PyTorch.
    python: Name  #: Version of Python.
    hypervisor: Name  #: The hypervisor of a virtual machine; missing on bare metal.


class Machines(Facts):
    """The facts of the appendix."""

    machines: Value  #: Number of machines measured.
    several: bool
    at_hand: AtHand


def of(paper: Paper) -> Machines:
    source = Source("machines/*/machine.csv", "newest environment", measure_command())
    count, machine = len(paper.machines), paper.at_hand
    if machine is None:
        return sourced(Machines(NOTHING, False, missing(AtHand)), source)
    environment = machine.environment
    virtual = None if environment.hypervisor == "none" else environment.hypervisor
    at_hand = AtHand(
        Name(machine.name), exact(environment.threads), Name(environment.torch),
        Name(environment.python), Name(virtual),
    )  # fmt: skip
    return sourced(Machines(count_of(count, "machines"), count > 1, at_hand), source)
