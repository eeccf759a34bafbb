"""The environment variables that affect how fast torch and its libraries run, as they are set now.

Variables that only choose devices or threads (which have columns), name folders or log are not among them.
"""

import os
from collections.abc import Mapping
from pathlib import PurePath

from measure.errors import UserError

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
