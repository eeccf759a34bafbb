"""The processor behind a name, against figures that others print or measure."""

from dataclasses import replace

import pytest
from helpers.places import ROOT
from helpers.rows import ENVIRONMENT
from helpers.world import REFERENCES

from report.paper import curated
from report.paper.processor import microarchitecture, numbers, peaks

ROWS = curated.flop_per_cycle(ROOT / "data" / "flop_per_cycle.csv", curated.read_keys(REFERENCES))
AVX2, AVX512 = "avx2 avx sse2", "avx512f avx2 avx sse2"
VNNI = f"avx512_vnni {AVX512}"
AMX = f"amx_int8 amx_bf16 avx512_fp16 avx512_bf16 {VNNI}"
NEON = "asimddp asimdhp asimd"


def of(vendor, family, model, extensions, stepping=None, cores=1):
    return replace(
        ENVIRONMENT, cpu_vendor=vendor, cpu_family=family, cpu_model=model, cpu_stepping=stepping,
        vector_extension=extensions, physical_cores=cores,
    )  # fmt: skip


def intel(model, extensions, stepping=None, cores=1):
    return of("GenuineIntel", 6, model, extensions, stepping, cores)


def amd(family, model, extensions, cores=1):
    return of("AuthenticAMD", family, model, extensions, 1, cores)


def arm(part, extensions=NEON, cores=1, implementer="0x41"):
    return of(implementer, 8, part, extensions, cores=cores)


@pytest.mark.parametrize(
    ("name", "environment", "ghz", "precision", "giga_flop_per_s"),
    [
        # Vendors and tables of chips: all cores at the base clock
        ("Nehalem", intel(26, "sse2", cores=4), 2.66, "fp64", 42.56),  # Core i7-920: Intel prints 42.56
        ("Westmere", intel(44, "sse2", cores=6), 2.93, "fp64", 70.3),  # Xeon X5670: Intel prints 70.32
        ("Sandy Bridge", intel(45, "avx sse2", cores=8), 2.9, "fp64", 185.6),  # Xeon E5-2690: Intel prints 185.6
        ("Ivy Bridge", intel(62, "avx sse2", cores=12), 2.7, "fp32", 518),  # Xeon E5-2697 v2: Rupp
        ("Haswell", intel(63, AVX2, cores=12), 2.5, "fp64", 480),  # Xeon E5-2680 v3: Intel prints 480
        ("Broadwell", intel(79, AVX2, cores=22), 2.2, "fp32", 1548),  # Xeon E5-2699 v4: Rupp
        ("Kaby Lake and Coffee Lake", intel(158, AVX2, 9, 4), 4.2, "fp32", 537.6),  # Core i7-7700K
        ("Skylake (server)", intel(85, AVX512, 4, 36), 2.7, "fp32", 6221),  # two Xeon Gold 6154, by laser
        ("Cascade Lake", intel(85, VNNI, 7, 28), 2.7, "fp64", 2419),  # Xeon Platinum 8280
        ("Ice Lake (server)", intel(106, VNNI, 6, 40), 2.3, "fp32", 5888),  # Xeon Platinum 8380
        ("Knights Landing", intel(87, AVX512, 1, 68), 1.4, "fp64", 3046),  # Xeon Phi 7250: Intel prints 3.05 TFLOP/s
        ("Zen 1", amd(23, 1, AVX2, 32), 2.2, "fp32", 1126),  # EPYC 7601
        ("Zen 2", amd(23, 49, AVX2, 64), 2.25, "fp64", 2304),  # EPYC 7742: AMD prints 2.3 TFLOP/s
        ("Zen 3", amd(25, 1, AVX2, 64), 2.45, "fp64", 2509),  # EPYC 7763: AMD prints 2.51 TFLOP/s
        ("Zen 4", amd(25, 17, AVX512, 96), 2.4, "fp32", 7373),  # EPYC 9654
        ("Neoverse V2", arm(0xD4F, cores=144), 3.1, "fp64", 7100),  # Grace Superchip: NVIDIA prints 7.1 TFLOP/s
        ("A64FX", arm(1, "sve asimd", 48, "0x46"), 2.2, "fp64", 3379),  # Fujitsu prints 3.3792 TFLOP/s
        # cpufp: one core at its highest clock
        ("Cannon Lake", intel(102, AVX512, 3), 3.2, "fp32", 101.56),  # Core i3-8121U
        ("Arrow Lake", intel(197, f"avx_vnni {AVX2}", 2), 5.1, "fp32", 161.55),  # Core Ultra 7 255H
        ("Sapphire Rapids", intel(143, AMX, 8), 3.7, "int8", 7574.6),  # Xeon Gold 6455B
        ("Gracemont", intel(190, f"avx_vnni {AVX2}", 0), 3.6, "int8", 114.75),  # N150
        ("Zen 3+", amd(25, 68, AVX2), 4.75, "fp32", 151.84),  # Ryzen 9 6900HX
        ("Zen 4", amd(25, 117, f"avx512_bf16 {VNNI}"), 5.1, "bf16", 324.92),  # Ryzen 7 8845HS
        ("Zen 5", amd(26, 68, f"avx512_bf16 {VNNI}"), 5.5, "fp32", 354.29),  # Ryzen 7 9700X
        ("Cortex-A53", arm(0xD03, "asimd"), 1.4, "fp32", 11.255),  # RK3399
        ("Cortex-A55", arm(0xD05), 1.8, "int8", 58.38),  # RK3588
        ("Cortex-A72", arm(0xD08, "asimd"), 1.5, "fp64", 5.98),  # BCM2711
        ("Cortex-A76", arm(0xD0B), 2.4, "fp16", 76.74),  # BCM2712
        ("Cortex-A720", arm(0xD81, f"i8mm bf16 {NEON}"), 2.5, "bf16", 159.9),  # CIX P1
        ("TaiShan V110", arm(0xD01, implementer="0x48"), 2.6, "fp64", 10.395),  # Kunpeng 920
        ("Oryon", arm(1, f"bf16 {NEON}", implementer="0x51"), 4.0, "bf16", 256.4),  # Snapdragon X Elite
    ],
)
def test_peaks_are_those_that_others_print_or_measure(name, environment, ghz, precision, giga_flop_per_s):
    assert microarchitecture(ROWS, environment) == name
    peak = peaks(ROWS, environment, ghz * 1e9)[precision]
    assert peak.flop_per_s == pytest.approx(giga_flop_per_s * 1e9, rel=0.03)


