"""Multiply-adds in registers on a processor: the arithmetic of its vector units, with nothing to wait for.

Only what measures on a processor imports this module, since it imports Numba.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numba import njit, types

from measure.roofs.team import Team
from measure.roofs.vectors import VECTOR_BYTE, fill, load, multiply_add, total

CHAINS = 12
"""Chains of multiply-adds side by side, since each waits for the one before: at most two units times five cycles on
processors with 16 registers; with the two operands they fill 14 of these."""


def chains(rounds: int, values: Any, factor: float, term: float) -> float:
    """Return the sum of all numbers after so many rounds, in each of which every number takes one multiply-add."""
    width = values.size // CHAINS
    factors, terms = fill(factor), fill(term)
    a, b, c = load(values, 0), load(values, width), load(values, 2 * width)
    d, e, f = load(values, 3 * width), load(values, 4 * width), load(values, 5 * width)
    g, h, i = load(values, 6 * width), load(values, 7 * width), load(values, 8 * width)
    j, k, m = load(values, 9 * width), load(values, 10 * width), load(values, 11 * width)
    for _ in range(rounds):
        a = multiply_add(a, factors, terms)
        b = multiply_add(b, factors, terms)
        c = multiply_add(c, factors, terms)
        d = multiply_add(d, factors, terms)
        e = multiply_add(e, factors, terms)
        f = multiply_add(f, factors, terms)
        g = multiply_add(g, factors, terms)
        h = multiply_add(h, factors, terms)
        i = multiply_add(i, factors, terms)
        j = multiply_add(j, factors, terms)
        k = multiply_add(k, factors, terms)
        m = multiply_add(m, factors, terms)
    return (
        total(a) + total(b) + total(c) + total(d) + total(e) + total(f)
        + total(g) + total(h) + total(i) + total(j) + total(k) + total(m)
    )  # fmt: skip


@cache
def compiled(precision: str) -> Any:
    """Compile ``chains`` to machine code, at fp32 or fp64."""
    kind = {"fp32": types.float32, "fp64": types.float64}[precision]
    return njit(kind(types.int64, kind[::1], kind, kind), nogil=True)(chains)


def operands(precision: str) -> np.ndarray[Any, Any]:
    """Return a number for every lane of every chain, where vectors can be loaded from."""
    byte = CHAINS * VECTOR_BYTE
    memory = np.empty(byte + VECTOR_BYTE, np.uint8)
    begin = -memory.ctypes.data % VECTOR_BYTE
    numbers = memory[begin : begin + byte].view({"fp32": np.float32, "fp64": np.float64}[precision])
    numbers[:] = np.random.default_rng(0).random(numbers.size)
    return numbers


def prepare(_kernel: str, precision: str, size: int, _device: str, threads: int) -> Callable[[int], object]:
    """Return what does ``size`` multiply-adds, all threads together, so many times."""
    function, team = compiled(precision), Team(threads)
    values = [operands(precision) for _ in range(threads)]
    rounds = team.parts(size // values[0].size)

    def work(passes: int) -> list[float]:
        # x becomes 1 - x and x again: numbers that stay the same would take the units less power.
        return team.run(lambda member: function(passes * rounds[member], values[member], -1, 1))

    return work
