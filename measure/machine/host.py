"""A finding of ``doctor``: one fact of a machine, how it weighs, and what to do about it.

The processor and memory of this machine, as far as they can spoil a measurement; None where unknown.

From facts of a processor and its memory to findings; an unknown fact is a finding too.
"""

import os
import platform
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.machine import processor
from measure.machine.processor import content_of
from measure.machine.sensors import Conditions, ProcessorSensors, load_since

OK, WARNING, PROBLEM, UNCHECKED = "ok", "warning", "problem", "unchecked"
"""How a finding weighs: it widens or shifts figures (warning), it spoils or prevents them (problem)."""

NEAR_LIMIT_C = 10.0
"""Degrees below a limit: less leave a chip at rest no room to work."""


@dataclass(frozen=True)
class Finding:
    level: str
    subject: str
    fact: str
    advice: str | None = None


def judged(level: str, subject: str, fact: str, advice: str) -> Finding:
    """Return a finding that gives its advice unless all is well."""
    return Finding(level, subject, fact, None if level == OK else advice)


def untold(source: str, subject: str, fact: str) -> Finding:
    return Finding(UNCHECKED, subject, f"{source} does not tell {fact}")


def level_of(value: float, bounds: tuple[float, float]) -> str:
    """Grade a value by the bounds from which it is a warning, and a problem."""
    warning, problem = bounds
    return PROBLEM if value >= problem else WARNING if value >= warning else OK


def gigabytes(byte: float) -> str:
    return f"{byte / 1e9:.1f} GB"


def temperature_finding(subject: str, what: str, temperature: float, limit: float | None) -> Finding:
    if limit is None:
        return Finding(OK, subject, f"{what} {temperature:.0f} °C, and no limit")
    fact = f"{what} {temperature:.0f} °C, and the limit is {limit:.0f} °C"
    level = WARNING if temperature > limit - NEAR_LIMIT_C else OK
    return judged(level, subject, fact, "let it cool down, or improve the cooling")


WINDOW_S = 1.0
"""How long the load is watched."""

GLANCE_S = 0.25
"""How long it is watched before a run."""

CPUS = "devices/system/cpu"

BUSY_CORE = 0.05
"""The part of a core from which on a process is named."""


@dataclass(frozen=True)
class Processor:
    """``siblings`` holds the logical cores that this process may use, those of one physical core together.

    ``quota_cores`` is the control group's limit on processor time (None: no limit); ``load_cores`` what other processes
    used over a second, ``busiest`` their names; ``stolen`` the part of the time that a hypervisor gave to others.
    ``heat`` is the sensor nearest to its limit: degrees Celsius and the limit; ``throttle_count`` how often the
    processor lowered its clock for heat since it started.
    """

    logical_cores: int
    usable_cores: int
    siblings: tuple[tuple[int, ...], ...] | None
    threads: int
    quota_cores: float | None
    load_cores: float | None
    busiest: tuple[str, ...]
    stolen: float | None
    is_virtual: bool | None
    governors: tuple[str, ...] | None
    has_turbo: bool | None
    heat: tuple[float, float | None] | None
    throttled: str | None
    throttle_count: int | None
    on_battery: bool | None


@dataclass(frozen=True)
class Memory:
    """Bytes: main memory that a new process can take, /dev/shm, swap in use and moved over a second."""

    available_byte: int
    shared_byte: int | None
    swap_used_byte: int
    swap_moved_byte: int


def observe() -> tuple[Processor, Memory]:
    """Watch this machine for ``WINDOW_S``."""
    import psutil

    sensors = ProcessorSensors()
    swap_before, times_before, opening = psutil.swap_memory(), psutil.cpu_times(), sensors.read()
    others = _others()
    time.sleep(WINDOW_S)
    busiest = _busiest(others)
    closing, times, swap = sensors.read(), psutil.cpu_times(), psutil.swap_memory()
    conditions = Conditions.between(opening, closing, None)
    logical = psutil.cpu_count() or processor.visible_cores()
    elapsed_s = (closing.core_s or 0.0) - (opening.core_s or 0.0)
    stolen_s = times.steal - times_before.steal if hasattr(times, "steal") else None
    seen = Processor(
        logical_cores=logical,
        usable_cores=processor.visible_cores(),
        siblings=processor.siblings(),
        threads=processor.physical_cores(),
        quota_cores=quota_cores(),
        load_cores=None if conditions.load is None else conditions.load * logical,
        busiest=busiest,
        stolen=stolen_s / elapsed_s if stolen_s is not None and elapsed_s > 0 else None,
        is_virtual=is_virtual(),
        governors=governors(),
        has_turbo=has_turbo(),
        heat=nearest_to_limit(getattr(psutil, "sensors_temperatures", dict)()),
        throttled=conditions.throttle,
        throttle_count=throttle_count(),
        on_battery=_on_battery(),
    )
    return seen, Memory(
        available_byte=processor.available_memory_byte(),
        shared_byte=psutil.disk_usage("/dev/shm").free if Path("/dev/shm").is_dir() else None,
        swap_used_byte=swap.used,
        swap_moved_byte=swap.sin + swap.sout - swap_before.sin - swap_before.sout,
    )


