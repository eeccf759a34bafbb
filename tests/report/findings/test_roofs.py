from dataclasses import replace

import pandas as pd
from helpers.papers import tiny, with_eight_bits
from helpers.sentences import check_whole_sentences, plain

from measure.domain.roofs import CacheLevel
from report import findings
from report.findings import roofs

CPU, GPU = tiny().machine("cpu"), tiny().machine("gpu")


def test_which_kernel_a_peak_is():
    text = plain(roofs.peaks(CPU))
    # 80 of 100 GFLOP/s
    assert text == (
        "The fastest arithmetic of the Example CPU (4 cores) is at fp32 the multiply-add with 100 GFLOP/s (the fastest "
        "matrix product reaches 80 % of the multiply-add's rate) and at fp64 the multiply-add with 20.0 GFLOP/s."
    )


def test_other_precisions_have_the_best_product_as_their_roof_and_it_is_said():
    text = plain(roofs.peaks(GPU))
    assert text.endswith(
        "is the fastest matrix product at fp32 (8.00 TFLOP/s), where no multiply-add in registers was measured."
    )


def test_products_of_8_bits_stand_beside_the_datasheet_and_no_model_is_held_against_them():
    cpu, gpu = (plain(roofs.eight_bits(with_eight_bits(), machine)) for machine in with_eight_bits().machines)
    assert cpu == (
        "Matrix products at precisions that no model is run in reach 200 GOP/s at int8; no model is held against them."
    )
    # 100 of 200 TFLOP/s, and 100 of 400 TOP/s
    assert gpu == (
        "Matrix products at precisions that no model is run in reach 100 TFLOP/s at fp8 (50 % of the datasheet's peak) "
        "and 100 TOP/s at int8 (25 % of the datasheet's peak); no model is held against them."
    )
    assert roofs.eight_bits(tiny(), CPU) == ""
    text = findings.roofs.measured(with_eight_bits())
    check_whole_sentences(text)
    assert cpu in plain(text)


def test_no_other_finding_knows_of_products_of_8_bits():
    for finding in (findings.machines.measured, findings.utilisation.attained):
        assert finding(with_eight_bits()) == finding(tiny())


def test_levels_against_what_the_system_reports():
    text = plain(roofs.levels(CPU))
    assert text == (
        "Reading working sets of growing size shows 3 levels of memory, whose fastest streams reach 500 GB/s (L1, "
        "triad) to 10.0 GB/s (memory, triad). Of the caches that the system reports the sweep shows no end of L3."
    )
    agreeing = replace(CPU, caches=CPU.caches[:2])
    assert roofs.levels(agreeing).endswith(
        "The size of each cache that the system reports, all cores' together, lies between the largest set that a "
        "level serves and the smallest that the next one does, a step more or less."
    )
    assert roofs.levels(replace(CPU, caches=())).endswith("The system reports no caches to compare them with.")


def test_a_cache_that_no_level_ends_at():
    strange = replace(CPU, caches=(*CPU.caches[:2], CacheLevel(3, 2**24, 1), CacheLevel(4, 2**30, 1)))
    assert roofs.levels(strange).endswith("that the system reports the sweep shows no end of L3 and L4.")


def test_bursts():
    # Multiply-adds in 16 instead of 20 ms; reading 24 MB as fast as over seconds
    assert plain(roofs.paces(replace(tiny(), machines=(CPU,)))) == (
        "On the Example CPU (4 cores) take a peak from seconds of work: in bursts the multiply-add at fp32 is 25 % "
        "faster, the others less."
    )
    only_reading = replace(CPU, roof_measurements=CPU.roof_measurements[CPU.roof_measurements.roof_kernel != "fma"])
    assert plain(roofs.paces(replace(tiny(), machines=(only_reading,)))) == (
        "On the Example CPU (4 cores) a short test tells a peak as well as a long one: no kernel is faster in bursts "
        "than over seconds by 2.0 % or more."
    )
    assert "On the Example GPU no bursts were measured" in roofs.paces(tiny())


def test_measured():
    text = findings.roofs.measured(tiny())
    assert "levels of memory of the Example GPU have not been measured; `python -m measure --device cuda" in text
    bare = replace(GPU, roofs=pd.DataFrame(columns=GPU.roofs.columns))
    text = findings.roofs.measured(replace(tiny(), machines=(CPU, bare)))
    assert "The fp32 roof of the Example GPU has not been measured" in text
