"""How a network is run, besides its precision: as it is (``eager``), or in variants, several joined by ``+``.

Each variant is a class in a module of this package, which finds them: a new one is a file here.
"""

from typing import Any

from measure.cache.discovery import import_modules
from measure.cache.variants.base import Variant
from measure.cache.words import EAGER
from measure.cli.suggestion import did_you_mean
from measure.errors import UserError

import_modules(__name__)

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
