"""Doctor's checks of the processor and its memory, and the warning before a run on a busy machine."""

import os
import platform
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measure.machine import processor
from measure.machine.processor import SYSTEM_CPUS, content_of
from measure.machine.sensors import HostLoad, ProcessorSensors, load_since

OK, WARNING, PROBLEM, UNCHECKED = "ok", "warning", "problem", "unchecked"
"""A warning shifts figures or widens their intervals. A problem spoils or prevents them."""

WINDOW_S, GLANCE_S = 1.0, 0.25
"""Seconds of watching: for the doctor, and before a run."""

BUSY_CORE = 0.05
"""The doctor names a process that uses this share of a core or more."""

LOAD_CORES = (0.1, 0.5)
"""Cores in use by other programs: warning, problem. A desktop at rest uses less."""

STOLEN = 0.05
"""Share of time given to other guests that is a problem."""

NEAR_LIMIT_C = 10.0
"""A chip at rest this close to its limit has no room to work."""

LEAST_MEMORY_BYTE = 2 * 2**30
"""Memory for torch and the smallest models."""

LEAST_SHARED_BYTE = 256 * 2**20
"""torch passes tensors between processes through /dev/shm. Docker's default is 64 MiB."""


@dataclass(frozen=True)
class Finding:
    """One fact of a machine, its weight, and the remedy."""

    level: str
    subject: str
    fact: str
    advice: str | None = None


def grade(level: str, subject: str, fact: str, advice: str) -> Finding:
    """Return a finding that has advice unless its level is OK."""
    return Finding(level, subject, fact, None if level == OK else advice)


def level_of(value: float, bounds: tuple[float, float]) -> str:
    """Grade a value by the bounds (warning, problem) that it reaches."""
    warning, problem = bounds
    return PROBLEM if value >= problem else WARNING if value >= warning else OK


def gigabytes(byte: float) -> str:
    return f"{byte / 1e9:.1f} GB"


def check_temperature(subject: str, sensor: str, temperature_c: float, limit_c: float | None) -> Finding:
    if limit_c is None:
        return Finding(OK, subject, f"{sensor} is at {temperature_c:.0f} °C and has no limit")
    fact = f"{sensor} is at {temperature_c:.0f} °C (limit {limit_c:.0f} °C)"
    level = WARNING if temperature_c > limit_c - NEAR_LIMIT_C else OK
    return grade(level, subject, fact, "let it cool down, or improve the cooling")


@dataclass(frozen=True)
class Activity:
    """Activity of the machine over a window: cores in use by others, their busiest processes, share of stolen time."""

    load_cores: float | None
    busiest: tuple[str, ...]
    stolen: float
    is_throttled: bool
    swap_moved_byte: int


def check_host(largest: tuple[str, int] | None) -> Iterator[Finding]:
    """Watch the machine for ``WINDOW_S``, then check it. ``largest`` is the largest counted cell: label, bytes."""
    import psutil

    activity = _watch()
    yield check_load(activity)
    yield check_hypervisor(activity.stolen)
    yield check_cores()
    yield check_quota(processor.physical_cores())
    yield check_governors()
    yield check_turbo()
    yield check_heat(getattr(psutil, "sensors_temperatures", dict)())
    yield check_throttling(activity.is_throttled)
    yield check_battery()
    yield check_memory(processor.available_memory_byte(), largest)
    yield check_shared_memory()
    yield check_swap(psutil.swap_memory().used, activity.swap_moved_byte)


def _watch() -> Activity:
    import psutil

    sensors = ProcessorSensors()
    swap_before, times_before = psutil.swap_memory(), psutil.cpu_times()
    others = [process for process in psutil.process_iter(["name"]) if process.pid != os.getpid()]
    for process in others:
        _core_share(process)  # psutil measures from the previous call on
    opening = sensors.read()
    time.sleep(WINDOW_S)
    used = sorted(((_core_share(process), process) for process in others), key=lambda pair: -pair[0])
    closing, times, swap = sensors.read(), psutil.cpu_times(), psutil.swap_memory()
    load, elapsed_s = load_since(opening, sensors), sum(times) - sum(times_before)
    return Activity(
        load_cores=None if load is None else load * _logical_cores(),
        busiest=tuple(
            f"{each.info['name']} ({each.pid}) {share:.2f}" for share, each in used[:3] if share >= BUSY_CORE
        ),
        stolen=(getattr(times, "steal", 0.0) - getattr(times_before, "steal", 0.0)) / (elapsed_s or 1.0),
        is_throttled=closing.throttle is not None,
        swap_moved_byte=swap.sin + swap.sout - swap_before.sin - swap_before.sout,
    )


