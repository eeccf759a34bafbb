"""A processor's clock, from the time of a chain of additions, each of which needs the sum before it.

Virtual machines often show no frequency, and a printed one is not the one that a processor runs at. An addition of
integers takes one cycle on every processor in question, so a chain of them counts cycles. A second chain adds
floating-point numbers, at a few whole cycles an addition: a check of the first. Only what measures on a processor
imports this module, since it imports Numba.
"""

import time
from collections.abc import Callable
from functools import cache

from numba import float64, int64, njit

from measure.roofs.team import Team

ROUND = 16
"""Additions in one round of the loop, whose own counting goes on beside them."""


def fibonacci(rounds: int, first: float, second: float) -> float:
    """Return the last of ``ROUND`` additions a round, each the sum of the two numbers before it.

    No compiler can shorten this chain: the sums have no closed form that it knows, and each is needed twice. No
    operand is a constant either, which some processors add without taking a cycle.
    """
    for _ in range(rounds):
        for _ in range(ROUND // 2):  # which the compiler unrolls
            first += second
            second += first
    return second


@cache
def compiled(precision: str) -> Callable[[int, float, float], float]:
    """Compile ``fibonacci`` to machine code, of integers (int64) or floating-point numbers (fp64)."""
    kind = {"int64": int64, "fp64": float64}[precision]
    return njit(kind(int64, kind, kind), nogil=True)(fibonacci)


def processor_ns(threads: int) -> int:
    """Return the nanoseconds that each of so many threads of this process has computed, without others' time."""
    return time.process_time_ns() // threads


def prepare(_kernel: str, precision: str, size: int, _device: str, threads: int) -> Callable[[int], object]:
    """Return what does a chain of ``size`` additions so many times, on each of so many threads at once.

    The clock in question is that of all cores busy.
    """
    add, team = compiled(precision), Team(threads)
    return lambda passes: team.run(lambda _: add(passes * size // ROUND, 1, 1))
