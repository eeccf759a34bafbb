import platform

import numpy as np
import pytest
from helpers.assembly import FUSED, assembly, has

numba = pytest.importorskip("numba", reason="roofs of a processor are measured with Numba")

from measure.roofs import processor_kernels  # noqa: E402
from measure.roofs.processor_kernels import VECTOR_BYTE  # noqa: E402


def aligned(values):
    """The values in memory from which vectors can be loaded."""
    values = np.asarray(values)
    memory = np.empty(values.nbytes + VECTOR_BYTE, np.uint8)
    begin = -memory.ctypes.data % VECTOR_BYTE
    placed = memory[begin : begin + values.nbytes].view(values.dtype)
    placed[:] = values
    return placed


@numba.njit(nogil=True)
def scaled(result, values, factor, term):
    vector = processor_kernels.multiply_add(
        processor_kernels.load(values, 0), processor_kernels.fill(factor), processor_kernels.fill(term)
    )
    processor_kernels.store(result, 0, vector)
    return processor_kernels.total(vector)


@numba.njit(nogil=True)
def streamed(result, values):
    vector = processor_kernels.add(processor_kernels.load(values, 0), processor_kernels.load(values, 0))
    processor_kernels.store_past_caches(result, 0, vector)
    return processor_kernels.total(vector)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_vector_is_loaded_multiplied_added_to_stored_and_summed(kind):
    lanes = VECTOR_BYTE // np.dtype(kind).itemsize
    values, result = aligned(np.arange(lanes, dtype=kind)), aligned(np.zeros(lanes, kind))
    # 2 * (0 + 1 + ... + (n - 1)) + n * 3 = n * (n - 1) + 3 * n = n * (n + 2), exact in small whole numbers
    assert scaled(result, values, kind(2), kind(3)) == lanes * (lanes + 2)
    assert result.tolist() == [2 * at + 3 for at in range(lanes)]


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_a_vector_is_added_and_stored_past_the_caches(kind):
    lanes = VECTOR_BYTE // 8
    values, result = aligned(np.arange(lanes, dtype=kind)), aligned(np.zeros(lanes, kind))
    assert streamed(result, values) == lanes * (lanes - 1)
    assert result.tolist() == [2 * at for at in range(lanes)]


@pytest.mark.skipif(
    platform.machine() in ("x86_64", "AMD64") and not has("fma"), reason="this processor has no fused multiply-add"
)
def test_a_multiply_add_is_one_instruction():
    scaled(*(aligned(np.zeros(VECTOR_BYTE // 4, np.float32)) for _ in range(2)), np.float32(1), np.float32(1))
    text = assembly(scaled)
    assert FUSED[platform.machine()] in text
    assert "vmulps" not in text


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="the instruction of this test is x86's")
def test_a_store_past_the_caches_is_another_instruction():
    values = aligned(np.zeros(VECTOR_BYTE // 8))
    streamed(aligned(np.zeros(VECTOR_BYTE // 8)), values)
    assert "movnt" in assembly(streamed)
    assert "movnt" not in assembly(scaled)


@pytest.mark.skipif(not has("avx512f"), reason="this processor has no vectors of 64 bytes")
def test_vectors_are_as_wide_as_the_registers():
    """Compilers keep to half the width on many processors that have the whole."""
    streamed(*(aligned(np.zeros(VECTOR_BYTE // 8)) for _ in range(2)))
    assert VECTOR_BYTE == 64
    assert "zmm" in assembly(streamed)
