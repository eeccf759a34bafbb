"""From facts of a processor and its memory to findings; an unknown fact is a finding too."""

from collections.abc import Iterator

from measure.diagnosis import finding, host
from measure.diagnosis.finding import OK, PROBLEM, UNCHECKED, WARNING, Finding, gigabytes, judged, level_of, untold
from measure.diagnosis.host import Memory, Processor

LOAD_CORES = (0.1, 0.5)
"""Cores that others use, from which on it is a warning, and a problem: less is a desktop at rest."""

STOLEN = (0.005, 0.05)
"""The part of the time that a hypervisor gave to others."""

LEAST_MEMORY_BYTE = 2 * 2**30
"""The memory that torch and the smallest models take."""

LEAST_SHARED_BYTE = 256 * 2**20
"""Docker gives a container 64 MiB; torch hands tensors between processes through it."""


def processor_findings(processor: Processor) -> Iterator[Finding]:
    for check in (_load, _stolen, _cores, _quota, _hyper_threads, _governor, _turbo, _heat, _throttling, _battery):
        yield check(processor)


def _load(processor: Processor) -> Finding:
    if processor.load_cores is None:
        return untold("this system", "load", "what its cores are doing")
    who = f": {', '.join(processor.busiest)}" if processor.busiest else ""
    fact = f"others use {processor.load_cores:.2f} of {processor.logical_cores} cores{who}"
    level = level_of(processor.load_cores, LOAD_CORES)
    return judged(level, "load", fact, "end them, or wait until they are done")


def warning_of_load() -> str | None:
    """Return a sentence for a run that would begin beside others' work; None where hardly anything runs."""
    load_cores = host.load_cores()
    if load_cores is None or level_of(load_cores, LOAD_CORES) != PROBLEM:
        return None
    return (
        f"Other programs use {load_cores:.1f} of this machine's cores: what is measured beside them takes longer, and "
        "is flagged loaded (python -m measure doctor names them)"
    )


def _stolen(processor: Processor) -> Finding:
    if processor.is_virtual is None:
        return untold("this system", "virtual machine", "whether it is one")
    if not processor.is_virtual:
        return Finding(OK, "virtual machine", "no hypervisor")
    stolen = processor.stolen or 0.0
    fact = (
        f"a hypervisor runs this system and gave {100 * stolen:.1f} % of its time to others; it shares caches and "
        "memory with guests that are not visible here"
    )
    level = PROBLEM if level_of(stolen, STOLEN) == PROBLEM else WARNING
    return Finding(level, "virtual machine", fact, "measure again later and compare, or use dedicated hardware")


def _cores(processor: Processor) -> Finding:
    fact = f"{processor.usable_cores} of {processor.logical_cores} logical cores may be used"
    if processor.usable_cores < processor.logical_cores:
        advice = "start it without taskset or --cpuset-cpus to measure the whole processor, else keep the rest idle"
        return Finding(WARNING, "cores", fact, advice)
    level = WARNING if processor.usable_cores == 1 else OK
    return judged(level, "cores", fact, "give it a second core: with one, figures include the system's work")


def _quota(processor: Processor) -> Finding:
    if processor.quota_cores is None:
        return Finding(OK, "quota", "no control group limits processor time")
    fact = f"a control group allows {processor.quota_cores:g} cores of time, and {processor.threads} threads measure"
    advice = "they stop when it is used up: give whole cores instead (docker --cpuset-cpus, not --cpus)"
    return judged(PROBLEM if processor.quota_cores < processor.threads else OK, "quota", fact, advice)


def _hyper_threads(processor: Processor) -> Finding:
    if processor.siblings is None:
        return untold("this system", "hyper-threads", "which logical cores share a physical one")
    return Finding(OK, "hyper-threads", f"{processor.threads} threads measure, one for each physical core")