def load_cores(window_s: float = GLANCE_S) -> float | None:
    """Watch for so long how many cores other processes use; None where this system does not tell."""
    sensors = ProcessorSensors()
    opening = sensors.read()
    time.sleep(window_s)
    load = load_since(opening, sensors)
    return None if load is None else load * processor.visible_cores()


def _on_battery() -> bool | None:
    import psutil

    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    return None if battery is None or battery.power_plugged is None else not battery.power_plugged


def _others() -> list[Any]:
    """Return the other processes, each asked once for its time, so that the next answer covers the time since."""
    import psutil

    others = [process for process in psutil.process_iter(["name"]) if process.pid != os.getpid()]
    for process in others:
        _part_of_a_core(process)
    return others


def _part_of_a_core(process: Any) -> float:
    import psutil

    try:
        return process.cpu_percent() / 100
    except psutil.Error:  # it ended, or is not ours to ask
        return 0.0


def _busiest(others: Iterable[Any]) -> tuple[str, ...]:
    used = sorted(((_part_of_a_core(process), process) for process in others), key=lambda pair: -pair[0])
    return tuple(
        f"{process.info['name']} ({process.pid}) {part:.2f}" for part, process in used[:3] if part >= BUSY_CORE
    )


def governors(system: Path = Path("/sys")) -> tuple[str, ...] | None:
    """Return the rules that set the frequency of the cores, each once."""
    found = map(content_of, (system / CPUS).glob("cpufreq/policy*/scaling_governor"))
    return tuple(sorted({name for name in found if name})) or None


def has_turbo(system: Path = Path("/sys")) -> bool | None:
    """Return whether the clock may rise above what the processor sustains on all cores."""
    if off := content_of(system / CPUS / "intel_pstate/no_turbo"):
        return off == "0"
    if on := content_of(system / CPUS / "cpufreq/boost"):
        return on == "1"
    return None


def throttle_count(system: Path = Path("/sys")) -> int | None:
    """Return how often the cores lowered their clock for heat since the machine started."""
    counts = map(content_of, (system / CPUS).glob("cpu*/thermal_throttle/core_throttle_count"))
    known = [int(count) for count in counts if count.isdigit()]
    return sum(known) if known else None


def quota_cores(process: Path = Path("/proc/self/cgroup"), groups: Path = Path("/sys/fs/cgroup")) -> float | None:
    """Return the tightest limit on processor time of this process's control groups, in cores; None: no limit.

    Version 2 states quota and period in ``cpu.max``, version 1 in two files of its own hierarchy. A container sees
    its own group at the root.
    """
    limits = []
    for line in content_of(process).splitlines():
        _, controllers, path = line.split(":", 2)
        names: tuple[str, ...]
        if controllers == "":
            root, names = groups, ("cpu.max",)
        elif "cpu" in controllers.split(","):
            root, names = groups / "cpu", ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        else:
            continue
        innermost = root / path.lstrip("/")
        for group in (innermost, *innermost.parents):
            limits.append(" ".join(filter(None, (content_of(group / name) for name in names))).split())
            if group == root:
                break
    known = [int(limit[0]) / int(limit[1]) for limit in limits if len(limit) == 2 and limit[0].isdigit()]
    return min(known, default=None)


def is_virtual() -> bool | None:
    """Return whether a hypervisor announces itself; None where processors do not tell."""
    flags = processor.described().get("flags")
    return None if flags is None or platform.system() != "Linux" else "hypervisor" in flags.split()


def nearest_to_limit(sensors: dict[str, list[Any]]) -> tuple[float, float | None] | None:
    """Return the temperature nearest to its limit (the hottest, where none has one), and the limit."""
    entries = [entry for chip in sensors.values() for entry in chip]
    found = [(entry.current, entry.high or entry.critical or None) for entry in entries]
    limited = [(heat, limit) for heat, limit in found if limit]
    if limited:
        return max(limited, key=lambda pair: pair[0] - pair[1])
    return max(found, default=None, key=lambda pair: pair[0])


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
    cores = load_cores()
    if cores is None or level_of(cores, LOAD_CORES) != PROBLEM:
        return None
    return (
        f"Other programs use {cores:.1f} of this machine's cores: what is measured beside them takes longer, and "
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
    return temperature_finding("heat", "the hottest sensor shows", *processor.heat)


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
