from dataclasses import replace

import pytest
from helpers.rows import ENVIRONMENT, roof_measurement
from helpers.world import REFERENCES, WORLD, world

from measure.cache.folders import MachineFolder
from measure.domain.records import RoofMeasurement
from measure.domain.roofs import CacheLevel, machine_roof, merge_rounds
from measure.roofs.roofs import second_kernels
from report.paper import frame, load
from report.paper.roofs import find_levels, measured_clock, measured_roofs, memory_levels, swept_cache, with_rates

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


def test_a_peak_is_the_fastest_arithmetic_a_bandwidth_a_stream():
    # Multiply-adds: 2 GFLOP in 20 ms [16, 25]; the best product: 2 GFLOP in 25 ms. Triads of 12 and 24 MB are in
    # memory, one at 10 GB/s [8, 12], the other at 8, as reading. L1's 500 do not count.
    fp32, fp64 = CPU.roofs.itertuples()
    peak = (fp32.peak_low_flop_per_s, fp32.peak_flop_per_s, fp32.peak_high_flop_per_s)
    assert (fp32.precision, fp32.peak_kernel, *peak) == ("fp32", "fma", *map(pytest.approx, (80e9, 100e9, 125e9)))
    assert (fp64.precision, fp64.peak_flop_per_s) == ("fp64", pytest.approx(20e9))
    for row in (fp32, fp64):
        ends = (row.bandwidth_low_byte_per_s, row.bandwidth_byte_per_s, row.bandwidth_high_byte_per_s)
        assert (row.bandwidth_kernel, *ends) == ("stream_triad", *map(pytest.approx, (8e9, 10e9, 12e9)))
    assert CPU.roof("fp32").ridge_flop_per_byte == pytest.approx(10)
    assert CPU.roof("bf16") is None
    # On the GPU a product of 128 GFLOP in 16 ms; three vectors of 10^8 elements of 4 bytes in 2.4 ms, in one round
    row, _ = GPU.roofs.itertuples()  # at fp32 and bf16
    assert (row.peak_kernel, row.peak_flop_per_s) == ("matmul", pytest.approx(8e12))
    assert (row.bandwidth_kernel, row.bandwidth_byte_per_s) == ("stream_triad", pytest.approx(500e9))
    assert GPU.levels == ()


def test_without_streams_there_is_no_roof_and_no_level():
    assert memory_levels(rates(roof_measurements(without("stream_read"))), CPU.caches) == []
    no_streams = (lambda row: row.roof_kernel.startswith("stream"), {"status": "error"})
    assert measured_roofs(machine_roof(roof_measurements(no_streams))).empty


SIZES = [round(2 ** (step / 2)) for step in range(40)]
"""Two for each factor of two, from 1 on."""
LAST = SIZES[-1]


@pytest.mark.parametrize(
    ("steps", "noise", "levels"),
    [
        # Each step is the first size that it serves, and its rate. 2^(13/2) = 90.5, 2^7 = 128 is the first of the
        # second; 2^(19/2) = 724, 2^10 = 1024
        ([(1, 400), (100, 200), (1000, 30)], {}, [(1, 91), (128, 724), (1024, LAST)]),
        ([(1, 50)], {}, [(1, LAST)]),
        # A slope between two levels, each size more than 10 % from the next, belongs to neither
        ([(1, 200), (400, 40)], {128: 150, 181: 110, 256: 80, 362: 55}, [(1, 91), (512, LAST)]),
        # A disturbance does not split a level
        ([(1, 200), (1000, 40)], {45: 120}, [(1, 724), (1024, LAST)]),
        # Rising to the first level, as where starting a kernel takes longer than its work
        ([(1, 200), (1000, 40)], {1: 20, 2: 40, 3: 60, 4: 62, 6: 61}, [(8, 724), (1024, LAST)]),
        # Rates that wander by less than a tenth are one level, those a fifth apart two
        ([(1, 100)], {size: 100 * (1.04 if at % 2 else 0.96) for at, size in enumerate(SIZES)}, [(1, LAST)]),
        ([(1, 115), (100, 95)], {}, [(1, 91), (128, LAST)]),
        # The largest working set is in memory whatever its rate: nothing that a cache serves is taken for that
        ([(1, 100)], {LAST: 20}, [(1, SIZES[-2]), (LAST, LAST)]),
    ],
)
def test_a_staircase_of_rates_has_a_level_for_each_step(steps, noise, levels):
    found = {size: next(rate for first, rate in reversed(steps) if size >= first) for size in SIZES} | noise
    assert find_levels(found) == levels


def test_few_working_sets():
    assert find_levels({}) == []
    assert find_levels({8: 10.0, 16: 1.0}) == [(16, 16)]


