"""Streams through a processor's memory: read, write, copy and triad, the last three as STREAM has them.

STREAM counts the bytes that a program reads and writes, each vector once, whatever a cache moves besides. Source:
J. McCalpin, STREAM: sustainable memory bandwidth in high performance computers. Only what measures on a processor
imports this module, since it imports Numba.
"""

import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from numba import float64, int64, njit

from measure.cache.words import STREAM_ARRAYS
from measure.roofs.team import Team
from measure.roofs.vectors import VECTOR_BYTE, add, fill, load, multiply_add, store, stream, total

WIDTH = VECTOR_BYTE // 8
"""Numbers in a vector."""

PIECE_BYTE = 256
"""A thread's part of each array is a multiple of this: four vectors of the widest, and whole lines of caches."""

SCALE = 3.0

REPEATED = 2**15
"""After so many random numbers an array repeats itself: to draw them all takes longer than to stream through them."""

TRIES, TRY_S = 5, 0.002
"""How often, and at least how long, each kind of store is tried."""


@cache
def compiled(kernel: str, past_caches: bool) -> Callable[[Any, Any, Any, float, int], int]:
    """Compile a kernel of arrays (``a`` is written, ``b`` and ``c`` are read), a scale and the number of passes.

    ``past_caches`` says which kind of store writes. ``read`` gives the sum of what it read, the numbers' bits taken
    as integers; all others give 0.
    """
    put = stream if past_caches else store

    def read(a: Any, b: Any, c: Any, scale: float, passes: int) -> int:
        numbers = b.view(np.int64)
        first = second = third = fourth = fill(0)  # side by side, since each sum waits for the one before
        for _ in range(passes):
            for at in range(0, numbers.size, 4 * WIDTH):
                first = add(first, load(numbers, at))
                second = add(second, load(numbers, at + WIDTH))
                third = add(third, load(numbers, at + 2 * WIDTH))
                fourth = add(fourth, load(numbers, at + 3 * WIDTH))
        return total(add(add(first, second), add(third, fourth)))

    def write(a: Any, b: Any, c: Any, scale: float, passes: int) -> int:
        for _ in range(passes):
            for at in range(0, a.size, WIDTH):
                put(a, at, fill(scale))
        return 0

    def copy(a: Any, b: Any, c: Any, scale: float, passes: int) -> int:
        for _ in range(passes):
            for at in range(0, a.size, WIDTH):
                put(a, at, load(b, at))
        return 0

    def triad(a: Any, b: Any, c: Any, scale: float, passes: int) -> int:
        for _ in range(passes):
            for at in range(0, a.size, WIDTH):
                put(a, at, multiply_add(load(c, at), fill(scale), load(b, at)))
        return 0

    function = {"stream_read": read, "stream_write": write, "stream_copy": copy, "stream_triad": triad}[kernel]
    numbers = float64[::1]
    return njit(int64(numbers, numbers, numbers, float64, int64), nogil=True)(function)


def share(arrays: int, pieces: int) -> list[np.ndarray[Any, np.dtype[np.float64]]]:
    """Make arrays of so many pieces, one behind the other in memory that the calling thread touches first."""
    byte = pieces * PIECE_BYTE
    memory = np.empty(arrays * byte + PIECE_BYTE, np.uint8)
    begin = -memory.ctypes.data % PIECE_BYTE
    numbers = memory[begin : begin + arrays * byte].view(np.float64)
    repeated = np.random.default_rng(0).random(min(REPEATED, numbers.size))
    for at in range(0, numbers.size, repeated.size):
        numbers[at : at + repeated.size] = repeated[: numbers.size - at]
    return list(numbers.reshape(arrays, -1))


class Streams:
    """One kernel on a working set of ``size`` bytes, of which each of so many threads has its share."""

    def __init__(self, kernel: str, size: int, threads: int) -> None:
        arrays, team = STREAM_ARRAYS[kernel], Team(threads)
        pieces = team.parts(size // (arrays * PIECE_BYTE))
        self._kernel, self._team = kernel, team
        self.shares = team.run(lambda member: share(arrays, pieces[member]))

    def run(self, past_caches: bool, passes: int) -> list[int]:
        """Work through all of it so many times, and return what each thread's kernel gives."""
        function = compiled(self._kernel, past_caches)

        def work(member: int) -> int:
            arrays = self.shares[member]
            a, b, c = (*arrays, arrays[-1], arrays[-1])[:3]
            return function(a, b, c, SCALE, passes)

        return self._team.run(work)

    def past_caches_is_faster(self) -> bool:
        """Return whether it is quicker to store past the caches, as beyond the last, or into them, as within."""

        def seconds(past_caches: bool, passes: int) -> float:
            start = time.perf_counter()
            self.run(past_caches, passes)
            return time.perf_counter() - start

        passes = 1
        while seconds(False, passes) < TRY_S:
            passes *= 2
        into, past = (min(seconds(kind, passes) for _ in range(TRIES)) for kind in (False, True))
        return past < into


def prepare(kernel: str, _precision: str, size: int, _device: str, threads: int) -> Callable[[int], object]:
    """Return what streams through a working set of ``size`` bytes so many times, by the faster kind of store."""
    streams = Streams(kernel, size, threads)
    return partial(streams.run, kernel != "stream_read" and streams.past_caches_is_faster())