def _governor(processor: Processor) -> Finding:
    subject = "frequency scaling"
    if processor.governors is None:
        advice = "--sections roofs measures the clock instead, by a chain of additions"
        return Finding(UNCHECKED, subject, "this system shows no frequency", advice)
    fact = f"the governor is {', '.join(processor.governors)}"
    level = OK if processor.governors == ("performance",) else WARNING
    return judged(level, subject, fact, "sudo cpupower frequency-set --governor performance")


def _turbo(processor: Processor) -> Finding:
    if processor.has_turbo is None:
        return untold("this system", "turbo", "whether the clock is boosted")
    if not processor.has_turbo:
        return Finding(OK, "turbo", "off: the clock does not depend on how many cores work, nor for how long")
    advice = (
        "for figures that repeat: echo 1 | sudo tee /sys/devices/system/cpu/intel_pstate/no_turbo, or "
        "echo 0 | sudo tee /sys/devices/system/cpu/cpufreq/boost"
    )
    return Finding(
        WARNING, "turbo", "on: the clock depends on heat, and on how many cores work and for how long", advice
    )


def _heat(processor: Processor) -> Finding:
    if processor.heat is None:
        return Finding(UNCHECKED, "heat", "this system shows no temperature of the processor")
    return finding.temperature_finding("heat", "the hottest sensor shows", *processor.heat)


def _throttling(processor: Processor) -> Finding:
    if processor.throttled:
        fact = "the clock was lowered for heat within the last second"
        return Finding(PROBLEM, "throttling", fact, "let the machine cool down")
    if processor.throttle_count is None:
        return Finding(UNCHECKED, "throttling", "this system does not count how often heat lowered the clock")
    if not processor.throttle_count:
        return Finding(OK, "throttling", "heat has not lowered the clock since this machine started")
    fact = f"heat has lowered the clock {processor.throttle_count} times since this machine started"
    return Finding(WARNING, "throttling", fact, "mind rounds flagged throttled, and improve the cooling")


def _battery(processor: Processor) -> Finding:
    if processor.on_battery is None:
        return Finding(OK, "power", "this system shows no battery")
    if processor.on_battery:
        return Finding(PROBLEM, "power", "the machine runs on its battery, which lowers the clock", "plug it in")
    return Finding(OK, "power", "the machine is plugged in")


def memory_findings(memory: Memory, largest: tuple[str, int] | None) -> Iterator[Finding]:
    """``largest`` is the label and the memory in bytes of the largest cell that was counted, if any was."""
    yield _free_memory(memory.available_byte, largest)
    if memory.shared_byte is None:
        yield Finding(UNCHECKED, "shared memory", "this system has no /dev/shm")
    else:
        level = WARNING if memory.shared_byte < LEAST_SHARED_BYTE else OK
        fact = f"{gigabytes(memory.shared_byte)} are free in /dev/shm"
        yield judged(level, "shared memory", fact, "docker run --shm-size=1g")
    if memory.swap_moved_byte:
        fact = f"{gigabytes(memory.swap_moved_byte)} went to or from swap within the last second"
        yield Finding(PROBLEM, "swap", fact, "end what needs so much memory")
    elif memory.swap_used_byte:
        fact = f"{gigabytes(memory.swap_used_byte)} lie in swap, and nothing moves"
        yield Finding(WARNING, "swap", fact, "sudo swapoff -a; sudo swapon -a, with enough memory free")
    else:
        yield Finding(OK, "swap", "not in use")


def _free_memory(available_byte: int, largest: tuple[str, int] | None) -> Finding:
    available = f"{gigabytes(available_byte)} are free"
    if available_byte < LEAST_MEMORY_BYTE:
        return Finding(PROBLEM, "memory", available, "end other programs, or raise the control group's limit")
    if largest is None:
        return Finding(OK, "memory", available)
    label, byte = largest
    fact = f"{available}; {label} needs {gigabytes(byte)} besides torch"
    level = OK if available_byte >= byte + LEAST_MEMORY_BYTE else WARNING
    return judged(level, "memory", fact, "end other programs, or measure smaller batch sizes (--batch-sizes)")