def test_the_levels_of_memory():
    first, second, memory = CPU.levels
    # Up to 60 kB, of 65.5 reported; up to 1.92 MB, of 2.10; from 12 MB on. The L3 of 16.8 MB makes no difference.
    assert [(level.name, level.last_byte) for level in (first, second)] == [("L1", 60_000), ("L2", 1_920_000)]
    assert (memory.name, memory.first_byte) == ("memory", 12_000_000)
    rates = [{name: row.byte_per_s / 1e9 for name, row in level.kernels.items()} for level in CPU.levels]
    assert rates == [
        pytest.approx({"read": 400, "write": 200, "copy": 400, "triad": 500}),
        pytest.approx({"read": 200, "write": 100, "copy": 100, "triad": 150}),
        pytest.approx({"read": 8, "write": 5, "copy": 8, "triad": 10}),
    ]
    assert [level.fastest for level in CPU.levels] == ["triad", "read", "triad"]
    # Levels that agree with no reported cache have numbers. 40 kB are more than a step, a factor of 1.41, below 60 kB
    caches = (CacheLevel(1, 40_000, 2), CacheLevel(2, 1_500_000, 1))
    assert [level.name for level in memory_levels(CPU.roof_measurements, ())] == ["cache 1", "cache 2", "memory"]
    assert [level.name for level in memory_levels(CPU.roof_measurements, caches)] == ["cache 1", "L2", "memory"]


def test_a_gpus_first_roof_shows_its_l2():
    """A read of 16, 22.6 and 32 MiB at 5.5 TB/s lies in an H100's 50 MiB, which end before memory; 1.4 to 2.8 do not
    keep it busy. Rates as an H100's.
    """
    read = replace(roof_measurement(), roof_kernel="stream_read", flop=0, byte=10**9)
    sizes = [size for kernel, _, size, *_ in second_kernels("cuda") if kernel == "stream_read"]
    rates_ = {size: 5.5e12 if size > 2**23 else 1e6 * size for size in sizes} | {2**30: 3e12}
    found = rates([replace(read, size=size, latency_s=1e9 / rate) for size, rate in rates_.items()])
    l2, memory = memory_levels(found, [CacheLevel(2, 50 * 2**20, 1)])
    assert (l2.name, l2.bandwidth_byte_per_s) == ("L2", pytest.approx(5.5e12))
    assert (memory.name, memory.bandwidth_byte_per_s) == ("memory", pytest.approx(3e12))
    # As large as the driver says, else as the largest set that it served
    for reported, size in (([CacheLevel(2, 50 * 2**20, 1)], 50 * 2**20), ([], max(sizes))):
        assert swept_cache(reported, [l2, memory]) == (size, pytest.approx(5.5e12))
    assert swept_cache([CacheLevel(2, 50 * 2**20, 1)], [memory]) is None


def test_a_roof_says_why_the_clock_was_lowered():
    product = replace(roof_measurement(), throttle="power cap")
    stream = replace(product, roof_kernel="stream_read", throttle=None, round=0)
    (row,) = measured_roofs(machine_roof([product, stream])).itertuples()
    assert (row.peak_note, row.bandwidth_note) == (" (power cap)", "")


def test_products_of_8_bits_are_peaks_and_no_roofs():
    # Faster than all else, and yet in no roof: no model is run in them, and operations on integers are no FLOP
    assert {"int8", "fp8"} <= {*CPU.roof_measurements.precision, *GPU.roof_measurements.precision}
    assert set(CPU.roofs.precision) | set(GPU.roofs.precision) == {"fp32", "fp64", "bf16"}


def test_the_clock():
    # 10^9 additions of integers in 0.5 s at one cycle per addition
    assert (CPU.clock_hz, GPU.clock_hz) == (pytest.approx(2e9), None)
    no_chain = (lambda row: row.roof_kernel == "chain" and row.precision == "int64", {"status": "unsupported"})
    assert measured_clock(rates(roof_measurements(no_chain))) is None


def test_a_disturbed_roof_round_yields_to_an_undisturbed_one(tmp_path):
    folder = MachineFolder(tmp_path, "box")
    folder.put_environment(ENVIRONMENT)
    product = replace(roof_measurement(), pace="sustained", load=0.04)
    stream = replace(product, roof_kernel="stream_copy", precision="fp64", round=0, load=0.0)
    folder.put_roof_measurements([product, stream, replace(stream, round=1, latency_s=5.0, load=0.9)])
    (machine,) = load(tmp_path, REFERENCES).machines
    # 768 B in 0.5 s (0.4 to 0.6), not the median with those in 5 s; one round has the interval of its samples
    roof = machine.roofs.iloc[0]
    ends = (roof.bandwidth_low_byte_per_s, roof.bandwidth_byte_per_s, roof.bandwidth_high_byte_per_s)
    assert ends == pytest.approx((1280, 1536, 1920))
