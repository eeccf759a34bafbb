"""Variants: how a network is run besides its precision, ``eager`` or by rows of ``VARIANTS`` joined with ``+``.

``measure/timing/variant_setup.py`` applies them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from measure.domain.words import EAGER
from measure.errors import UserError, did_you_mean


@dataclass(frozen=True)
class Variant:
    """A way to run a network that joins with others: ``channels_last+compile``."""

    name: str
    help: str
    is_autocast: bool = False  # weights and inputs stay at fp32
    is_cold: bool = False  # caches are emptied before each call
    is_graph: bool = False  # a forward pass is captured once and replayed
    first_call_s: float = 0.0  # how much longer than others the first call may take
    unprofiled: str | None = None  # the reason if operators cannot be profiled
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the process (``measure/machine/settings.py``)


VARIANTS = (  # in the order of joined names
    Variant("autocast", "torch chooses the precision of each operator", is_autocast=True),
    Variant("channels_last", "images with their channels innermost"),
    Variant("kept_memory", "freed memory stays with the process"),
    Variant(
        "compile", "torch.compile", first_call_s=600.0,
        unprofiled="a compiled network's kernels are each of several modules",
    ),
    Variant(
        "cuda_graph", "a forward pass captured once, its kernels replayed by one launch", is_graph=True,
        first_call_s=300.0, unprofiled="a replayed graph launches its kernels without their operators",
    ),
    Variant(
        "cold", "caches emptied before each call", is_cold=True,
        unprofiled="operators are profiled with warm caches only",
    ),
    Variant("jemalloc", "the allocator of that name"),
    Variant("tcmalloc", "the allocator of that name"),
    Variant(
        "cudnn_benchmark", "cuDNN tries its algorithms first", first_call_s=300.0,
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


def is_graph(variant: str) -> bool:
    return any(each.is_graph for each in parts_of(variant))


def first_call_s(variant: str) -> float:
    """Return the longest time (s) that a first call may take to set things up."""
    return sum(each.first_call_s for each in parts_of(variant))


def usual_variants(environment: Any) -> tuple[str, ...]:
    """Return the default variants of an environment (a row of ``machine.csv``)."""
    # Linux's C library returns large blocks at once, at a cost of page faults
    is_linux_cpu = environment.device == "cpu" and str(environment.system).startswith("Linux")
    return (EAGER, "kept_memory") if is_linux_cpu else (EAGER,)


def canonical_name(text: str) -> str:
    """Return a variant's name with its parts in the tables' order. Raises UserError for a wrong part."""
    names, allowed = text.split("+"), (EAGER, *NAMES)
    if unknown := sorted(set(names) - set(allowed)):
        meant = did_you_mean(unknown[0], allowed)
        raise UserError(f"--variants: {unknown[0]!r} is not one of {', '.join(allowed)}, several joined by '+'{meant}")
    if len(set(names)) < len(names) or (EAGER in names and len(names) > 1):
        raise UserError(f"--variants: {text!r} joins a part twice, or {EAGER} with another; name each part once")
    return "+".join(each.name for each in parts_of(text)) or EAGER


def with_optimizer(variant: str, optimizer: str) -> str:
    """Return the variant of a training step under this optimiser. Its name comes last; SGD adds none."""
    if optimizer == SGD:
        return variant
    return optimizer if variant == EAGER else f"{variant}+{optimizer}"
