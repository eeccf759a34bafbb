import platform
import time

import pytest
from helpers.assembly import FUSED, assembly, has

numba = pytest.importorskip("numba", reason="roofs of a processor are measured with Numba")

from measure.roofs import processor_kernels  # noqa: E402
from measure.roofs.processor_kernels import CHAINS, compile_multiply_adds, operands, prepare  # noqa: E402


@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_every_number_takes_one_multiply_add_a_round(precision):
    values = operands(precision)
    values[:] = 1
    count = len(values)
    # 1 -> 2 * 1 + 1 = 3 -> 2 * 3 + 1 = 7 -> 15
    assert [compile_multiply_adds(precision)(rounds, values, 2, 1) for rounds in range(4)] == [
        count, 3 * count, 7 * count, 15 * count,
    ]  # fmt: skip


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_all_threads_together_do_the_multiply_adds_of_a_size(monkeypatch, threads):
    values = operands("fp32")
    values[:] = 0
    monkeypatch.setattr(processor_kernels, "operands", lambda _precision: values)
    done = []

    def count(rounds, own, *_):
        done.append(rounds * len(own))

    monkeypatch.setattr(processor_kernels, "compile_multiply_adds", lambda _precision: count)
    prepare("fma", "fp32", 10 * len(values), "cpu", threads)(3)
    assert sum(done) == 3 * 10 * len(values)


def test_after_two_rounds_every_number_is_itself_again():
    total = float(operands("fp64").sum())
    work = prepare("fma", "fp64", 2 * operands("fp64").size, "cpu", 1)
    assert work(1) == pytest.approx([total])


@pytest.mark.skipif(
    platform.machine() in ("x86_64", "AMD64") and not has("fma"), reason="this processor has no fused multiply-add"
)
@pytest.mark.parametrize("precision", ["fp32", "fp64"])
def test_the_loop_is_multiply_adds_in_registers(precision):
    text = assembly(compile_multiply_adds(precision))
    assert text.count(FUSED[platform.machine()]) >= CHAINS
    assert "vmul" not in text


def shortest_s(rounds):
    """The shortest of some runs, by the processor's time: that of others is not in it."""
    function, values, times = compile_multiply_adds("fp32"), operands("fp32"), []
    for _ in range(9):
        start = time.process_time()
        function(rounds, values, -1, 1)
        times.append(time.process_time() - start)
    return min(times)


def test_more_work_takes_more_time():
    """So no compiler folded it away: 512 times the work, and a bound that a loaded machine reaches, too."""
    assert shortest_s(2**22) > 20 * shortest_s(2**13)
