"""From facts of a processor and its memory to findings, by values alone; what is not known is a finding too."""

from collections.abc import Iterator

from measure.diagnosis.finding import (
    OK,
    PROBLEM,
    UNCHECKED,
    WARNING,
    Finding,
    gigabytes,
    level_of,
    temperature_finding,
)
from measure.diagnosis.host import Memory, Processor

LOAD_CORES = (0.1, 0.5)
"""Cores that others use, from which on it is a warning, and a problem: less is a desktop at rest."""

STOLEN = (0.005, 0.05)
"""The part of the time that a hypervisor gave to others."""


LEAST_MEMORY_BYTE = 2 * 2**30
"""What torch and the smallest models take."""

LEAST_SHARED_BYTE = 256 * 2**20
"""Docker gives a container 64 MiB; torch hands tensors between processes through it."""


def processor_findings(processor: Processor) -> Iterator[Finding]:
    yield _load(processor)
    yield _stolen(processor)
    yield _cores(processor)
    yield _quota(processor)
    yield _hyper_threads(processor)
    yield _governor(processor)
    yield _turbo(processor)
    yield from _heat(processor)
    yield _battery(processor)


def _load(processor: Processor) -> Finding:
    if processor.load_cores is None:
        return Finding(UNCHECKED, "load", "this system does not tell what its cores are doing")
    who = f": {', '.join(processor.busiest)}" if processor.busiest else ""
    fact = f"others use {processor.load_cores:.2f} of {processor.logical_cores} cores{who}"
    level = level_of(processor.load_cores, LOAD_CORES)
    return Finding(level, "load", fact, None if level == OK else "end them, or wait until they are done")


def _stolen(processor: Processor) -> Finding:
    if processor.is_virtual is None:
        return Finding(UNCHECKED, "virtual machine", "this system does not tell whether it is one")
    if not processor.is_virtual:
        return Finding(OK, "virtual machine", "no hypervisor")
    stolen = processor.stolen or 0.0
    return Finding(
        max(WARNING, level_of(stolen, STOLEN), key=(OK, WARNING, PROBLEM).index),
        "virtual machine",
        f"a hypervisor runs this system and gave {100 * stolen:.1f} % of its time to others; caches and memory are "
        "shared with guests that are not seen here",
        "measure again at another hour and compare, or use dedicated hardware",
    )


def _cores(processor: Processor) -> Finding:
    fact = f"{processor.usable_cores} of {processor.logical_cores} logical cores may be used"
    if processor.usable_cores < processor.logical_cores:
        advice = "start it without taskset or --cpuset-cpus to measure the whole processor, else keep the rest idle"
        return Finding(WARNING, "cores", fact, advice)
    if processor.usable_cores == 1:
        return Finding(
            WARNING, "cores", fact, "give it a second core: on one the system's own work is in the figures"
        )
    return Finding(OK, "cores", fact)


def _quota(processor: Processor) -> Finding:
    if processor.quota_cores is None:
        return Finding(OK, "quota", "no control group limits processor time")
    fact = f"a control group allows {processor.quota_cores:g} cores of time, and {processor.threads} threads measure"
    if processor.quota_cores < processor.threads:
        advice = (
            "they are stopped when it is used up: give whole cores instead (docker --cpuset-cpus, not --cpus)"
        )
        return Finding(PROBLEM, "quota", fact, advice)
    return Finding(OK, "quota", fact)


def _hyper_threads(processor: Processor) -> Finding:
    if processor.siblings is None:
        return Finding(
            UNCHECKED, "hyper-threads", "this system does not tell which logical cores share a physical one"
        )
    return Finding(OK, "hyper-threads", f"{processor.threads} threads measure, one for each physical core")


