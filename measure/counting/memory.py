"""Bytes: the memory that is alive while operators run, and the bytes that each operator reads and writes.

Memory needs no knowledge of the framework. A storage counts from its first tensor until it is freed; on the meta device
the program frees a tensor when its last reference goes, as on any other.

Traffic assumes that nothing is fused and nothing stays in a cache: an operator reads each input once and writes each
output once. It reads and writes a tensor that it changes in place. A view moves nothing.
"""

import math
import weakref
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from measure.counting.formulas import NOTHING, Args, Kwargs, Work, formula, formula_of

# Operators without arithmetic, by the memory that they touch.
# None: the operator that writes into it later is charged.
ALLOCATIONS = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided")
# They write and read nothing, also in place. Random numbers are no work: their cost belongs to the generator.
FILLS = (
    "arange", "bernoulli", "eye", "fill", "full", "full_like", "linspace", "new_full", "new_ones", "new_zeros",
    "normal", "ones", "ones_like", "rand", "rand_like", "randint", "randn", "randn_like", "randperm",
    "scalar_tensor", "uniform", "zero", "zeros", "zeros_like",
)  # fmt: skip
# They read as much of their first tensor as they write, and their indices.
LOOKUPS = ("embedding", "gather", "index", "index_select", "masked_select", "take")
# In place, they write their first tensor and do not read it.
COPIES = ("copy", "_foreach_copy")
# They read their inputs and write their outputs.
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
# Views that torch's schemas call new tensors.
UNDECLARED_VIEWS = ("_unsafe_view", "unsafe_split", "unsafe_split_with_sizes")


@formula(*ALLOCATIONS, *FILLS, *LOOKUPS, *COPIES, *REARRANGEMENTS)
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


class LiveMemory:
    """Bytes alive now (``byte``) and at most (``peak_byte``), without the ``resident`` tensors from before."""

    def __init__(self, resident: Iterable[Any]) -> None:
        self._resident = {storage_key(tensor) for tensor in resident}
        self._blocks: dict[int, tuple[int, int]] = {}  # number and bytes of each live storage
        self._made = 0
        self.byte = 0
        self._settled_peak_byte = self._byte_with_newest = 0
        self._overwritten: tuple[int, tuple[int, int]] | None = None

    @property
    def peak_byte(self) -> int:
        byte = self._byte_with_newest
        if self._overwritten is not None:
            key, block = self._overwritten
            if self._blocks.get(key) != block:  # freed: nothing else held it
                byte -= block[1]
        return max(self._settled_peak_byte, byte)

    def number(self, tensor: Any) -> int | None:
        """Return the number of a tensor's storage, and note a new storage as alive. A resident one has none.

        An address may be used again after a storage is freed; a number is not.
        """
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._resident:
            return None
        if key not in self._blocks:
            self._settled_peak_byte, self._overwritten = self.peak_byte, None
            self._made += 1
            self._blocks[key] = self._made, storage.nbytes()
            self.byte += storage.nbytes()
            self._byte_with_newest = self.byte
            weakref.finalize(storage, self._free, key).atexit = False
        return self._blocks[key][0]

    def overwrites(self, new: Any, old: Any) -> None:
        """Note that the newest storage, ``new``, is written over ``old`` unless something else holds ``old``.

        Something else holds it if it is still alive when the next storage is made.
        """
        key = storage_key(old)
        block = self._blocks.get(key)
        if block is not None and block[1] == new.untyped_storage().nbytes():
            self._overwritten = key, block

    def _free(self, key: int) -> None:
        self.byte -= self._blocks.pop(key)[1]


class Overload:
    """An overload such as ``torch.ops.aten.add.Tensor``. A pure one neither changes nor aliases its inputs."""

    def __init__(self, operator: Any) -> None:
        from torch import Tag

        schema = operator._schema
        name = schema.name.partition("::")[2].removesuffix("_")
        self.name = schema.name.removeprefix("aten::").replace("::", ".")
        self.formula = formula_of(schema.name)
        is_view = operator.is_view or Tag.inplace_view in operator.tags or name in UNDECLARED_VIEWS
        self.is_ignored = is_view or schema.name.startswith("prim::")
        aliases = any(part.alias_info is not None for part in (*schema.arguments, *schema.returns))
        self.is_pure = not is_view and not aliases
        self.allocates = name in ALLOCATIONS
        self._fills, self._looks_up, self._overwrites = name in FILLS, name in LOOKUPS, name in COPIES
        self._written = [
            (place, argument.name)
            for place, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]

    def work(self, args: Args, kwargs: Kwargs, output: Any) -> Work | None:
        """Return the work of one call; None for arithmetic without a formula."""
        if self.formula is not None:
            try:
                return self.formula(args, kwargs, output)
            except LookupError:  # the formula has no rule for complex numbers
                return None
        floating = (tensor.is_floating_point() or tensor.is_complex() for tensor in tensors_in([args, output]))
        return None if any(floating) else NOTHING

    def byte(self, args: Sequence[Any], kwargs: Mapping[str, Any], outputs: Sequence[Any]) -> int:
        """Count the bytes that one call reads and writes."""
        changed = [args[place] if place < len(args) else kwargs.get(name) for place, name in self._written]
        written = tensors_in(changed)
        keys = {id(tensor) for tensor in written}
        new = [tensor for tensor in outputs if id(tensor) not in keys]
        writes = sum(map(tensor_byte, (*written, *new)))
        if self._fills:
            return writes
        read = {id(tensor): tensor for tensor in tensors_in([args, kwargs])}
        reads = [tensor for key, tensor in read.items() if not (self._overwrites and key in keys)]
        if self._looks_up and reads:
            return writes + sum(map(tensor_byte, new)) + sum(map(tensor_byte, reads[1:]))
        return writes + sum(map(tensor_byte, reads))


overload_of = cache(Overload)