def _logical_cores() -> int:
    import psutil

    return psutil.cpu_count() or processor.visible_cores()


def _core_share(process: Any) -> float:
    import psutil

    try:
        return process.cpu_percent() / 100
    except psutil.Error:  # it ended, or belongs to another user
        return 0.0


def load_cores() -> float | None:
    """Watch for ``GLANCE_S`` how many cores other processes use; None if the system hides it."""
    sensors = HostLoad()
    opening = sensors.read()
    time.sleep(GLANCE_S)
    load = load_since(opening, sensors)
    return None if load is None else load * _logical_cores()


def warning_of_load() -> str | None:
    """Return a warning for a run that starts on a busy machine; None if the machine is quiet."""
    cores = load_cores()
    if cores is None or level_of(cores, LOAD_CORES) != PROBLEM:
        return None
    return (
        f"Other programs use {cores:.1f} of this machine's cores: latencies come out longer and are flagged loaded "
        "(python -m measure doctor names the programs)"
    )


def check_load(activity: Activity) -> Finding:
    if activity.load_cores is None:
        return Finding(UNCHECKED, "load", "this system hides the load of its cores")
    who = f": {', '.join(activity.busiest)}" if activity.busiest else ""
    fact = f"other programs use {activity.load_cores:.2f} of {_logical_cores()} cores{who}"
    return grade(level_of(activity.load_cores, LOAD_CORES), "load", fact, "end them, or wait until they are done")


def check_hypervisor(stolen: float) -> Finding:
    flags = processor.read_cpuinfo().get("flags")
    if flags is None or platform.system() != "Linux":
        return Finding(UNCHECKED, "virtual machine", "this system does not say whether it is virtual")
    if "hypervisor" not in flags.split():
        return Finding(OK, "virtual machine", "no hypervisor")
    fact = f"other guests got {100 * stolen:.1f} % of the time and share caches and memory; they are not visible here"
    advice = "measure again later and compare, or use dedicated hardware"
    return Finding(PROBLEM if stolen >= STOLEN else WARNING, "virtual machine", fact, advice)


def check_cores() -> Finding:
    usable, logical = processor.visible_cores(), _logical_cores()
    physical = "an unknown number of" if processor.siblings() is None else processor.physical_cores()
    fact = f"this process may use {usable} of {logical} logical cores, on {physical} physical ones"
    if usable < logical:
        advice = "start without taskset or --cpuset-cpus to measure the whole processor, or keep the other cores idle"
        return Finding(WARNING, "cores", fact, advice)
    advice = "add a second core: with one, latencies include the work of the system"
    return grade(WARNING if usable == 1 else OK, "cores", fact, advice)


def check_quota(
    threads: int, process: Path = Path("/proc/self/cgroup"), groups: Path = Path("/sys/fs/cgroup")
) -> Finding:
    quota = quota_cores(process, groups)
    if quota is None:
        return Finding(OK, "quota", "no control group limits processor time")
    fact = f"a control group allows {quota:g} cores of time for {threads} threads"
    advice = "the threads stop when it is used up: assign whole cores instead (docker --cpuset-cpus, not --cpus)"
    return grade(PROBLEM if quota < threads else OK, "quota", fact, advice)


def quota_cores(process: Path, groups: Path) -> float | None:
    """Return the tightest limit on processor time of this process's control groups, in cores; None: no limit.

    Version 2 keeps quota and period in ``cpu.max``, version 1 in two files of its own hierarchy. A container sees its
    own group at the root.
    """
    limits = []
    for line in content_of(process).splitlines():
        _, controllers, path = line.split(":", 2)
        names: tuple[str, ...] = ("cpu.max",)
        root = groups
        if controllers:
            if "cpu" not in controllers.split(","):
                continue
            root, names = groups / "cpu", ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        innermost = root / path.lstrip("/")
        for group in (innermost, *innermost.parents):
            limits.append(" ".join(content_of(group / name) for name in names).split())
            if group == root:
                break
    return min(
        (int(limit[0]) / int(limit[1]) for limit in limits if len(limit) == 2 and limit[0].isdigit()), default=None
    )


def check_governors(cpus: Path = SYSTEM_CPUS) -> Finding:
    subject = "frequency scaling"
    governors = {content_of(path) for path in cpus.glob("cpufreq/policy*/scaling_governor")} - {""}
    if not governors:
        advice = "--sections roofs measures the clock instead, by a chain of additions"
        return Finding(UNCHECKED, subject, "this system shows no frequency", advice)
    level = OK if governors == {"performance"} else WARNING
    fact = f"the governor is {', '.join(sorted(governors))}"
    return grade(level, subject, fact, "sudo cpupower frequency-set --governor performance")