def _governor(processor: Processor) -> Finding:
    if processor.governors is None:
        return Finding(
            UNCHECKED,
            "frequency scaling",
            "this system shows no frequency",
            "--sections ceilings measures the clock instead, by a chain of additions",
        )
    fact = f"the governor is {', '.join(processor.governors)}"
    if processor.governors == ("performance",):
        return Finding(OK, "frequency scaling", fact)
    return Finding(WARNING, "frequency scaling", fact, "sudo cpupower frequency-set --governor performance")


def _turbo(processor: Processor) -> Finding:
    if processor.has_turbo is None:
        return Finding(UNCHECKED, "turbo", "this system does not tell whether the clock is boosted")
    if not processor.has_turbo:
        return Finding(OK, "turbo", "off: the clock does not depend on how many cores work, nor for how long")
    return Finding(
        WARNING,
        "turbo",
        "on: the clock depends on heat, and on how many cores work and for how long",
        "for figures that repeat: echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo, or "
        "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost",
    )


def _heat(processor: Processor) -> Iterator[Finding]:
    if processor.heat is None:
        yield Finding(UNCHECKED, "heat", "this system shows no temperature of the processor")
    else:
        temperature, limit = processor.heat
        yield temperature_finding("heat", "the hottest sensor shows", temperature, limit)
    if processor.throttled:
        yield Finding(
            PROBLEM,
            "throttling",
            "the clock was lowered for heat within the last second",
            "let the machine cool down",
        )
    elif processor.throttle_count is None:
        yield Finding(UNCHECKED, "throttling", "this system does not count how often heat lowered the clock")
    elif processor.throttle_count:
        fact = f"heat has lowered the clock {processor.throttle_count} times since this machine started"
        advice = "mind rounds flagged throttled in runs.csv, and improve the cooling"
        yield Finding(WARNING, "throttling", fact, advice)
    else:
        yield Finding(OK, "throttling", "heat has not lowered the clock since this machine started")


def _battery(processor: Processor) -> Finding:
    if processor.on_battery is None:
        return Finding(OK, "power", "this system shows no battery")
    if processor.on_battery:
        return Finding(
            PROBLEM, "power", "the machine runs on its battery, which lowers the clock", "plug it in"
        )
    return Finding(OK, "power", "the machine is plugged in")


def memory_findings(memory: Memory, largest: tuple[str, int] | None) -> Iterator[Finding]:
    """``largest`` is the label and the memory in bytes of the largest cell that was counted, if any was."""
    available = f"{gigabytes(memory.available_byte)} are free"
    if memory.available_byte < LEAST_MEMORY_BYTE:
        yield Finding(PROBLEM, "memory", available, "end other programs, or raise the control group's limit")
    elif largest is None:
        yield Finding(OK, "memory", available)
    else:
        label, byte = largest
        fact = f"{available}; {label} needs {gigabytes(byte)} besides torch"
        fits = memory.available_byte >= byte + LEAST_MEMORY_BYTE
        advice = None if fits else "end other programs, or measure smaller batch sizes (--batch-sizes)"
        yield Finding(OK if fits else WARNING, "memory", fact, advice)
    if memory.shared_byte is None:
        yield Finding(UNCHECKED, "shared memory", "this system has no /dev/shm")
    else:
        small = memory.shared_byte < LEAST_SHARED_BYTE
        fact = f"{gigabytes(memory.shared_byte)} are free in /dev/shm"
        yield Finding(
            WARNING if small else OK, "shared memory", fact, "docker run --shm-size=1g" if small else None
        )
    if memory.swap_moved_byte:
        fact = f"{gigabytes(memory.swap_moved_byte)} went to or from swap within the last second"
        yield Finding(PROBLEM, "swap", fact, "end what needs so much memory")
    elif memory.swap_used_byte:
        fact = f"{gigabytes(memory.swap_used_byte)} lie in swap, and nothing moves"
        yield Finding(WARNING, "swap", fact, "sudo swapoff -a; sudo swapon -a, with enough memory free")
    else:
        yield Finding(OK, "swap", "not in use")
