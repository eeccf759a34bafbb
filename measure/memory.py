"""The memory that is alive while operators are recorded: a storage counts from its first output until it is freed.

Nothing has to be known of when a framework frees what: the recorded program frees its tensors on the meta device at
the same moments as on any other, when the last reference to one goes.
"""

import weakref
from collections.abc import Iterable
from typing import Any


class LiveMemory:
    """Bytes alive now and at most, besides what was alive before recording (``resident``)."""

    def __init__(self, resident: Iterable[Any]) -> None:
        self._resident = {tensor.untyped_storage()._cdata for tensor in resident}
        self._numbers: dict[int, int] = {}
        self._next = 0
        self.byte = 0
        self.peak_byte = 0

    def number(self, tensor: Any) -> int | None:
        """The number of a tensor's storage, noted as alive if it is new; None for a resident one.

        An address is used again once its storage is freed, a number never.
        """
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self._resident:
            return None
        known = self._numbers.get(key)
        if known is not None:
            return known
        self._next += 1
        self._numbers[key] = self._next
        byte = storage.nbytes()
        self.byte += byte
        self.peak_byte = max(self.peak_byte, self.byte)
        weakref.finalize(storage, self._free, key, byte).atexit = False
        return self._next

    def _free(self, key: int, byte: int) -> None:
        del self._numbers[key]
        self.byte -= byte
