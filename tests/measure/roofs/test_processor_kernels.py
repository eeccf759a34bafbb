import platform
import threading

import numpy as np
import pytest

from measure.domain.words import STREAM_ARRAYS
from measure.roofs import processor_kernels
from measure.roofs.processor_kernels import PIECE_BYTE, SCALE, VECTOR_BYTE, Streams, Team, operands, prepare

FUSED = {"x86_64": "vfmadd", "AMD64": "vfmadd", "aarch64": "fmla", "arm64": "fmla"}
"""How a fused multiply-add of vectors is called, by machine."""


def assembly(function):
    """All machine code of a compiled function."""
    return "\n".join(function.inspect_asm().values())


def has(flag):
    """Whether this processor has the feature that LLVM calls so."""
    from llvmlite.binding import get_host_cpu_features

    return bool(get_host_cpu_features().get(flag))


fused = pytest.mark.skipif(
    platform.machine() in ("x86_64", "AMD64") and not has("fma"), reason="this processor has no fused multiply-add"
)


@fused
@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_multiply_adds_are_one_instruction_in_registers(precision):
    function = processor_kernels.compile_multiply_adds(precision)
    function(1, operands(precision), 2, 1)
    assert assembly(function).count(FUSED[platform.machine()]) >= processor_kernels.CHAINS
    assert "vmul" not in assembly(function)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the instructions of this test are x86's")
def test_a_streaming_store_and_the_widest_vectors_are_used():
    """Compilers keep to half the width on many processors that have the whole."""
    Streams("stream_write", SIZE, Team(1)).run(False, 1)
    Streams("stream_write", SIZE, Team(1)).run(True, 1)
    into, past = (assembly(processor_kernels.compile_stream("stream_write", past_caches)) for past_caches in STORES)
    assert ("movnt" in into, "movnt" in past) == (False, True)
    assert ("zmm" in past) == (VECTOR_BYTE == 64) == has("avx512f")


def test_each_member_does_its_work_at_the_same_time():
    together = threading.Barrier(3, timeout=10)  # breaks unless all three wait at once

    def work(number):
        together.wait()
        return number, threading.get_ident()

    team = Team(3)
    first, second = team.run(work), team.run(work)
    assert [number for number, _ in first] == [0, 1, 2]
    assert len({thread for _, thread in first}) == 3
    assert second == first  # the same threads with the same numbers
    with pytest.raises(ZeroDivisionError):  # a member's exception
        team.run(lambda number: 1 // (number - 1))
    assert [Team(threads).parts(5) for threads in (1, 2, 3)] == [[5], [2, 3], [1, 2, 2]]


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_every_number_takes_one_multiply_add_a_round(precision):
    values = operands(precision)
    values[:] = 1
    count = len(values)
    # 1 -> 2 * 1 + 1 = 3 -> 2 * 3 + 1 = 7 -> 15
    totals = [processor_kernels.compile_multiply_adds(precision)(rounds, values, 2, 1) for rounds in range(4)]
    assert totals == [count, 3 * count, 7 * count, 15 * count]
    # The kernel's own rounds make 1 - x of x: after two every number is itself again.
    total = float(operands(precision).sum())
    assert prepare("fma", precision, 2 * count, "cpu", 1)(1) == pytest.approx([total], rel=1e-6)


def test_a_round_is_sixteen_additions():
    # 1, 1, then 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1597, 2584
    chain = processor_kernels.compile_chain("int64")
    assert (chain(0, 1, 1), chain(1, 1, 1)) == (1, 2584)
    assert processor_kernels.compile_chain("fp64")(1, 1.0, 1.0) == 2584.0
    work = prepare("chain", "int64", 2 * processor_kernels.CHAIN_ROUND, "cpu", 2)
    assert work(2) == [chain(4, 1, 1)] * 2  # every thread does it


SIZE = 30 * 6 * PIECE_BYTE  # a working set that one, two and three arrays divide into whole pieces
STORES = (False, True)  # into the caches, past them


@pytest.mark.parametrize("kernel", STREAM_ARRAYS)
def test_the_shares_of_all_threads_are_the_working_set(kernel):
    working = Streams(kernel, SIZE, Team(3))
    assert sum(array.nbytes for arrays in working.shares for array in arrays) == SIZE
    assert {len(arrays) for arrays in working.shares} == {STREAM_ARRAYS[kernel]}
    assert {array.ctypes.data % PIECE_BYTE for arrays in working.shares for array in arrays} == {0}


@pytest.mark.parametrize("past_caches", STORES)
@pytest.mark.parametrize(
    ("kernel", "makes"),
    [
        ("stream_write", lambda a: np.full_like(a, SCALE)),
        ("stream_copy", lambda _, b: b),
        ("stream_triad", lambda _, b, c: b + SCALE * c),
    ],
)
def test_a_stream_writes_what_numpy_makes_of_its_arrays(kernel, makes, past_caches):
    working = Streams(kernel, SIZE, Team(2))
    before = [[array.copy() for array in share] for share in working.shares]
    assert not np.array_equal(working.shares[0][0], makes(*before[0]))
    working.run(past_caches, 2)
    for (a, *others), (_, *old) in zip(working.shares, before, strict=True):
        np.testing.assert_allclose(a, makes(a, *old), rtol=1e-15)
        for other, original in zip(others, old, strict=True):
            np.testing.assert_array_equal(other, original)


def test_a_read_gives_the_sum_of_every_bit_pattern_for_each_pass():
    working = Streams("stream_read", SIZE, Team(2))
    for (array,) in working.shares:
        array.view(np.int64)[:] = np.arange(array.size)
    counts = [array.size for (array,) in working.shares]
    # 0 + 1 + ... + (n - 1), three times
    assert working.run(False, 3) == [3 * n * (n - 1) // 2 for n in counts]
