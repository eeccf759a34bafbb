"""The bytes that an operator reads and writes, were nothing fused and nothing kept in a cache.

Each tensor that goes in is read once, each that comes out is written once; one that is changed in place is read and
written. A view moves nothing. An operator that fills does not read what stood there; one that looks rows up reads as
much as it writes, and its indices.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

from measure.counting.movements import ALLOCATIONS, CHOICES, COPIES, FILLS

UNDECLARED_VIEWS = ("_unsafe_view", "unsafe_split", "unsafe_split_with_sizes")
"""Views that torch's schemas call new tensors."""


def tensors_in(value: Any) -> list[Any]:
    """Return all tensors in a value: a tensor, or tuples, lists and dictionaries of them."""
    if hasattr(value, "untyped_storage"):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for part in value for tensor in tensors_in(part)]
    return []


def tensor_byte(tensor: Any) -> int:
    """Count the bytes of distinct elements: an expanded dimension once, overlapping windows share theirs."""
    elements = math.prod(size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride)
    return min(elements * tensor.element_size(), tensor.untyped_storage().nbytes())


def storage_key(tensor: Any) -> int:
    """Return what identifies the memory behind a tensor, while it is alive."""
    return int(tensor.untyped_storage()._cdata)


class Signature:
    """An operator's use of memory by its schema: which arguments it writes, whether its output is a view."""

    def __init__(self, operator: Any) -> None:
        from torch import Tag

        schema = operator._schema
        name = schema.name.partition("::")[2].removesuffix("_")
        changes_outline = Tag.inplace_view in operator.tags
        self.is_view = operator.is_view or changes_outline or name in UNDECLARED_VIEWS
        self.aliases = self.is_view or any(part.alias_info is not None for part in (*schema.arguments, *schema.returns))
        self.allocates = name in ALLOCATIONS
        self._looks_up = name in CHOICES
        self._fills = name in FILLS
        self._overwrites = name in COPIES
        self._written = [
            (place, argument.name)
            for place, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]

    def written(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the tensors that are changed in place."""
        found = [args[place] if place < len(args) else kwargs.get(name) for place, name in self._written]
        return tensors_in(found)

    def byte(self, inputs: Iterable[Any], written: Sequence[Any], outputs: Sequence[Any]) -> int:
        """Count the bytes that one call reads and writes."""
        changed = {id(tensor) for tensor in written}
        new = [tensor for tensor in outputs if id(tensor) not in changed]
        writes = sum(map(tensor_byte, (*written, *new)))
        if self._fills:
            return writes
        once = {id(tensor): tensor for tensor in inputs}
        if self._overwrites:
            once = {key: tensor for key, tensor in once.items() if key not in changed}
        reads = list(once.values())
        if self._looks_up and reads:
            return writes + sum(map(tensor_byte, new)) + sum(map(tensor_byte, reads[1:]))
        return writes + sum(map(tensor_byte, reads))