@pytest.mark.parametrize(
    ("name", "environment", "rates"),
    [
        # One 512-bit unit is as fast as two of 256 bits: 16 lanes * 2
        ("Rocket Lake", intel(167, VNNI, 1), {"fp32": 32, "fp64": 16, "int8": 128}),
        ("Tiger Lake", intel(140, VNNI, 1), {"fp32": 32, "fp64": 16, "int8": 128}),
        ("Ice Lake (client)", intel(126, AVX512, 5), {"fp32": 32, "fp64": 16}),
        ("Ice Lake (Xeon D)", intel(108, AVX512, 1), {"fp32": 32, "fp64": 16}),
        ("Alder Lake", intel(151, AVX2, 2), {}),  # two kinds of core
        # A tile of 16 rows by 16 columns by 32 numbers in 16 cycles: 16 * 16 * 32 * 2 / 16
        ("Emerald Rapids", intel(207, AMX, 2),
         {"fp32": 64, "fp64": 32, "fp16": 128, "bf16": 1024, "int8": 2048}),
        # The hypervisor hides AVX-512: two 256-bit units are left
        ("Emerald Rapids", intel(207, AVX2, 2), {"fp32": 32, "fp64": 16}),
        ("Granite Rapids", intel(173, AMX, 1), {"fp32": 64, "fp64": 32}),  # no source for the rates of its AMX
        ("Zen+", amd(23, 8, AVX2), {"fp32": 16, "fp64": 8}),
        ("Zen 4c", amd(25, 160, AVX512), {"fp32": 32, "fp64": 16}),
        ("Zen 5c", amd(26, 17, AVX512), {"fp32": 64, "fp64": 32}),
        ("Zen 5 (mobile)", amd(26, 36, AVX512), {}),  # some have half the width; no source for each model
        ("Neoverse N1", arm(0xD0C), {"fp32": 16, "fp64": 8}),
        ("Neoverse V1", arm(0xD40, f"sve {NEON}"), {"fp32": 32, "fp64": 16}),
        ("Neoverse N2", arm(0xD49, f"sve2 sve {NEON}"), {"fp32": 16, "fp64": 8}),
        ("Cortex-X1", arm(0xD44), {"fp32": 32, "fp64": 16}),
        ("Cortex-A78", arm(0xD41), {"fp32": 16, "fp64": 8}),
        ("Apple M1", of("Apple", 1, None, "asimd"), {}),
        ("Apple M3", of("Apple", 3, None, "asimd"), {}),
    ],
)  # fmt: skip
def test_rates_by_microarchitecture_and_extensions(name, environment, rates):
    assert microarchitecture(ROWS, environment) == name
    assert {key: peak.flop_per_cycle for key, peak in peaks(ROWS, environment, None).items()} == rates


