"""The processor: its identity, the cores, caches and memory of this process, and the variables that tune libraries."""

import os
import platform
import re
import subprocess
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from measure.domain.roofs import CacheLevel
from measure.domain.words import VECTOR_EXTENSIONS

SYSTEM_CPUS = Path("/sys/devices/system/cpu")
CPUINFO, BOARD = Path("/proc/cpuinfo"), Path("/proc/device-tree/model")
# Variables that change speed, sorted: none that names folders, and none that chooses devices or threads (columns).
SPEED = (
    "ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING",
    "DNNL_MAX_CPU_ISA", "DYLD_INSERT_LIBRARIES", "GLIBC_TUNABLES", "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT",
    "KMP_AFFINITY", "KMP_BLOCKTIME", "LD_PRELOAD", "MALLOC_ARENA_MAX", "MALLOC_CONF", "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_", "MKL_CBWR", "MKL_DEBUG_CPU_TYPE",
    "MKL_ENABLE_INSTRUCTIONS", "OMP_DYNAMIC", "OMP_PLACES", "OMP_PROC_BIND", "OMP_SCHEDULE", "OMP_WAIT_POLICY",
    "ONEDNN_MAX_CPU_ISA", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ENABLE_MPS_FALLBACK",
    "PYTORCH_MPS_FAST_MATH", "PYTORCH_MPS_PREFER_METAL", "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "PYTORCH_TUNABLEOP_ENABLED",
)  # fmt: skip
# Variables that override the precision of fp32 products (manuals of oneDNN and cuBLAS).
PRECISION = ("DNNL_DEFAULT_FPMATH_MODE", "NVIDIA_TF32_OVERRIDE", "ONEDNN_DEFAULT_FPMATH_MODE")


def content_of(path: Path) -> str:
    """Return a file's text, stripped; empty if it cannot be read, which happens to sensors now and then."""
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""


def output_of(*command: str) -> str:
    """Return a program's output in English, stripped; empty if the program is missing or fails."""
    try:
        english = os.environ | {"LC_ALL": "C"}
        run = subprocess.run(command, capture_output=True, errors="replace", check=True, env=english)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return run.stdout.strip()


def read_cpuinfo() -> dict[str, str]:
    """Return the first core's block of /proc/cpuinfo, with the ``Model`` of an Arm board; elsewhere ``model name``."""
    first, *others = (
        [line.partition(":") for line in block.splitlines()] for block in content_of(CPUINFO).split("\n\n")
    )
    if first:
        found = {key.strip(): value.strip() for key, _, value in first}
        # A Raspberry Pi names itself after its cores; other boards only in the device tree (texts end in NUL)
        names = [value.strip() for block in others for key, _, value in block if key.strip() == "Model"]
        board = next(iter(names), content_of(BOARD).strip("\0"))
        return found | {"Model": board} if board and board != "linux,dummy-virt" else found  # QEMU's
    name = output_of("sysctl", "-n", "machdep.cpu.brand_string") or platform.processor()  # of macOS, of Windows
    return {"model name": name}


def vector_extension() -> str | None:
    """Return the vector extensions that decide the processor's peak, widest first; None if unknown."""
    if (platform.system(), platform.machine()) == ("Darwin", "arm64"):
        return "asimd"  # of every Arm processor of 64 bits; macOS has no list of flags
    cpuinfo = read_cpuinfo()
    flags = (cpuinfo.get("flags") or cpuinfo.get("Features") or "").split()
    return " ".join(name for name in VECTOR_EXTENSIONS if name in flags) or None


class CpuNumbers(NamedTuple):
    """A processor's numbers; on Arm implementer, architecture and part; of an Apple M2 under macOS ``Apple`` and 2."""

    vendor: str | None = None
    family: int | None = None
    model: int | None = None
    stepping: int | None = None


def cpu_numbers() -> CpuNumbers:
    """Return the processor's numbers, which clouds leave as they are where they hide its name.

    The model is None where cores have different ones, as the fast and slow cores of a phone: no one peak holds for all.
    """
    cpuinfo = read_cpuinfo()
    if generation := re.match(r"Apple M(\d+)", cpuinfo.get("model name", "")):
        return CpuNumbers("Apple", int(generation[1]))
    keys = (("cpu family", "CPU architecture"), ("model", "CPU part"), ("stepping", ""))
    texts = (cpuinfo.get(x86) or cpuinfo.get(arm) or "" for x86, arm in keys)
    numbers = [int(text, 0) if re.fullmatch(r"0x[0-9a-f]+|[1-9]\d*|0", text) else None for text in texts]
    parts = set(re.findall(r"^CPU part\s*:\s*(\S+)", content_of(CPUINFO), re.MULTILINE))
    if len(parts) > 1:
        numbers[1] = None
    return CpuNumbers(cpuinfo.get("vendor_id") or cpuinfo.get("CPU implementer"), *numbers)


def _affinity() -> list[int]:
    """Return the logical cores that this process may use; none if the system does not say (macOS, Windows)."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def visible_cores() -> int:
    """Count the logical cores that this process may use."""
    return len(_affinity()) or os.cpu_count() or 1


def physical_cores() -> int:
    """Count the physical cores that this process may use."""
    siblings = {content_of(SYSTEM_CPUS / f"cpu{core}" / "topology" / "thread_siblings_list") for core in _affinity()}
    if siblings and "" not in siblings:
        return len(siblings)
    import psutil

    return min(psutil.cpu_count(logical=False) or visible_cores(), visible_cores())


def caches() -> tuple[CacheLevel, ...]:
    """Return the data caches of the cores that this process may use, by level; none if the system reports none."""
    byte_of: dict[tuple[int, str], int] = {}
    for core in _affinity():
        for folder in (SYSTEM_CPUS / f"cpu{core}" / "cache").glob("index*"):
            names = ("level", "type", "size", "shared_cpu_list")
            level, kind, size, sharers = (content_of(folder / name) for name in names)
            match = re.fullmatch(r"(\d+)([KMG]?)", size)
            if kind != "Instruction" and level.isdigit() and match:
                byte_of[int(level), sharers] = int(match[1]) * 1024 ** " KMG".index(match[2] or " ")
    sizes: dict[int, list[int]] = defaultdict(list)
    for (number, _), byte in sorted(byte_of.items()):
        sizes[number].append(byte)
    return tuple(CacheLevel(number, sum(found), len(found)) for number, found in sizes.items())


def tuning(variables: Mapping[str, str] = os.environ) -> str | None:
    """Return the set variables that change speed, ``NAME=value`` joined by ``;`` in order of names; None for none."""
    settings = []
    for name in SPEED:
        value = variables.get(name, "").replace(";", ",")
        if name in ("DYLD_INSERT_LIBRARIES", "LD_PRELOAD"):
            value = ",".join(value.replace(":", " ").split())
        value = re.sub(r"[^,:=]*[/\\]", "", value)  # folders are private, and may hold a user's name
        if value:
            settings.append(f"{name}={value}")
    return ";".join(settings) or None


def precision_overrides(variables: Mapping[str, str] = os.environ) -> list[str]:
    """Return the set variables that override the precision that names a cell, ``NAME=value`` each."""
    return [f"{name}={variables[name]}" for name in PRECISION if variables.get(name)]
