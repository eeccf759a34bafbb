"""The processor of this machine: what it says of itself, and how much of it and its memory this process may use.

The environment variables that affect how fast torch and its libraries run, as they are set now.

Variables that only choose devices or threads (which have columns), name folders or log are not among them.
"""

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path, PurePath

from measure.domain.roofs import Cache
from measure.domain.words import VECTOR_EXTENSIONS
from measure.errors import UserError

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


PRELOADED = ("DYLD_INSERT_LIBRARIES", "LD_PRELOAD")
"""The libraries that are loaded before all others: where an allocator is replaced."""

ALLOCATOR = (
    "GLIBC_TUNABLES", "MALLOC_ARENA_MAX", "MALLOC_CONF", "MALLOC_MMAP_MAX_", "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_", "MALLOC_TRIM_THRESHOLD_", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
)  # fmt: skip
"""The parameters of glibc's allocator, of jemalloc and of torch's own."""

THREADS = (
    "GOMP_CPU_AFFINITY", "GOMP_SPINCOUNT", "KMP_AFFINITY", "KMP_BLOCKTIME", "OMP_DYNAMIC", "OMP_PLACES",
    "OMP_PROC_BIND", "OMP_SCHEDULE", "OMP_WAIT_POLICY",
)  # fmt: skip
"""Where threads run, and how they wait."""

KERNELS = (
    "ATEN_CPU_CAPABILITY", "CUBLAS_WORKSPACE_CONFIG", "CUDA_DEVICE_MAX_CONNECTIONS", "CUDA_LAUNCH_BLOCKING",
    "DNNL_MAX_CPU_ISA", "MKL_CBWR", "MKL_DEBUG_CPU_TYPE", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_MAX_CPU_ISA",
    "PYTORCH_ENABLE_MPS_FALLBACK", "PYTORCH_MPS_FAST_MATH", "PYTORCH_MPS_PREFER_METAL", "PYTORCH_TUNABLEOP_ENABLED",
)  # fmt: skip
"""Which library routines are chosen, and how GPU kernels are launched."""

SPEED = tuple(sorted((*PRELOADED, *ALLOCATOR, *THREADS, *KERNELS)))
"""All that affect speed alone."""

PRECISION = ("DNNL_DEFAULT_FPMATH_MODE", "NVIDIA_TF32_OVERRIDE", "ONEDNN_DEFAULT_FPMATH_MODE")
"""In what precision libraries multiply fp32, whatever a program asks for (oneDNN's and cuBLAS's manuals)."""


def tuning(variables: Mapping[str, str] = os.environ) -> str | None:
    """Return what is set, ``NAME=value`` joined by ``;``, in the order of names; None where nothing is.

    Of preloaded libraries only the files' names are given.
    """
    settings = [f"{name}={_plain(name, value)}" for name in SPEED if (value := variables.get(name))]
    return ";".join(settings) or None


def overriding(variables: Mapping[str, str] = os.environ) -> list[str]:
    """Return those that are set and change precisions, ``NAME=value`` each."""
    return [f"{name}={variables[name]}" for name in PRECISION if variables.get(name)]


def check_precisions(variables: Mapping[str, str] = os.environ) -> None:
    """Raise UserError where a variable would change the precision that a cell is named by."""
    for setting in overriding(variables):
        raise UserError(f"{setting} sets the precision of fp32 products whatever --precisions says; unset it")


def _plain(name: str, value: str) -> str:
    """Return a value without folders, which are private, and without the sign that joins."""
    if name in PRELOADED:
        value = ",".join(PurePath(path).name for path in value.replace(":", " ").split())
    return value.replace(";", ",")
