"""The memory that is alive while operators are recorded: a storage counts from its first output until it is freed.

This needs no knowledge of the framework: on the meta device, as on any other, the recorded program frees a tensor when
its last reference goes.
"""

import weakref
from collections.abc import Iterable
from typing import Any, NamedTuple


class Block(NamedTuple):
    """A live storage."""

    number: int
    byte: int


class LiveMemory:
    """Bytes alive now and at most, besides what was alive before recording (``resident``)."""

    def __init__(self, resident: Iterable[Any]) -> None:
        self._resident = {tensor.untyped_storage()._cdata for tensor in resident}
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
            if self._blocks.get(key) != block:  # freed: nobody else held it
                byte -= block.byte
        return max(self._settled_peak_byte, byte)

    def number(self, tensor: Any) -> int | None:
        """Return the number of a tensor's storage, noted as alive if it is new; None for a resident one.

        An address is used again once its storage is freed, a number never.
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
        """Note that ``new``, the newest storage, is written over ``old`` unless something else holds that.

        Something else does if ``old`` is still alive when the next storage is made.
        """
        key = old.untyped_storage()._cdata
        block = self._blocks.get(key)
        if block is not None and block.byte == new.untyped_storage().nbytes():
            self._overwritten = key, block

    def _free(self, key: int) -> None:
        self.byte -= self._blocks.pop(key).byte
