import time

import pytest

pytest.importorskip("numba", reason="the clock is measured with Numba")

from measure.roofs import processor_kernels


def test_a_round_is_sixteen_additions():
    # 1, 1, then 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584
    assert processor_kernels.compile_chain("int64")(1, 1, 1) == 2584
    assert processor_kernels.compile_chain("fp64")(1, 1.0, 1.0) == 2584.0
    assert processor_kernels.compile_chain("int64")(0, 1, 1) == 1


@pytest.mark.parametrize("threads", [1, 2])
def test_every_thread_does_the_chain(threads):
    work = processor_kernels.prepare("chain", "int64", 2 * processor_kernels.CHAIN_ROUND, "cpu", threads)
    assert work(1) == [processor_kernels.fibonacci(2, 1, 1)] * threads
    assert work(2) == [processor_kernels.fibonacci(4, 1, 1)] * threads


def shortest_ns(additions, precision):
    """The shortest of some runs of a chain."""
    add, times = processor_kernels.compile_chain(precision), []
    for _ in range(9):
        start = processor_kernels.processor_ns(1)
        add(additions // processor_kernels.CHAIN_ROUND, 1, 1)
        times.append(processor_kernels.processor_ns(1) - start)
    return min(times)


@pytest.mark.parametrize("precision", ["int64", "fp64"])
def test_a_longer_chain_takes_longer(precision):
    """So no compiler folded it away: a closed form would take no time whatever its length.

    The bound is far below 512 times the length: a loaded machine reaches it, too.
    """
    assert shortest_ns(2**25, precision) > 20 * shortest_ns(2**16, precision)


def test_a_floating_point_addition_takes_a_few_cycles():
    """From two (AMD Zen 5) to four (Intel Skylake), five on small cores: A. Fog's instruction tables."""
    assert 1.8 < shortest_ns(2**24, "fp64") / shortest_ns(2**24, "int64") < 5.5


def test_time_in_which_nothing_is_computed_does_not_count():
    start = processor_kernels.processor_ns(1)
    time.sleep(0.2)
    assert 0 <= processor_kernels.processor_ns(1) - start < 0.1e9
