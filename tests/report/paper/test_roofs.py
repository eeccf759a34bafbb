from dataclasses import replace

import pytest
from helpers.rows import ENVIRONMENT, roof_measurement
from helpers.world import REFERENCES, WORLD, world

from measure.cache.folders import MachineFolder
from measure.cache.records import RoofMeasurement
from measure.domain.roofs import CacheLevel, machine_roof, merge_rounds
from report.paper import frame, load
from report.paper.roofs import measured_clock, measured_roofs, memory_levels, with_rates

CPU, GPU = world().machine("cpu"), world().machine("gpu")


def roof_measurements(*changed):
    """The example processor's rows of roof kernels, some of them changed."""
    rows = MachineFolder(WORLD, "example-cpu").rows(RoofMeasurement)
    for chosen, values in changed:
        rows = [replace(row, **values) if chosen(row) else row for row in rows]
    return rows


def rates(rows):
    return with_rates(frame(merge_rounds(rows), RoofMeasurement))


def without(kernel):
    return lambda row: row.roof_kernel == kernel, {"status": "error"}


def test_a_peak_is_the_fastest_arithmetic_and_a_bandwidth_the_fastest_stream_from_memory():
    # Multiply-adds: 2 GFLOP in 20 ms [16, 25]; the best product: 2 GFLOP in 25 ms. Triads of 12 and 24 MB are in
    # memory, one at 10 GB/s [8, 12], the other at 8, as reading. L1's 500 do not count.
    fp32, fp64 = CPU.roofs.itertuples()
    assert (fp32.precision, fp32.peak_kernel) == ("fp32", "fma")
    assert (fp32.peak_flop_per_s, fp32.peak_low_flop_per_s, fp32.peak_high_flop_per_s) == pytest.approx(
        (100e9, 80e9, 125e9)
    )
    for row in (fp32, fp64):
        assert row.bandwidth_kernel == "stream_triad"
        assert (row.bandwidth_byte_per_s, row.bandwidth_low_byte_per_s, row.bandwidth_high_byte_per_s) == pytest.approx(
            (10e9, 8e9, 12e9)
        )
    assert (fp64.precision, fp64.peak_flop_per_s) == ("fp64", pytest.approx(20e9))
    assert CPU.roof("fp32").ridge_flop_per_byte == pytest.approx(10)
    assert CPU.roof("bf16") is None


def test_without_multiply_adds_the_best_product_that_lasts_is_the_roof():
    rows = measured_roofs(machine_roof(roof_measurements(without("fma"))))
    assert rows.peak_kernel.tolist() == ["matmul"]
    assert rows.peak_flop_per_s.tolist() == pytest.approx([80e9])


def test_a_product_faster_than_multiply_adds_is_the_roof():
    """As where a processor has units for matrices."""
    changed = (lambda row: row.roof_kernel == "matmul" and row.size == 500, {"latency_s": 0.001})
    rows = measured_roofs(machine_roof(roof_measurements(changed)))
    assert rows.iloc[0].peak_kernel == "matmul"
    assert rows.iloc[0].peak_flop_per_s == pytest.approx(250e9)  # 250 MFLOP in a millisecond


def test_bursts_are_no_roof():
    short = roof_measurements((lambda row: row.roof_kernel == "fma" and row.pace == "burst", {"latency_s": 1e-3}))
    assert measured_roofs(machine_roof(short)).iloc[0].peak_flop_per_s == pytest.approx(100e9)


def test_one_round_of_a_stream_is_enough_for_a_roof():
    # A product of 128 GFLOP in 16 ms; three vectors of 10^8 elements of 4 bytes in 2.4 ms
    row, _ = GPU.roofs.itertuples()  # at fp32 and bf16
    assert (row.peak_kernel, row.peak_flop_per_s) == ("matmul", pytest.approx(8e12))
    assert (row.bandwidth_kernel, row.bandwidth_byte_per_s) == ("stream_triad", pytest.approx(500e9))
    assert GPU.levels == ()


def test_without_reading_no_level_is_known():
    assert memory_levels(rates(roof_measurements(without("stream_read"))), CPU.caches) == []


def test_without_streams_there_is_no_roof():
    rows = roof_measurements((lambda row: row.roof_kernel.startswith("stream"), {"status": "error"}))
    assert measured_roofs(machine_roof(rows)).empty