def test_two_kinds_of_core_have_two_rates_and_no_common_peak():
    """One measured 146.76 GFLOP/s and 586.84 GOP/s on a fast core of a Core i5-1340P at 4.6 GHz, 54.25 and 108.5 on a
    slow one at 3.4 GHz (cpufp).
    """
    environment = intel(186, f"avx_vnni {AVX2}", 2, cores=12)
    rates = {row.precision: (row.flop_per_cycle, row.slow_core_flop_per_cycle) for row in ROWS if row.fits(environment)}
    assert rates == {"fp32": (32, 16), "fp64": (16, 8), "int8": (128, 32)}
    assert peaks(ROWS, environment, 4e9) == {}


def test_the_table_has_many_families():
    with_a_rate = {row.microarchitecture for row in ROWS if row.flop_per_cycle}
    assert len(with_a_rate) >= 50
    assert len({row.microarchitecture for row in ROWS}) > len(with_a_rate)  # a name without a rate is no guess


@pytest.mark.parametrize(
    ("stepping", "name"),
    [
        (4, "Skylake (server)"),
        (5, "Cascade Lake"),
        (7, "Cascade Lake"),
        (11, "Cooper Lake"),
        (8, ""),
        (None, "Skylake (server) or Cascade Lake or Cooper Lake"),
    ],
)
def test_the_stepping_tells_cascade_lake(stepping, name):
    environment = intel(85, VNNI, stepping, cores=2)
    assert microarchitecture(ROWS, environment) == name
    found = peaks(ROWS, environment, 2e9)
    # All three have two 512-bit units: 2 cores * 2 GHz * 64
    assert [peak.flop_per_s for key, peak in found.items() if key == "fp32"] == [256e9] * bool(name)


def test_a_rate_in_which_candidates_differ_is_left_out():
    first, second = (row for row in ROWS if row.microarchitecture in ("Zen 1", "Zen+") and row.precision == "fp32")
    either = [replace(row, models="1") for row in (first, replace(second, flop_per_cycle=32))]
    environment = amd(23, 1, AVX2)
    assert (microarchitecture(either, environment), peaks(either, environment, 1e9)) == ("Zen 1 or Zen+", {})


def test_an_unknown_family_has_neither_name_nor_peak():
    for environment in (intel(250, AMX, 1), of("CentaurHauls", 7, 59, AVX2), of(None, None, None, None)):
        assert (microarchitecture(ROWS, environment), peaks(ROWS, environment, 2e9)) == ("", {})


def test_the_arithmetic_names_what_is_unknown():
    environment = intel(207, AMX, 2, cores=16)
    without, found = (peaks(ROWS, environment, clock_hz) for clock_hz in (None, 2.1e9))
    assert (without["fp32"].arithmetic, without["fp32"].flop_per_s) == ("16 cores x clock x 64 FLOP/cycle/core", None)
    assert found["int8"].arithmetic == "16 cores x 2.10 GHz x 2048 OP/cycle/core"
    assert peaks(ROWS, replace(environment, physical_cores=None, cores=None), 2e9) == {}


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        (intel(207, AMX, 2), "GenuineIntel, family 6, model 207, stepping 2"),
        (intel(207, AMX), "GenuineIntel, family 6, model 207"),
        (arm(0xD40), "implementer 0x41, part 0xd40"),
        (arm(None), "implementer 0x41"),
        (of("Apple", 2, None, "asimd"), "Apple M2"),
        (of(None, None, None, None), ""),
    ],
)
def test_numbers_are_written_as_tables_write_them(environment, text):
    assert numbers(environment) == text
