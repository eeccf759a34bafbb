"""What a variant of running a network says of itself, and does.

Mixed precision, as torch's autocast has it.

Images and weights of convolutions that lie in memory pixel by pixel.

Single calls with cold caches.

A network compiled with ``torch.compile`` and its default backend.

Convolutions by the algorithms that cuDNN has timed, instead of those that its heuristics choose.

An allocator of the C library that keeps what a program frees, instead of returning it to the operating system.

Allocators that take the place of the C library's: jemalloc and tcmalloc, where they are installed.

How a network is run, besides its precision: as it is (``eager``), or in variants, several joined by ``+``.

A new variant is a class here.
"""

import ctypes
import ctypes.util
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from measure.domain.models import Model
from measure.domain.words import EAGER, FULL_PRECISION, stored_as
from measure.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from measure.domain.models import Model
    from measure.models.call import Call


class Variant:
    """A way to run a network that joins with others: ``channels_last+compile``.

    ``order`` is its place in such a name. ``words`` complete the sentence "NAME ...", for the paper; ``tried_on`` are
    the kinds of chip (``cpu``, ``gpu``) on which the paper advises a trial. With ``is_autocast`` weights and inputs
    stay at fp32 and torch casts each operator's; with ``is_cold`` caches are emptied before each call. ``first_call_s``
    is how much longer than any other the first call may take, where it sets something up. ``unprofiled`` says why the
    operators cannot be profiled, where they cannot.
    """

    name: ClassVar[str]
    order: ClassVar[int]
    words: ClassVar[str]
    tried_on: ClassVar[tuple[str, ...]] = ()
    is_autocast: ClassVar[bool] = False
    is_cold: ClassVar[bool] = False
    first_call_s: ClassVar[float] = 0.0
    unprofiled: ClassVar[str | None] = None

    known: ClassVar[dict[str, "Variant"]] = {}

    def __init_subclass__(cls, is_abstract: bool = False) -> None:
        if not is_abstract:
            Variant.known[cls.name] = cls()

    def is_usual(self, environment: Any) -> bool:
        """Return whether a run that names no variants measures this one too, in such an environment."""
        return False

    @staticmethod
    def need_a_cpu(device_kind: str) -> None:
        """Raise NotImplementedError for another device: torch has an allocator of its own there, which keeps memory."""
        if device_kind != "cpu":
            raise NotImplementedError(f"torch keeps the memory of {device_kind} in any case")

    def variables(self) -> dict[str, str]:
        """Return environment variables that the process must have when it starts."""
        return {}

    def begin(self, device_kind: str, precision: str) -> None:
        """Set this process up before the network is built.

        Raises NotImplementedError, with a reason, where the variant is not for this kind of device or precision.
        """

    def change(self, call: "Call", model: "Model") -> "Call":
        """Return the call as this variant runs it.

        Raises NotImplementedError, with a reason, where the variant is not for this model.
        """
        return call


class Autocast(Variant):
    name, order = "autocast", 1
    words = "chooses what runs at the lower precision"
    is_autocast = True

    def begin(self, device_kind: str, precision: str) -> None:
        if stored_as(precision) == FULL_PRECISION:
            raise NotImplementedError(f"autocast casts from {FULL_PRECISION} to fp16 or bf16, not to {precision}")


