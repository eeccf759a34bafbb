from dataclasses import replace

import pypandoc
import pytest
from helpers.papers import TRIED, tiny, with_variants
from helpers.profiled_papers import profiled
from helpers.sentences import cells

from report.tables import utilisation

TABLES = (utilisation.shares, utilisation.terms, utilisation.remedy)


def test_shares():
    # Attainable and peak: lean at batch size 1 25 of 100 GFLOP/s; broad 25.5 of 50, and of 100; deep at 8 125 of 100.
    # On the GPU 100 GFLOP/s of 5 TFLOP/s at 10 FLOP/B, of 8 TFLOP/s at most; deep at 100 FLOP/B 5 of 8 TFLOP/s.
    table = utilisation.shares(tiny())
    assert table.splitlines()[0] == "| Model | CPU, 1 | CPU, 8 | GPU, 1 |"
    assert cells(table) == [
        ["broad", "51 %; 26 %", "85 %", "–"],
        ["deep", "50 %", "130 %", "63 %"],
        ["lean", "25 %", "50 %", "2.0 %; 1.3 %"],
        ["tokens", "80 %", "–", "–"],
    ]


def test_terms():
    assert cells(utilisation.terms(profiled())) == [
        # 50, 1.1, 40.09 + 1.87 + 0.98 + 0.49, 3.66 and 1.8 of 100 ms; 99.2 ms under the profiler, 98.2 without
        ["CPU", "deep", "1", "100 ms", "50 %", "1 %", "43 %", "4 %", "2 %", "10 %", "1 %"],
        # 1.0, 1.0, 0.307 + 0.110 + 0.023, 1.481 and 0.08 of 4 ms; 4.5 over 3.92
        ["CPU", "lean", "1", "4.00 ms", "25 %", "25 %", "11 %", "37 %", "2 %", "10 %", "15 %"],
        # 8.0, 5.3, 0.308 - 2.167 + 0.2, 4.858 and -0.5 of 16 ms; 18 over 16.5
        ["CPU", "lean", "8", "16.0 ms", "50 %", "33 %", "−10 %", "30 %", "−3 %", "10 %", "9 %"],
        # 12.5, 27.5, 60, 900 and 0 us of 1 ms; 2 over 1
        ["GPU", "lean", "1", "1.00 ms", "1 %", "3 %", "6 %", "90 %", "0 %", "–", "100 %"],
    ]


def test_terms_with_what_the_system_takes():
    # 3.92 of 2 threads x 98.2, 3.92 and 16.5 ms; on a GPU the threads of the host are not what a call waits for.
    machines = tuple(replace(each, profiles=each.profiles.assign(system_s=3.92e-3)) for each in profiled().machines)
    shares = [row[-2] for row in cells(utilisation.terms(replace(profiled(), machines=machines)))]
    assert shares == ["2 %", "50 %", "12 %", "–"]


def test_tried():
    rows = [row for row in TRIED if row[2] == "fp32"]
    # 4 over 2 and 100 over 200 ms; of fewer than six models no interval
    assert cells(utilisation.tried(with_variants(rows))) == [
        [r"kept\_memory", "fp32", "1", "2", "1.3", "0.500 (deep)", "2.00 (lean)"],
        [r"kept\_memory", "fp32", "8", "1", "1.0", "1.00 (lean)", "1.00 (lean)"],
    ]
    assert "measures some" in utilisation.tried(tiny())


def test_remedy():
    table = utilisation.remedy(profiled())
    assert table.splitlines()[0] == ("| Model | CPU, batch size 1 | CPU, batch size 8 | GPU, batch size 1 |")
    rows = {row[0]: row[1:] for row in cells(table)}
    assert rows["lean"] == [
        # Twice the throughput at batch size 8
        r"framework, 37 %: batch size 8, 2\.0 times as fast", "model bound, 50 %: try bf16",
        "framework, 90 %: try compile",
    ]  # fmt: skip
    # 8 inputs in 320 ms, one in 100 ms; measured at batch size 8, and not profiled
    assert rows["deep"][0] == r"model bound, 50 %: batch size 8, 2\.5 times as fast"
    assert rows["deep"][1:] == ["not measured", "not measured"]
    assert rows["tokens"] == ["not measured"] * 3


def test_of_a_cpu_alone():
    assert utilisation.terms(profiled()).startswith("| Device | Model |")
    assert utilisation.terms(profiled(gpu=False)).startswith("| Model |")
    assert "GPU" not in utilisation.remedy(profiled(gpu=False))


@pytest.mark.parametrize("table", TABLES)
def test_pandoc_reads_each_table_as_one(table):
    html = pypandoc.convert_text(table(profiled()), "html", format="markdown")
    assert html.count("<table") == 1
    assert "|" not in html


@pytest.mark.parametrize("table", TABLES)
def test_what_was_not_measured_is_a_sentence(table):
    bare = replace(tiny(), machines=tuple(replace(each, roofs=each.roofs.iloc[:0], cells=each.cells.assign(
        attained=float("nan"))) for each in tiny().machines))  # fmt: skip
    assert "fp32 roof of the Example CPU" in table(bare)


def test_without_profiles_the_command_is_named():
    for table in (utilisation.terms, utilisation.remedy):
        assert "`python -m measure --device cpu --sections workload operators" in table(tiny())
        assert "`python -m measure --device cuda --sections workload operators" in table(tiny())
