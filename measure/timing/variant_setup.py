"""Apply a variant: set up the process that measures it, and change the call.

All functions raise NotImplementedError, with a reason, if the variant does not fit the device or the model.
"""

import ctypes
import ctypes.util
import os
import platform
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.domain.models import Model
from measure.domain.variants import parts_of
from measure.domain.words import FULL_PRECISION, stored_as
from measure.models.call import Call

if TYPE_CHECKING:
    import torch

PRELOAD, MAPPED = "LD_PRELOAD", Path("/proc/self/maps")
ALLOCATORS = {  # the package of Debian, and the names in the linker's cache
    "jemalloc": ("libjemalloc2", ("jemalloc",)),
    "tcmalloc": ("libtcmalloc-minimal4", ("tcmalloc_minimal", "tcmalloc")),
}


def begin(variant: str, device_kind: str, precision: str) -> None:
    """Set this process up for a variant, before the network is built."""
    for part in parts_of(variant):
        if part.name in BEGIN:
            BEGIN[part.name](device_kind, precision)


def change(variant: str, call: Call, model: Model) -> Call:
    for part in parts_of(variant):
        if part.name in CHANGE:
            call = CHANGE[part.name](call, model)
    return call


def process_variables(variant: str) -> dict[str, str]:
    """Return the environment variables that a process must have from its start for a variant."""
    names = [part.name for part in parts_of(variant) if part.name in ALLOCATORS]
    libraries = [library for library in map(_find_library, names) if library]
    return {PRELOAD: " ".join(filter(None, (libraries[-1], os.environ.get(PRELOAD))))} if libraries else {}


def _begin_autocast(_device_kind: str, precision: str) -> None:
    if stored_as(precision) == FULL_PRECISION:
        raise NotImplementedError(f"autocast casts from {FULL_PRECISION} to fp16 or bf16, not to {precision}")


def keep_memory(device_kind: str, _precision: str) -> None:
    """Take every block from the heap and never shrink it, so that the system need not clear pages again.

    Source: the GNU C Library's manual, Malloc Tunable Parameters.
    """
    _need_a_cpu(device_kind)
    if platform.libc_ver()[0] != "glibc":
        raise NotImplementedError("only the GNU C library's allocator can be told to keep memory")
    served_by = _library_at(ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value or 0)
    if served_by and not served_by.startswith("libc"):
        raise NotImplementedError(f"{served_by} serves this process's memory, not the GNU C library; unset LD_PRELOAD")
    for parameter, value in ((-4, 0), (-1, -1)):  # M_MMAP_MAX: none, M_TRIM_THRESHOLD: never (malloc.h)
        if not ctypes.CDLL(None).mallopt(parameter, value):
            raise NotImplementedError(f"the C library's allocator refuses its parameter {parameter}")


def _begin_allocator(name: str, device_kind: str, _precision: str) -> None:
    _need_a_cpu(device_kind)
    library = _find_library(name)
    if library is None:
        raise NotImplementedError(f"{name} is not installed: on Debian, apt install {ALLOCATORS[name][0]}")
    if not MAPPED.exists() or library not in MAPPED.read_text("utf-8", "replace"):
        raise NotImplementedError(f"{name} was not loaded into the process that measures")


def _need_cuda(why: str, device_kind: str, _precision: str) -> None:
    if device_kind != "cuda":
        raise NotImplementedError(f"{why}, not on {device_kind}")


def _need_a_cpu(device_kind: str) -> None:
    if device_kind != "cpu":  # torch's own allocators for other devices keep memory
        raise NotImplementedError(f"torch keeps the memory of {device_kind} in any case")


def _library_at(address: int) -> str | None:
    """Return the file name of the library that holds a function's address; None if the system does not say."""
    for line in MAPPED.read_text("utf-8", "replace").splitlines() if MAPPED.exists() else ():
        first, last = (int(end, 16) for end in line.split(maxsplit=1)[0].split("-"))
        if first <= address < last:
            return Path(line.split()[-1]).name
    return None


def _find_library(allocator: str) -> str | None:
    return next(filter(None, map(ctypes.util.find_library, ALLOCATORS[allocator][1])), None)


def _change_layout(call: Call, model: Model) -> Call:
    import torch

    images = 0

    def lay_out(tensor: "torch.Tensor") -> "torch.Tensor":
        nonlocal images
        if tensor.ndim != 4:
            return tensor
        images += 1
        return tensor.to(memory_format=torch.channels_last)

    changed = call.with_inputs(lay_out)
    if not images:
        raise NotImplementedError(f"channels_last is a layout of images, which {model.name} does not take")
    return replace(changed, network=call.network.to(memory_format=torch.channels_last))


def _need_convolutions(call: Call, model: Model) -> Call:
    """Refuse a network without a convolution: the weights of one have three dimensions or more."""
    if all(parameter.ndim < 3 for parameter in call.network.parameters()):
        raise NotImplementedError(f"cudnn_benchmark tries algorithms of convolutions, which {model.name} does not have")
    return call


def _compile(call: Call, _model: Model) -> Call:
    import torch

    with suppress(ImportError):
        progress: Any = import_module("tqdm")
        # The compiler shows no progress, but takes tqdm's lock: a semaphore, which a killed process leaves behind
        progress.tqdm.set_lock(threading.RLock())
    return replace(call, network=torch.compile(call.network))


BEGIN: Mapping[str, Callable[[str, str], None]] = {  # by the kind of device and the precision
    "autocast": _begin_autocast,
    "kept_memory": keep_memory,
    "cudnn_benchmark": partial(_need_cuda, "cuDNN computes convolutions on NVIDIA's GPUs"),
    "cuda_graph": partial(_need_cuda, "a CUDA graph is launched on NVIDIA's and AMD's GPUs"),
    **{name: partial(_begin_allocator, name) for name in ALLOCATORS},
}
CHANGE: Mapping[str, Callable[[Call, Model], Call]] = {
    "channels_last": _change_layout,
    "compile": _compile,
    "cudnn_benchmark": _need_convolutions,
}