def test_the_levels_of_memory():
    first, second, memory = CPU.levels
    # Up to 60 kB, of 65.5 reported; up to 1.92 MB, of 2.10; from 12 MB on. The L3 of 16.8 MB makes no difference.
    assert [(level.name, level.level.last_byte) for level in (first, second)] == [("L1", 60_000), ("L2", 1_920_000)]
    assert (memory.name, memory.level.first_byte) == ("memory", 12_000_000)
    rates = [{name: row.byte_per_s / 1e9 for name, row in level.kernels.items()} for level in CPU.levels]
    assert rates == [
        pytest.approx({"read": 400, "write": 200, "copy": 400, "triad": 500}),
        pytest.approx({"read": 200, "write": 100, "copy": 100, "triad": 150}),
        pytest.approx({"read": 8, "write": 5, "copy": 8, "triad": 10}),
    ]
    assert [level.fastest for level in CPU.levels] == ["triad", "read", "triad"]
    assert memory.bandwidth_byte_per_s == pytest.approx(10e9)


def test_levels_that_agree_with_no_reported_cache_have_numbers():
    assert [level.name for level in memory_levels(CPU.roof_measurements, ())] == ["cache 1", "cache 2", "memory"]
    # 40 kB are more than a step, a factor of 1.41, below the 60 kB that the first level serves
    caches = (CacheLevel(1, 40_000, 2), CacheLevel(2, 1_500_000, 1))
    assert [level.name for level in memory_levels(CPU.roof_measurements, caches)] == ["cache 1", "L2", "memory"]


def test_products_of_8_bits_are_peaks_and_no_roofs():
    # Faster than all else, and yet in no roof: no model is run in them, and operations on integers are no FLOP
    assert CPU.measured_roof.flop_per_s == pytest.approx({"fp32": 100e9, "fp64": 20e9, "int8": 200e9})
    eight_bits = {"fp8": 100e12, "int8": 100e12}
    assert GPU.measured_roof.flop_per_s == pytest.approx({"fp32": 8e12, "bf16": 32e12} | eight_bits)
    assert set(CPU.roofs.precision) | set(GPU.roofs.precision) == {"fp32", "fp64", "bf16"}


def test_the_clock():
    # 10^9 additions of integers in 0.5 s at a cycle each
    assert CPU.clock_hz == pytest.approx(2e9)
    assert GPU.clock_hz is None
    no_chain = (lambda row: row.roof_kernel == "chain" and row.precision == "int64", {"status": "unsupported"})
    assert measured_clock(rates(roof_measurements(no_chain))) is None


def machine_with(data, product_load, stream_load):
    folder = MachineFolder(data, "box")
    folder.put_environment(ENVIRONMENT)
    product = replace(roof_measurement(), load=product_load)
    stream = replace(product, roof_kernel="stream_copy", precision="fp64", round=0, load=stream_load)
    folder.put_roof_measurements([product, stream])
    (machine,) = load(data, REFERENCES).machines
    return machine


def test_a_roof_knows_the_largest_load_next_to_it(tmp_path):
    assert machine_with(tmp_path / "loaded", 0.04, 0.62).measured_roof.load == 0.62
    assert machine_with(tmp_path / "quiet", 0.04, None).measured_roof.load == 0.0


def test_a_disturbed_row_is_no_roof_where_its_kernel_was_left_alone(tmp_path):
    folder = MachineFolder(tmp_path, "box")
    folder.put_environment(ENVIRONMENT)
    product = replace(roof_measurement(), pace="sustained", load=0.0)
    stream = replace(product, roof_kernel="stream_copy", precision="fp64", round=0)
    slow = replace(stream, round=1, latency_s=5.0, load=0.9)
    folder.put_roof_measurements([product, stream, slow])
    (machine,) = load(tmp_path, REFERENCES).machines
    # 768 B in 0.5 s (0.4 to 0.6), not the median with those in 5 s; one round has the interval of its samples
    roof = machine.roofs.iloc[0]
    ends = (roof.bandwidth_low_byte_per_s, roof.bandwidth_byte_per_s, roof.bandwidth_high_byte_per_s)
    assert ends == pytest.approx((1280, 1536, 1920))
    assert machine.measured_roof.load == 0.0
