import time

import numpy as np
import pytest

numba = pytest.importorskip("numba", reason="roofs of a processor are measured with Numba")

from measure.cache.records import STREAM_ARRAYS  # noqa: E402
from measure.roofs import processor_kernels  # noqa: E402
from measure.roofs.processor_kernels import PIECE_BYTE, SCALE, Streams, Team, compile_stream, make_share  # noqa: E402

SIZE = 30 * 6 * PIECE_BYTE
"""A working set that one, two and three arrays divide into whole pieces."""

KINDS = (False, True)
"""Into the caches, past them."""


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kernel", STREAM_ARRAYS)
def test_the_shares_of_all_threads_are_the_working_set(kernel, threads):
    working = Streams(kernel, SIZE, Team(threads))
    assert sum(array.nbytes for arrays in working.shares for array in arrays) == SIZE
    assert {len(arrays) for arrays in working.shares} == {STREAM_ARRAYS[kernel]}
    assert {array.ctypes.data % PIECE_BYTE for arrays in working.shares for array in arrays} == {0}


@pytest.mark.parametrize("past_caches", KINDS)
def test_a_copy_moves_every_byte(past_caches):
    working = Streams("stream_copy", SIZE, Team(2))
    before = [b.copy() for _, b in working.shares]
    assert not np.array_equal(working.shares[0][0], before[0])
    working.run(past_caches, 1)
    moved = 0
    for (a, b), original in zip(working.shares, before, strict=True):
        np.testing.assert_array_equal(a, original)
        np.testing.assert_array_equal(b, original)
        moved += a.nbytes + b.nbytes
    assert moved == SIZE  # each read once or written once


@pytest.mark.parametrize("past_caches", KINDS)
def test_a_write_fills_every_element(past_caches):
    working = Streams("stream_write", SIZE, Team(2))
    working.run(past_caches, 1)
    assert all(np.all(a == SCALE) for (a,) in working.shares)


@pytest.mark.parametrize("past_caches", KINDS)
def test_a_triad_is_what_numpy_makes_of_it(past_caches):
    working = Streams("stream_triad", SIZE, Team(2))
    before = [(b.copy(), c.copy()) for _, b, c in working.shares]
    working.run(past_caches, 2)
    for (a, b, c), (old_b, old_c) in zip(working.shares, before, strict=True):
        np.testing.assert_allclose(a, old_b + SCALE * old_c, rtol=1e-15)
        np.testing.assert_array_equal(b, old_b)
        np.testing.assert_array_equal(c, old_c)


def test_a_read_gives_the_sum_of_every_bit_pattern_for_each_pass():
    working = Streams("stream_read", SIZE, Team(2))
    for (array,) in working.shares:
        array.view(np.int64)[:] = np.arange(array.size)
    counts = [array.size for (array,) in working.shares]
    # 0 + 1 + ... + (n - 1), three times
    assert working.run(False, 3) == [3 * n * (n - 1) // 2 for n in counts]


def test_the_faster_kind_of_store_is_taken(monkeypatch):
    taken = []

    def timed(kernel, past_caches):
        def function(*_):
            taken.append(past_caches)
            time.sleep(0.003 if past_caches is slow else 0.001)
            return 0

        return function

    monkeypatch.setattr(processor_kernels, "compile_stream", timed)
    for slow in KINDS:
        work = processor_kernels.prepare("stream_write", "fp64", SIZE, "cpu", 1)
        taken.clear()
        work(1)
        assert taken == [not slow]


def test_what_only_reads_tries_no_stores(monkeypatch):
    monkeypatch.setattr(Streams, "is_faster_past_caches", lambda _: pytest.fail("nothing is stored"))
    assert processor_kernels.prepare("stream_read", "fp64", SIZE, "cpu", 1)(1)


def shortest_s(kernel, pieces, passes):
    """The shortest of some runs, by the processor's time: that of others is not in it."""
    arrays, times = make_share(STREAM_ARRAYS[kernel], pieces), []
    a, b, c = (*arrays, arrays[-1], arrays[-1])[:3]
    for _ in range(9):
        start = time.process_time()
        compile_stream(kernel, False)(a, b, c, SCALE, passes)
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("kernel", STREAM_ARRAYS)
def test_more_work_takes_more_time(kernel):
    """So no pass was taken for a repetition of the one before, and no array for one that nobody reads.

    The bounds are far below 512 times the passes and 100 times the elements: a loaded machine reaches them, too.
    """
    assert shortest_s(kernel, 20, 2**16) > 20 * shortest_s(kernel, 20, 2**7)
    assert shortest_s(kernel, 200, 2**14) > 5 * shortest_s(kernel, 2, 2**14)
