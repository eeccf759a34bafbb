"""The stored formats of a served language model: flags ``--weights`` and ``--cache``, and how headings name them."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from measure.domain.values import si
from measure.serving.decoder import Decoder

STORED = "weights", "cache"


def add_stored(add: Callable[..., object]) -> None:
    add("--weights", metavar="FORMAT", help="stored format, such as bf16, fp8 or nvfp4 (default: the configuration's)")
    add("--cache", metavar="FORMAT", help="format of keys and values (default: the configuration's)")


def stored_formats(decoder: Decoder) -> dict[str, Any]:
    """Return the formats of the matrices that may be quantised, the one with the most bytes first, and the cache's."""
    byte: defaultdict[str, float] = defaultdict(float)
    for weight, form, times in decoder.weights:
        if not weight.is_plain:
            byte[form.name] += times * weight.count * form.bit / 8
    return {"weight_formats": sorted(byte, key=lambda name: -byte[name]), "cache_format": decoder.cache.name}


def stored_text(decoder: Decoder) -> str:
    formats = stored_formats(decoder)
    return (
        f"{si(decoder.weight_byte, 'B')} of weights in {' and '.join(formats['weight_formats'])}, "
        f"cache in {formats['cache_format']}"
    )
