import pytest

from measure import ceilings, devices
from measure.timing import Sampling

torch = pytest.importorskip("torch", reason="roofs are measured with torch")


def test_the_work_of_a_matrix_product():
    row = ceilings.unmeasured("e1", "matmul", "bf16", 100, "oom", "full")
    assert row.flop == 2_000_000  # 100^3 multiply-adds
    assert row.byte == 60_000  # three matrices of 100 * 100 * 2 bytes
    assert (row.status, row.reason, row.latency_s) == ("oom", "full", None)


def test_the_work_of_a_triad():
    row = ceilings.unmeasured("e1", "triad", "fp32", 1000, "ok", None)
    assert row.flop == 2000  # one product and one sum for each element
    assert row.byte == 12_000  # STREAM: two vectors read, one written, 4 bytes an element


def test_the_work_of_a_chain():
    row = ceilings.unmeasured("e1", "chain", "fp64", 1000, "ok", None)
    assert (row.flop, row.byte) == (1000, 0)  # an addition each, in registers
    row = ceilings.unmeasured("e1", "chain", "int64", 1000, "unsupported", "no Numba")
    assert (row.flop, row.byte) == (0, 0)  # integers are no FLOP


def test_the_kernels_compute_what_they_say():
    product = ceilings.PREPARATIONS["matmul"](4, "cpu", "fp32")()
    assert product.shape == (4, 4)
    assert torch.equal(ceilings.PREPARATIONS["triad"](3, "cpu", "fp32")(), torch.full((3,), 4.0))  # 1 + 3 * 1


def test_a_clock_is_measured_as_a_roof_is(monkeypatch):
    pytest.importorskip("numba", reason="the clock is measured with Numba")
    monkeypatch.setattr(ceilings, "SAMPLING", Sampling(warm_up_s=0.01, least_s=0.0, block_s=0.001, most=8))
    row = ceilings.measure(devices.find("cpu"), "e1", "chain", "int64", 2**16, lambda: None)
    assert (row.kernel, row.size, row.status) == ("chain", 2**16, "ok")
    assert row.latency_low_s <= row.latency_s <= row.latency_high_s


@pytest.mark.parametrize("kernel", ceilings.KERNELS)
def test_a_roof_has_a_time_with_its_interval(monkeypatch, kernel):
    monkeypatch.setattr(ceilings, "SAMPLING", Sampling(warm_up_s=0.01, least_s=0.0, block_s=0.001, most=8))
    beats = []
    row = ceilings.measure(devices.find("cpu"), "e1", kernel, "fp32", 64, lambda: beats.append(1))
    assert row.status == "ok"
    assert row.latency_low_s <= row.latency_s <= row.latency_high_s
    assert 6 <= row.sample_count <= 8
    assert len(beats) > row.sample_count


def test_every_device_has_sizes_for_every_kernel():
    assert set(ceilings.SIZES) == {
        (kernel, kind) for kernel in ceilings.KERNELS for kind in ("cpu", "cuda", "mps")
    }
