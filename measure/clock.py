"""A processor's clock, from the time of a chain of additions, each of which needs the sum before it.

Virtual machines often show no frequency, and a printed one is not the one that a processor runs at. An addition of
integers takes one cycle on every processor in question, so a chain of them counts cycles. A second chain adds
floating-point numbers, at a few whole cycles an addition: a check of the first.
"""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

CHAINS = (("int64", 2**28), ("fp64", 2**26))
"""Precision and additions of each chain: some 0.1 s, so that starting the threads vanishes in it."""

ROUND = 16
"""Additions in one round of the loop, whose own counting goes on beside them."""


def fibonacci(rounds: int, first: float, second: float) -> float:
    """The last of ``ROUND`` additions a round, each the sum of the two numbers before it.

    No compiler can shorten this chain: the sums have no closed form that it knows, and each is needed twice. No
    operand is a constant either, which some processors add without taking a cycle.
    """
    for _ in range(rounds):
        first += second
        second += first
        first += second
        second += first
        first += second
        second += first
        first += second
        second += first
        first += second
        second += first
        first += second
        second += first
        first += second
        second += first
        first += second
        second += first
    return second


@cache
def compiled(precision: str) -> Callable[[int, float, float], float]:
    """``fibonacci`` in machine code. Raises NotImplementedError where Numba is not installed or does not import."""
    try:
        import numba
    except ImportError as problem:
        raise NotImplementedError(
            f"the clock is measured with Numba, which does not import ({problem}); "
            "pip install numba, then measure with --force"
        ) from None
    kind = {"int64": numba.int64, "fp64": numba.float64}[precision]
    return numba.njit(kind(numba.int64, kind, kind), nogil=True)(fibonacci)


def processor_ns(threads: int) -> int:
    """Nanoseconds that each of so many threads of this process has computed: the time of others is not in it."""
    return time.process_time_ns() // threads


def chain(additions: int, threads: int, precision: str) -> Callable[[], object]:
    """A call that does a chain on each of so many threads at once: the clock in question is that of all cores busy."""
    add, pool = compiled(precision), ThreadPoolExecutor(threads)
    rounds = [additions // ROUND] * threads
    return lambda: list(pool.map(lambda each: add(each, 1, 1), rounds))
