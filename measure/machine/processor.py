"""The processor of this machine: what it says of itself, and how much of it and its memory this process may use."""

import os
import platform
import re
import subprocess
from pathlib import Path

from measure.cache.memory_levels import Cache
from measure.cache.words import VECTOR_EXTENSIONS

SYSTEM_CPUS = Path("/sys/devices/system/cpu")


def described() -> dict[str, str]:
    """Return the first processor's block of /proc/cpuinfo, or what the system says of it elsewhere."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text().split("\n\n")[0].splitlines()
        return {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    if platform.system() == "Darwin":
        asked = ["sysctl", "-n", "machdep.cpu.brand_string"]
        answer = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
        return {"model name": answer}
    return {"model name": platform.processor()}


def vector_extension() -> str | None:
    """Return the vector extensions that decide the processor's peak, widest first; None where it does not say."""
    said = described()
    flags = set((said.get("flags") or said.get("Features") or "").split())
    return " ".join(name for name in VECTOR_EXTENSIONS if name in flags) or None


def _whole_number(text: str | None) -> int | None:
    """Read a decimal or, as on Arm, hexadecimal number; None for any other text."""
    return int(text, 0) if text and re.fullmatch(r"0x[0-9a-f]+|[1-9]\d*|0", text) else None


def numbers() -> tuple[str | None, int | None, int | None]:
    """Return the processor's vendor, family and model; on Arm implementer, architecture and part."""
    said = described()
    return (
        said.get("vendor_id") or said.get("CPU implementer"),
        _whole_number(said.get("cpu family") or said.get("CPU architecture")),
        _whole_number(said.get("model") or said.get("CPU part")),
    )


def visible_cores() -> int:
    """Count the logical cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def siblings() -> tuple[tuple[int, ...], ...] | None:
    """Return the logical cores that this process may use, grouped by physical core; None where that is unknown."""
    groups: dict[str, list[int]] = {}
    for core in sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else ():
        shared = content_of(SYSTEM_CPUS / f"cpu{core}" / "topology" / "thread_siblings_list")
        if not shared:
            return None
        groups.setdefault(shared, []).append(core)
    return tuple(map(tuple, groups.values())) or None


def physical_cores() -> int:
    """Count the physical cores that this process may use."""
    if together := siblings():
        return len(together)
    import psutil

    return min(psutil.cpu_count(logical=False) or visible_cores(), visible_cores())


def caches() -> tuple[Cache, ...]:
    """Return the data caches of the cores that this process may use, by level; none if the system reports none."""
    found: dict[tuple[int, str], int] = {}
    for core in os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else ():
        for folder in (SYSTEM_CPUS / f"cpu{core}" / "cache").glob("index*"):
            level, kind, size, sharers = (
                content_of(folder / name) for name in ("level", "type", "size", "shared_cpu_list")
            )
            match = re.fullmatch(r"(\d+)([KMG]?)", size)
            if kind != "Instruction" and level.isdigit() and match:
                byte = int(match[1]) * 1024 ** " KMG".index(match[2] or " ")
                found[int(level), sharers] = byte
    levels = sorted({level for level, _ in found})
    sizes = {level: [byte for (other, _), byte in found.items() if other == level] for level in levels}
    return tuple(Cache(level, sum(byte), len(byte)) for level, byte in sizes.items())


def content_of(path: Path) -> str:
    """Return a file's text, stripped; empty where it cannot be read, as now and then with sensors."""
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def available_memory_byte() -> int:
    """Return the main memory that a new process can take without swapping or passing its control group's limit."""
    import psutil

    available = psutil.virtual_memory().available
    limit, used = Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")
    if limit.exists() and used.exists() and (text := limit.read_text().strip()).isdigit():
        available = min(available, int(text) - int(used.read_text()))
    return available