def check_turbo(cpus: Path = SYSTEM_CPUS) -> Finding:
    no_turbo, boost = content_of(cpus / "intel_pstate/no_turbo"), content_of(cpus / "cpufreq/boost")
    if not no_turbo and not boost:
        return Finding(UNCHECKED, "turbo", "this system does not say whether the clock is boosted")
    if no_turbo == "1" or (not no_turbo and boost != "1"):
        return Finding(OK, "turbo", "off: the clock does not depend on the number of busy cores, nor on time")
    fact = "on: the clock depends on heat, on the number of busy cores, and on how long they work"
    switch = "intel_pstate/no_turbo" if no_turbo else "cpufreq/boost"
    off = f"echo {1 if no_turbo else 0} | sudo tee {cpus / switch}"
    return Finding(WARNING, "turbo", fact, f"switch it off for repeatable figures: {off}")


def check_heat(sensors: Mapping[str, list[Any]]) -> Finding:
    """Check the sensor that is nearest to its limit, or the hottest if none has a limit."""
    entries = [entry for chip in sensors.values() for entry in chip]
    found = [(entry.current, entry.high or entry.critical or None) for entry in entries]
    if not found:
        return Finding(UNCHECKED, "heat", "this system shows no temperature of the processor")
    limited = [pair for pair in found if pair[1]]
    nearest = max(limited or found, key=lambda pair: pair[0] - (pair[1] or 0.0))
    return check_temperature("heat", "the sensor nearest to its limit", *nearest)


def check_throttling(is_throttled: bool, cpus: Path = SYSTEM_CPUS) -> Finding:
    subject = "throttling"
    if is_throttled:
        return Finding(PROBLEM, subject, "heat lowered the clock within the last second", "let the machine cool down")
    counts = [content_of(path) for path in cpus.glob("cpu*/thermal_throttle/core_throttle_count")]
    if not any(map(str.isdigit, counts)):
        return Finding(UNCHECKED, subject, "this system does not count throttling by heat")
    count = sum(int(text) for text in counts if text.isdigit())
    fact = f"heat has lowered the clock {count} times since the machine started"
    return grade(WARNING if count else OK, subject, fact, "distrust rounds flagged throttled, and improve the cooling")


def check_battery() -> Finding:
    import psutil

    battery = psutil.sensors_battery() if hasattr(psutil, "sensors_battery") else None
    if battery is None or battery.power_plugged is None:
        return Finding(OK, "power", "this system shows no battery")
    if battery.power_plugged:
        return Finding(OK, "power", "the machine is plugged in")
    return Finding(PROBLEM, "power", "the machine runs on its battery, which lowers the clock", "plug it in")


def check_memory(available_byte: int, largest: tuple[str, int] | None) -> Finding:
    fact = f"{gigabytes(available_byte)} are free"
    if available_byte < LEAST_MEMORY_BYTE:
        return Finding(PROBLEM, "memory", fact, "end other programs, or raise the control group's limit")
    label, byte = largest or ("", 0)
    if largest:
        fact += f"; {label} needs {gigabytes(byte)} besides torch"
    level = OK if not largest or available_byte >= byte + LEAST_MEMORY_BYTE else WARNING
    return grade(level, "memory", fact, "end other programs, or measure smaller batch sizes (--batch-sizes)")


def check_shared_memory(folder: Path = Path("/dev/shm")) -> Finding:
    import psutil

    if not folder.is_dir():
        return Finding(UNCHECKED, "shared memory", "this system has no /dev/shm")
    free_byte = psutil.disk_usage(str(folder)).free
    level = WARNING if free_byte < LEAST_SHARED_BYTE else OK
    return grade(level, "shared memory", f"{gigabytes(free_byte)} are free in /dev/shm", "docker run --shm-size=1g")


def check_swap(used_byte: int, moved_byte: int) -> Finding:
    if moved_byte:
        fact = f"{gigabytes(moved_byte)} moved to or from swap within the last second"
        return Finding(PROBLEM, "swap", fact, "end the programs that need so much memory")
    if used_byte:
        advice = "sudo swapoff -a; sudo swapon -a, with enough free memory"
        return Finding(WARNING, "swap", f"{gigabytes(used_byte)} are in swap, and none of it moves", advice)
    return Finding(OK, "swap", "not in use")
