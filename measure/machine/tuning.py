"""The environment variables that decide how fast torch and its libraries run, as they are set now.

Not among them are those that only choose devices or threads (these are columns of their own), that name folders, or
that log.
"""

import os
from collections.abc import Mapping
from pathlib import PurePath

from measure.errors import UserError

PRELOADED = ("DYLD_INSERT_LIBRARIES", "LD_PRELOAD")
"""The libraries that are loaded before all others: where an allocator is replaced."""

ALLOCATOR = (
    "GLIBC_TUNABLES",
    "MALLOC_ARENA_MAX",
    "MALLOC_CONF",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
)
"""The parameters of glibc's allocator, of jemalloc and of torch's own."""

THREADS = (
    "GOMP_CPU_AFFINITY",
    "GOMP_SPINCOUNT",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "OMP_DYNAMIC",
    "OMP_PLACES",
    "OMP_PROC_BIND",
    "OMP_SCHEDULE",
    "OMP_WAIT_POLICY",
)
"""Where threads run, and how they wait."""

KERNELS = (
    "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_DEVICE_MAX_CONNECTIONS",
    "CUDA_LAUNCH_BLOCKING",
    "DNNL_MAX_CPU_ISA",
    "MKL_CBWR",
    "MKL_DEBUG_CPU_TYPE",
    "MKL_ENABLE_INSTRUCTIONS",
    "ONEDNN_MAX_CPU_ISA",
    "PYTORCH_ENABLE_MPS_FALLBACK",
    "PYTORCH_MPS_FAST_MATH",
    "PYTORCH_MPS_PREFER_METAL",
    "PYTORCH_TUNABLEOP_ENABLED",
)
"""Which kernels are chosen, and how they are launched."""

SPEED = tuple(sorted((*PRELOADED, *ALLOCATOR, *THREADS, *KERNELS)))
"""All that decide over speed alone."""

PRECISION = ("DNNL_DEFAULT_FPMATH_MODE", "NVIDIA_TF32_OVERRIDE", "ONEDNN_DEFAULT_FPMATH_MODE")
"""In what precision libraries multiply fp32, whatever a program asks for (oneDNN's and cuBLAS's manuals)."""


def tuning(variables: Mapping[str, str] = os.environ) -> str | None:
    """What is set, ``NAME=value`` joined by ``;``, in the order of names; None where nothing is.

    Of libraries that are loaded first only the files' names are told.
    """
    told = [f"{name}={_plain(name, variables[name])}" for name in SPEED if variables.get(name)]
    return ";".join(told) or None


def overriding(variables: Mapping[str, str] = os.environ) -> list[str]:
    """Those that are set and decide over precisions, ``NAME=value`` each."""
    return [f"{name}={variables[name]}" for name in PRECISION if variables.get(name)]


def check_precisions(variables: Mapping[str, str] = os.environ) -> None:
    """Raises UserError where a variable would make another precision of the one that a cell is named by."""
    for setting in overriding(variables):
        raise UserError(
            f"{setting} decides in what precision fp32 is multiplied, whatever --precisions asks for; unset it"
        )


def _plain(name: str, value: str) -> str:
    """A value without folders, which are nobody's business, and without the sign that joins."""
    if name in PRELOADED:
        value = ",".join(PurePath(path).name for path in value.replace(":", " ").split())
    return value.replace(";", ",")
