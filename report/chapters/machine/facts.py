"""The machine at hand with its software, and whether other machines were measured."""

from dataclasses import replace

from measure.cache.project import MACHINES
from report.facts import Facts, missing, source_of, sourced
from report.options import measure_command
from report.paper import BASE_PRECISION, Machine, Paper, processor
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


class Processor(Facts):
    """The processor of the machine at hand; of a machine with a GPU its host's."""

    microarchitecture: Name  #: Microarchitecture of the processor, by its numbers; of a GPU's host likewise.
    numbers: Name  #: Vendor, family, model and stepping of the processor, or Arm's implementer and part.
    cores: Value  #: Physical cores that the machine may use; missing without the FLOP of one in a cycle.
    clock: Value  #: Clock of the processor, measured by a chain of dependent additions on all cores.
    per_cycle: Value  #: The most FLOP of one core in a cycle at fp32, by its microarchitecture and vector extensions.
    peak: Value  #: Cores times clock times FLOP of a core in a cycle at fp32; missing without a clock.


class Machines(Facts):
    several: bool
    marked: bool  #: Whether the table has machines of the project besides a reader's.
    at_hand: AtHand
    processor: Processor
    known: bool  #: The table of processors has this microarchitecture.
    is_rated: bool  #: The table has one rate for all cores of this processor at fp32.
    has_peak: bool  #: The peak of the processor is computed.
    is_host: bool  #: The processor hosts the GPU that is at hand.
    is_loaded: bool  #: Other programs used the machine at hand during some cells.
    is_virtual: bool  #: The machine at hand is a virtual one.


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
    found = _processor(paper, machine)
    facts = Machines(
        several=len(paper.machines) > 1,
        marked=paper.is_readers and any(each.folder in MACHINES for each in paper.machines),
        at_hand=at_hand,
        processor=found,
        known=not found.microarchitecture.is_missing,
        is_rated=not found.per_cycle.is_missing,
        has_peak=not found.peak.is_missing,
        is_host=machine.chip_kind != "cpu",
        is_loaded=not loaded.is_missing,
        is_virtual=bool(virtual),
    )
    return sourced(facts, source)


def _processor(paper: Paper, machine: Machine) -> Processor:
    environment = machine.environment
    name = processor.microarchitecture(paper.flop_per_cycle, environment)
    peak = processor.peaks(paper.flop_per_cycle, environment, machine.clock_hz).get(BASE_PRECISION)
    values = (peak.cores, peak.clock_hz, peak.flop_per_cycle, peak.flop_per_s) if peak else (None,) * 4
    units = ("", "Hz", "FLOP/cycle", "FLOP/s")
    roofs = source_of(f"machines/{machine.folder}/roofs.csv", "chain", "roofs")
    numbers = [exact(value, unit) for value, unit in zip(values, units, strict=True)]
    measured = [replace(each, source=roofs) for each in numbers]
    return Processor(Name(name or None), Name(processor.numbers(environment) or None), *measured)
