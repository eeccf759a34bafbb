from dataclasses import replace
from math import nan

import pandas as pd
import pytest
from helpers.rows import roof_measurement

from measure.domain.roofs import Roofline, machine_roof, merge_rounds, throttle_note

PRODUCT = roof_measurement(latency_s=0.5)  # 1024 FLOP in half a second
STREAM = replace(PRODUCT, roof_kernel="stream_copy", precision="fp64", flop=0, byte=600, pace="sustained", round=0)


def test_the_fastest_sustained_arithmetic_is_the_peak():
    slower, burst = replace(PRODUCT, size=16, latency_s=1.0), replace(PRODUCT, size=32, latency_s=0.1, pace="burst")
    faster = replace(PRODUCT, roof_kernel="fma", latency_s=0.25)
    half = replace(PRODUCT, precision="bf16", latency_s=0.125)
    failed = replace(PRODUCT, precision="fp16", status="oom", reason="too large", latency_s=None)
    roof = machine_roof([slower, PRODUCT, burst, half, failed])
    assert roof.flop_per_s == {"fp32": 2048, "bf16": 8192}
    assert roof.arithmetic == {"fp32": PRODUCT, "bf16": half}
    assert machine_roof([PRODUCT, faster]).flop_per_s == {"fp32": 4096}


def test_rounds_merge_to_their_median_that_picks_the_bandwidth():
    rounds = [replace(STREAM, round=number, latency_s=seconds) for number, seconds in enumerate((1.0, 2.0, 3.0))]
    triad = replace(STREAM, roof_kernel="stream_triad", latency_s=1.5)
    within_a_cache = replace(STREAM, round=None, latency_s=0.001)
    rates = machine_roof([*rounds, triad, within_a_cache])
    assert (rates.byte_per_s, rates.stream) == (400, replace(triad, round=1))  # 600 B in 1.5 s; copies take 2 s
    assert machine_roof([within_a_cache]).byte_per_s is None
    failed = replace(STREAM, round=3, status="error", latency_s=None)
    merged, product = merge_rounds([*rounds, PRODUCT, failed])
    assert (merged.latency_s, merged.round) == (2.0, 3)
    assert merged.latency_low_s < 1 < 3 < merged.latency_high_s  # Student's t of two degrees of freedom is 4.8
    assert product == PRODUCT
    assert merge_rounds(rounds[:1]) == [replace(rounds[0], round=1)]  # with its own interval


def test_merged_rounds_have_the_median_of_their_conditions_and_every_reason_for_a_lower_clock():
    told = [
        {"clock_hz": 1.0e9, "power_w": 600.0, "throttle": None, "energy_j": 3.0},
        {"clock_hz": 1.2e9, "power_w": 700.0, "throttle": "power cap", "energy_j": None},
        {"clock_hz": 1.4e9, "power_w": 650.0, "throttle": "power cap;hardware thermal", "energy_j": 5.0},
    ]
    (merged,) = merge_rounds([replace(STREAM, round=number, **each) for number, each in enumerate(told)])
    assert (merged.clock_hz, merged.power_w, merged.energy_j) == (1.2e9, 650.0, 4.0)
    assert merged.throttle == "power cap;hardware thermal"
    assert throttle_note(merged) == " (power cap, hardware thermal)"
    (unknown,) = merge_rounds([replace(STREAM, round=number) for number in (0, 1)])
    assert (unknown.clock_hz, unknown.power_w, unknown.throttle, unknown.energy_j) == (None,) * 4
    assert throttle_note(unknown) == ""


def test_a_disturbed_kernel_counts_only_without_a_calm_one():
    # 600 B: in 1 s and in 2 s left alone, in 6 s next to others, which would be 300 B/s in the median of all three.
    streams = [replace(STREAM, round=n, latency_s=s, load=load) for n, s, load in ((0, 1.0, 0.0), (1, 2.0, 0.09))]
    disturbed = replace(STREAM, round=2, latency_s=6.0, load=0.6)
    rates = machine_roof([PRODUCT, *streams, disturbed])
    assert (rates.byte_per_s, rates.load) == (400, 0.0)  # the median of 1 s and 2 s is 1.5 s
    slow, slower = replace(PRODUCT, load=0.5), replace(PRODUCT, size=16, latency_s=1.0, load=0.1)
    alone = machine_roof([slow, slower, *streams])
    assert (alone.flop_per_s, alone.load) == ({"fp32": 2048}, 0.5)
    # A disturbed kernel that is faster all the same is a roof, and the roof says so.
    fma = replace(PRODUCT, roof_kernel="fma", latency_s=0.25, load=0.2)
    fastest = machine_roof([PRODUCT, fma])
    assert (fastest.flop_per_s, fastest.load) == ({"fp32": 4096}, 0.2)


def test_the_roof_rises_to_its_ridge_and_is_flat_from_there():
    roof = machine_roof([PRODUCT, replace(STREAM, latency_s=1.0)])  # 2048 FLOP/s over 600 B/s
    roofline = roof.at("fp32")
    assert roofline.ridge_flop_per_byte == pytest.approx(2048 / 600)
    assert (roofline.attainable(1.0), roofline.attainable(100.0)) == (600, 2048)
    assert roofline.least_s(2048, 1200) == 2.0  # 1 s of arithmetic, 1200 / 600 s of memory
    assert roof.at("bf16") is machine_roof([PRODUCT]).at("fp32") is None
    columns = Roofline(pd.Series([100.0, 100.0, nan]), pd.Series([10.0, 10.0, 10.0]))  # an unknown peak stays unknown
    assert columns.attainable(pd.Series([2.0, 50.0, 2.0])).tolist() == pytest.approx([20.0, 100.0, nan], nan_ok=True)
    assert columns.least_s(pd.Series([100.0, 400.0, 1.0]), 20.0).tolist()[:2] == [2.0, 4.0]
