"""How a network is run, besides its precision: as it is (``eager``), or with some of ``PARTS``, joined by ``+``."""

from measure.cache.words import EAGER
from measure.cli.suggestion import did_you_mean
from measure.errors import UserError

AUTOCAST, CHANNELS_LAST, COMPILE, COLD = "autocast", "channels_last", "compile", "cold"
KEPT_MEMORY = "kept_memory"

PARTS = (AUTOCAST, CHANNELS_LAST, KEPT_MEMORY, COMPILE, COLD)
"""torch's autocast chooses what runs in the precision, and weights and inputs stay fp32; images lie in memory pixel by
pixel; a process on a processor keeps the memory that it frees; ``torch.compile`` with its default backend; each sample
is one call with cold caches."""

SGD, ADAM = OPTIMIZERS = ("sgd", "adam")
"""What updates the weights of a training step: SGD with momentum, which a variant does not name, or Adam."""


def parts(variant: str) -> frozenset[str]:
    """The parts of a variant; none of ``eager``."""
    return frozenset(variant.split("+")) - {EAGER}


def named(text: str) -> str:
    """A variant under the name that tables use: its parts once each, in the order of ``PARTS``.

    Raises UserError for a part that is unknown.
    """
    wanted = parts(text)
    if unknown := sorted(wanted - set(PARTS)):
        raise UserError(
            f"--variants: {unknown[0]!r} is not one of {', '.join((EAGER, *PARTS))}, several joined by '+'"
            + did_you_mean(unknown[0], (EAGER, *PARTS))
        )
    return "+".join(part for part in PARTS if part in wanted) or EAGER


def with_optimizer(variant: str, optimizer: str) -> str:
    """The variant of a training step under this optimiser: another one than SGD is its last part."""
    if optimizer == SGD:
        return variant
    return optimizer if variant == EAGER else f"{variant}+{optimizer}"