class ChannelsLast(Variant):
    name, order = "channels_last", 2
    words = "lays images out pixel by pixel"
    tried_on = ("cpu", "gpu")

    def change(self, call: "Call", model: Model) -> "Call":
        import torch

        found_image = False

        def lay_out(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal found_image
            if tensor.ndim != 4:
                return tensor
            found_image = True
            return tensor.to(memory_format=torch.channels_last)

        changed = call.with_inputs(lay_out)
        if not found_image:
            raise NotImplementedError(f"channels_last is a layout of images, which {model.name} does not take")
        return replace(changed, network=call.network.to(memory_format=torch.channels_last))


class Cold(Variant):
    name, order = "cold", 5
    words = "empties the caches before each call, which helps nobody but shows what warm ones are worth"
    is_cold = True
    unprofiled = "operators are profiled with warm caches only"


class Compile(Variant):
    name, order = "compile", 4
    words = "fuses operators"
    tried_on = ("gpu",)
    first_call_s = 600.0
    unprofiled = "a compiled network's kernels are each of several modules"

    def change(self, call: "Call", model: Model) -> "Call":
        import torch

        return replace(call, network=torch.compile(call.network))


class CudnnBenchmark(Variant):
    name, order = "cudnn_benchmark", 8
    words = "has cuDNN time its algorithms for each convolution and keep the fastest"
    tried_on = ("gpu",)
    first_call_s = 300.0

    def begin(self, device_kind: str, precision: str) -> None:
        if device_kind != "cuda":
            raise NotImplementedError(f"cuDNN computes convolutions on NVIDIA's GPUs, not on {device_kind}")
        import torch

        torch.backends.cudnn.benchmark = True


TRIM_THRESHOLD, MMAP_MAX = -1, -4
"""The parameters of glibc's ``mallopt``, as its ``malloc.h`` numbers them."""

NEVER, NONE = -1, 0


class KeptMemory(Variant):
    name, order = "kept_memory", 3
    words = "has the C library's allocator keep what is freed"
    tried_on = ("cpu",)

    def is_usual(self, environment: Any) -> bool:
        """On Linux it is, whose C library's allocator returns large blocks at once, at a cost of page faults."""
        return environment.device == "cpu" and str(environment.system).startswith("Linux")

    def begin(self, device_kind: str, precision: str) -> None:
        self.need_a_cpu(device_kind)
        keep_memory()


def keep_memory() -> None:
    """Let this process keep what it frees from here on, so that the system need not clear the same pages again.

    Every block then comes from the heap, none from a mapping of its own, and the end of the heap is not given back
    (the GNU C Library's manual, Malloc Tunable Parameters). Raises NotImplementedError where the C library has no such
    parameters.
    """
    if platform.libc_ver()[0] != "glibc":
        raise NotImplementedError("only the GNU C library's allocator can be told to keep memory")
    tune = ctypes.CDLL(None).mallopt
    for parameter, value in ((MMAP_MAX, NONE), (TRIM_THRESHOLD, NEVER)):
        if not tune(parameter, value):
            raise NotImplementedError(f"the C library's allocator refuses its parameter {parameter}")


PRELOAD = "LD_PRELOAD"
MAPPED = Path("/proc/self/maps")


class Preloaded(Variant, is_abstract=True):
    """An allocator in a library of its own, which the dynamic linker loads before the C library.

    ``libraries`` are the names that the linker's cache may have it by, ``package`` is what Debian calls it.
    """

    libraries: ClassVar[tuple[str, ...]]
    package: ClassVar[str]

    def found(self) -> str | None:
        """Return the library's file name; None where it is not installed."""
        return next(filter(None, map(ctypes.util.find_library, self.libraries)), None)

    def variables(self) -> dict[str, str]:
        library = self.found()
        return {PRELOAD: " ".join(filter(None, (library, os.environ.get(PRELOAD))))} if library else {}

    def begin(self, device_kind: str, precision: str) -> None:
        self.need_a_cpu(device_kind)
        library = self.found()
        if library is None:
            raise NotImplementedError(f"{self.name} is not installed: on Debian, apt install {self.package}")
        if not MAPPED.exists() or library not in MAPPED.read_text():
            raise NotImplementedError(f"{self.name} was not loaded into the process that measures")


class Jemalloc(Preloaded):
    name, order = "jemalloc", 6
    words = "puts jemalloc in the place of the C library's allocator"
    libraries, package = ("jemalloc",), "libjemalloc2"


class Tcmalloc(Preloaded):
    name, order = "tcmalloc", 7
    words = "puts tcmalloc in the place of the C library's allocator"
    libraries, package = ("tcmalloc_minimal", "tcmalloc"), "libtcmalloc-minimal4"


VARIANTS = tuple(sorted(Variant.known.values(), key=lambda each: each.order))
"""All variants, in the order in which a name joins them."""

NAMES = tuple(each.name for each in VARIANTS)

SGD, ADAM = OPTIMIZERS = ("sgd", "adam")
"""What updates the weights of a training step: SGD with momentum, which a variant does not name, or Adam."""


def parts(variant: str) -> frozenset[str]:
    """Return the names that a variant joins; none of ``eager``."""
    return frozenset(variant.split("+")) - {EAGER}


def joined_in(variant: str) -> tuple[Variant, ...]:
    """Return the variants that a name joins, without the optimiser."""
    names = parts(variant)
    return tuple(each for each in VARIANTS if each.name in names)


def usual(environment: Any) -> tuple[str, ...]:
    """Return the variants that a run which names none measures in this environment (a row of ``machine.csv``)."""
    return (EAGER, *(each.name for each in VARIANTS if each.is_usual(environment)))


def variables(variant: str) -> dict[str, str]:
    """Return the environment variables that a process must have from its start for a variant."""
    return {name: value for each in joined_in(variant) for name, value in each.variables().items()}


def is_autocast(variant: str) -> bool:
    return any(each.is_autocast for each in joined_in(variant))


def first_call_s(variant: str) -> float:
    """Return the longest time (s) that a first call may take to set things up; 0 where it sets nothing up."""
    return sum(each.first_call_s for each in joined_in(variant))


def named(text: str) -> str:
    """Return a variant's name as tables have it: its parts in their order.

    Raises UserError for a part that is unknown or named twice, and for ``eager`` joined with another.
    """
    names, known = text.split("+"), (EAGER, *NAMES)
    if unknown := sorted(set(names) - set(known)):
        raise UserError(
            f"--variants: {unknown[0]!r} is not one of {', '.join(known)}, several joined by '+'"
            + did_you_mean(unknown[0], known)
        )
    if len(set(names)) < len(names):
        raise UserError(f"--variants: {text!r} names a part twice; name each once")
    if EAGER in names and len(names) > 1:
        raise UserError(f"--variants: {text!r} joins {EAGER}, the network as it is, with a variant; leave it out")
    return "+".join(each.name for each in joined_in(text)) or EAGER


def with_optimizer(variant: str, optimizer: str) -> str:
    """Return the variant of a training step under this optimiser: one other than SGD is its last part."""
    if optimizer == SGD:
        return variant
    return optimizer if variant == EAGER else f"{variant}+{optimizer}"
