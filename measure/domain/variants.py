"""Variants: how a network is run besides its precision, ``eager`` or by rows of ``VARIANTS`` joined with ``+``."""

import ctypes
import ctypes.util
import os
import platform
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from measure.domain.models import Model
from measure.domain.words import EAGER, FULL_PRECISION, stored_as
from measure.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from measure.models.call import Call


@dataclass(frozen=True)
class Variant:
    """A way to run a network that joins with others: ``channels_last+compile``. ``help`` describes it briefly.

    With ``is_autocast`` weights and inputs stay at fp32; with ``is_cold`` caches are emptied before each call. The
    first call may take ``first_call_s`` longer than others. ``unprofiled`` is the reason if operators cannot be
    profiled. ``preloaded`` are the names of an allocator in the linker's cache, ``settings`` the process settings that
    the variant changes (``measure/machine/settings.py``).

    ``begin(device_kind, precision)`` sets a process up before the network is built; ``change(call, model)`` returns the
    call as this variant runs it. Both raise NotImplementedError, with a reason, if the variant does not fit.
    """

    name: str
    help: str
    is_autocast: bool = False
    is_cold: bool = False
    first_call_s: float = 0.0
    unprofiled: str | None = None
    preloaded: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    begin: Callable[[str, str], None] = lambda device_kind, precision: None
    change: Callable[["Call", Model], "Call"] = lambda call, model: call


def _begin_autocast(device_kind: str, precision: str) -> None:
    if stored_as(precision) == FULL_PRECISION:
        raise NotImplementedError(f"autocast casts from {FULL_PRECISION} to fp16 or bf16, not to {precision}")


def _change_layout(call: "Call", model: Model) -> "Call":
    import torch

    images = 0

    def lay_out(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal images
        if tensor.ndim != 4:
            return tensor
        images += 1
        return tensor.to(memory_format=torch.channels_last)

    changed = call.with_inputs(lay_out)
    if not images:
        raise NotImplementedError(f"channels_last is a layout of images, which {model.name} does not take")
    return replace(changed, network=call.network.to(memory_format=torch.channels_last))


def _need_a_cpu(device_kind: str) -> None:
    if device_kind != "cpu":  # torch's own allocators for other devices keep memory
        raise NotImplementedError(f"torch keeps the memory of {device_kind} in any case")


def keep_memory(device_kind: str, precision: str) -> None:
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


def _compile(call: "Call", model: Model) -> "Call":
    import torch

    with suppress(ImportError):
        progress: Any = import_module("tqdm")
        # The compiler shows no progress, but asks for tqdm's lock: a semaphore, which a killed process leaves behind
        progress.tqdm.set_lock(threading.RLock())
    return replace(call, network=torch.compile(call.network))


PRELOAD, MAPPED = "LD_PRELOAD", Path("/proc/self/maps")


def _library_at(address: int) -> str | None:
    """Return the file name of the library that holds a function's address; None if the system does not say."""
    for line in MAPPED.read_text("utf-8", "replace").splitlines() if MAPPED.exists() else ():
        first, last = (int(end, 16) for end in line.split(maxsplit=1)[0].split("-"))
        if first <= address < last:
            return Path(line.split()[-1]).name
    return None


def _find_library(names: tuple[str, ...]) -> str | None:
    return next(filter(None, map(ctypes.util.find_library, names)), None)


def _allocator(name: str, package: str, libraries: tuple[str, ...]) -> Variant:
    def begin(device_kind: str, precision: str) -> None:
        _need_a_cpu(device_kind)
        library = _find_library(libraries)
        if library is None:
            raise NotImplementedError(f"{name} is not installed: on Debian, apt install {package}")
        if not MAPPED.exists() or library not in MAPPED.read_text("utf-8", "replace"):
            raise NotImplementedError(f"{name} was not loaded into the process that measures")

    return Variant(name, "the allocator of that name", preloaded=libraries, begin=begin)


def _begin_cudnn(device_kind: str, precision: str) -> None:
    if device_kind != "cuda":
        raise NotImplementedError(f"cuDNN computes convolutions on NVIDIA's GPUs, not on {device_kind}")


VARIANTS = (  # in the order in which a name joins them
    Variant("autocast", "torch chooses the precision of each operator", is_autocast=True, begin=_begin_autocast),
    Variant("channels_last", "images with their channels innermost", change=_change_layout),
    Variant("kept_memory", "freed memory stays with the process", begin=keep_memory),
    Variant(
        "compile", "torch.compile", first_call_s=600.0, change=_compile,
        unprofiled="a compiled network's kernels are each of several modules",
    ),
    Variant(
        "cold", "caches emptied before each call", is_cold=True,
        unprofiled="operators are profiled with warm caches only",
    ),
    _allocator("jemalloc", "libjemalloc2", ("jemalloc",)),
    _allocator("tcmalloc", "libtcmalloc-minimal4", ("tcmalloc_minimal", "tcmalloc")),
    Variant(
        "cudnn_benchmark", "cuDNN tries its algorithms first", first_call_s=300.0, begin=_begin_cudnn,
        settings={"torch.backends.cudnn.benchmark": True},
    ),
)  # fmt: skip
NAMES = tuple(each.name for each in VARIANTS)
SGD, ADAM = OPTIMIZERS = "sgd", "adam"  # of a training step: SGD with momentum (not named in a variant), or Adam


def parts_of(variant: str) -> tuple[Variant, ...]:
    """Return the variants that a name joins, without the optimiser; none for ``eager``."""
    names = variant.split("+")
    return tuple(each for each in VARIANTS if each.name in names)


def uses_adam(variant: str) -> bool:
    return ADAM in variant.split("+")


def is_autocast(variant: str) -> bool:
    return any(each.is_autocast for each in parts_of(variant))


def first_call_s(variant: str) -> float:
    """Return the longest time (s) that a first call may take to set things up."""
    return sum(each.first_call_s for each in parts_of(variant))


def process_variables(variant: str) -> dict[str, str]:
    """Return the environment variables that a process must have from its start for a variant."""
    libraries = [library for each in parts_of(variant) if (library := _find_library(each.preloaded))]
    return {PRELOAD: " ".join(filter(None, (libraries[-1], os.environ.get(PRELOAD))))} if libraries else {}


def usual_variants(environment: Any) -> tuple[str, ...]:
    """Return the default variants of an environment (a row of ``machine.csv``)."""
    # Linux's C library returns large blocks at once, at a cost of page faults
    is_linux_cpu = environment.device == "cpu" and str(environment.system).startswith("Linux")
    return (EAGER, "kept_memory") if is_linux_cpu else (EAGER,)


def canonical_name(text: str) -> str:
    """Return a variant's name with its parts in the tables' order. Raises UserError for a wrong part."""
    names, known = text.split("+"), (EAGER, *NAMES)
    if unknown := sorted(set(names) - set(known)):
        meant = did_you_mean(unknown[0], known)
        raise UserError(f"--variants: {unknown[0]!r} is not one of {', '.join(known)}, several joined by '+'{meant}")
    if len(set(names)) < len(names) or (EAGER in names and len(names) > 1):
        raise UserError(f"--variants: {text!r} joins a part twice, or {EAGER} with another; name each part once")
    return "+".join(each.name for each in parts_of(text)) or EAGER


def with_optimizer(variant: str, optimizer: str) -> str:
    """Return the variant of a training step under this optimiser. Its name comes last; SGD adds none."""
    if optimizer == SGD:
        return variant
    return optimizer if variant == EAGER else f"{variant}+{optimizer}"
