"""Bytes: the memory that is alive while operators run, and the bytes that each operator reads and writes.

Memory needs no knowledge of the framework. A storage counts from its first tensor until it is freed; on the meta device
the program frees a tensor when its last reference goes, as on any other.

Traffic assumes that nothing is fused and nothing stays in a cache: an operator reads each input once and writes each
output once. It reads and writes a tensor that it changes in place. A view moves nothing.
"""

import math
import weakref
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from measure.counting.formulas import NOTHING, Args, Kwargs, Work, formula

ALLOCATIONS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
"""They touch no memory: the operator that writes into it later is charged."""

FILLS = (
    "arange", "bernoulli", "eye", "fill", "full", "full_like", "linspace", "new_full", "new_ones", "new_zeros",
    "normal", "ones", "ones_like", "rand", "rand_like", "randint", "randn", "randn_like", "randperm",
    "scalar_tensor", "uniform", "zero", "zeros", "zeros_like",
)  # fmt: skip
"""They write and read nothing, also in place. Random numbers are no work: their cost belongs to the generator."""

LOOKUPS = ("embedding", "gather", "index", "index_select", "masked_select", "take")
"""They read as much of their first tensor as they write, and their indices."""

COPIES = ("copy", "_foreach_copy")
"""In place, they write their first tensor and do not read it."""

REARRANGEMENTS = (
    "_conj_physical", "_local_scalar_dense", "_to_copy", "_unsafe_index", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "as_strided_scatter", "cat", "channel_shuffle",
    "clone", "constant_pad_nd", "complex", "diagonal_backward", "flip", "im2col", "index_copy", "lift_fresh_copy",
    "masked_fill", "masked_scatter", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle",
    "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "repeat", "repeat_interleave", "replication_pad1d",
    "replication_pad2d", "replication_pad3d", "resize", "roll", "scatter", "select_backward", "select_scatter",
    "slice_backward", "slice_scatter", "stack", "tril", "triu", "unfold_copy", "upsample_nearest1d",
    "upsample_nearest2d", "upsample_nearest3d", "view_as_complex_copy", "view_as_real_copy", "where",
)  # fmt: skip
"""They read their inputs and write their outputs."""

UNDECLARED_VIEWS = ("_unsafe_view", "unsafe_split", "unsafe_split_with_sizes")
"""Views that torch's schemas call new tensors."""


@formula(*(f"aten::{name}" for name in (*ALLOCATIONS, *FILLS, *LOOKUPS, *COPIES, *REARRANGEMENTS)))
def no_work(_args: Args, _kwargs: Kwargs, _out: Any) -> Work:
    return NOTHING


def tensors_in(value: Any) -> list[Any]:
    """Return all tensors of a value: a tensor, or tuples, lists and dictionaries of them."""
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
    """Identify the memory behind a tensor, as long as it is alive."""
    return int(tensor.untyped_storage()._cdata)


class Block(NamedTuple):
    """A live storage."""

    number: int
    byte: int


class LiveMemory:
    """Bytes alive now (``byte``) and at most (``peak_byte``), without the ``resident`` tensors from before."""

    def __init__(self, resident: Iterable[Any]) -> None:
        self._resident = {storage_key(tensor) for tensor in resident}
        self._blocks: dict[int, Block] = {}
        self._next = 0
        self.byte = 0
        self._settled_peak_byte = 0
        self._byte_with_newest = 0
        self._overwritten: tuple[int, Block] | None = None

    @property
    def peak_byte(self) -> int:
        byte = self._byte_with_newest
        if self._overwritten is not None:
            key, block = self._overwritten
            if self._blocks.get(key) != block:  # freed: nothing else held it
                byte -= block.byte
        return max(self._settled_peak_byte, byte)

    def number(self, tensor: Any) -> int | None:
        """Return the number of a tensor's storage, and note a new storage as alive. A resident one has none.

        An address may be used again after a storage is freed; a number is not.
        """
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._resident:
            return None
        if key in self._blocks:
            return self._blocks[key].number
        self._settled_peak_byte, self._overwritten = self.peak_byte, None
        self._next += 1
        block = Block(self._next, storage.nbytes())
        self._blocks[key] = block
        self.byte += block.byte
        self._byte_with_newest = self.byte
        weakref.finalize(storage, self._free, key).atexit = False
        return block.number

    def overwrites(self, new: Any, old: Any) -> None:
        """Note that the newest storage, ``new``, is written over ``old`` unless something else holds ``old``.

        Something else holds it if it is still alive when the next storage is made.
        """
        key = storage_key(old)
        block = self._blocks.get(key)
        if block is not None and block.byte == new.untyped_storage().nbytes():
            self._overwritten = key, block

    def _free(self, key: int) -> None:
        self.byte -= self._blocks.pop(key).byte


class Signature:
    """How an operator uses memory, by its schema: the arguments that it writes, and whether its output is a view."""

    def __init__(self, operator: Any) -> None:
        from torch import Tag

        schema = operator._schema
        name = schema.name.partition("::")[2].removesuffix("_")
        self.is_view = operator.is_view or Tag.inplace_view in operator.tags or name in UNDECLARED_VIEWS
        self.aliases = self.is_view or any(part.alias_info is not None for part in (*schema.arguments, *schema.returns))
        self.allocates = name in ALLOCATIONS
        self._looks_up = name in LOOKUPS
        self._fills = name in FILLS
        self._overwrites = name in COPIES
        self._written = [
            (place, argument.name)
            for place, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]

    def written(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        """Return the tensors that a call changes in place."""
        return tensors_in([args[place] if place < len(args) else kwargs.get(name) for place, name in self._written])

    def byte(self, inputs: Iterable[Any], written: Sequence[Any], outputs: Sequence[Any]) -> int:
        """Count the bytes that one call reads and writes."""
        changed = {id(tensor) for tensor in written}
        new = [tensor for tensor in outputs if id(tensor) not in changed]
        writes = sum(map(tensor_byte, (*written, *new)))
        if self._fills:
            return writes
        once = {id(tensor): tensor for tensor in inputs}
        reads = [tensor for key, tensor in once.items() if not (self._overwrites and key in changed)]
        if self._looks_up and reads:
            return writes + sum(map(tensor_byte, new)) + sum(map(tensor_byte, reads[1:]))
        return writes + sum(map(tensor_byte, reads))
