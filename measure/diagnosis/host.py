"""The processor and memory of this machine, as far as they can spoil a measurement; None where unknown."""

import os
import platform
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.machine import processor
from measure.machine.processor import content_of
from measure.machine.sensors import Conditions, ProcessorSensors, load_since

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
