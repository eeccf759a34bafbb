from dataclasses import replace

import pypandoc
from helpers.papers import empty, tiny
from helpers.sentences import cells

from report.analysis.available import Missing
from report.tables import pipe


def test_roofs():
    rows = cells(pipe.measured_roofs(tiny()))
    assert rows[0] == [
        "Example CPU \\(4 cores\\)", "fp32", "multiply-add", "100 GFLOP/s", "80 to 125 GFLOP/s",
        "triad", "10.0 GB/s", "8.0 to 12.0 GB/s", "10.0 FLOP/B",
    ]  # fmt: skip
    assert rows[1][:4] == ["Example CPU \\(4 cores\\)", "fp64", "multiply-add", "20.0 GFLOP/s"]
    assert rows[2][:3] == ["Example GPU", "fp32", "matrix product (torch)"]
    assert rows[2][5] == "triad (torch)"


def test_machines():
    rows = {row[0]: row[1:] for row in cells(pipe.machines(tiny()))}
    assert rows["folder"] == ["example\\-cpu", "example\\-gpu"]
    assert rows["driver"] == ["–", "550\\.54"]
    assert rows["processor"] == ["ExampleVendor family 1 model 5", "–"]
    assert rows["torch"] == ["2\\.14\\.1", "2\\.14\\.1"]  # the newest environment, not 2.13
    assert rows["memory"] == ["8\\.00 GB", "8\\.00 GB"]
    assert rows["tuned by"] == ["–", "–"]


def test_latencies():
    table = cells(pipe.latencies(tiny()))
    rows = {(row[1], row[2]): row[3:] for row in table if row[0] == "CPU"}
    assert [row[1] for row in table if row[0] == "GPU"] == ["deep", "lean"]
    # half of 1.2 ms has one digit, 0.6 ms
    assert rows["lean", "1"] == ["4.0 ms", "3.8 to 5.0 ms", "1", "6", "250 inputs/s", "25 %"]
    assert rows["broad", "1"][:4] == ["20.0 ms", "–", "1", "3"]
    assert rows["tokens", "8"] == ["–", "oom: needs 9 GB \\| 8 GB are free", "–", "–", "–", "–"]
    assert len(rows) == 8


def test_pandoc_reads_each_table_as_one():
    paper = tiny()
    for table in (
        pipe.measured_roofs(paper), pipe.machines(paper), pipe.latencies(paper),
    ):  # fmt: skip
        html = pypandoc.convert_text(table, "html", format="markdown")
        assert html.count("<table") == 1
        assert html.count("<tr") == len(table.splitlines()) - 1
        assert "|" not in html.replace("9 GB | 8 GB", "")


def test_an_empty_cache_gives_sentences():
    paper = empty()
    for table in (
        pipe.measured_roofs(paper), pipe.machines(paper), pipe.latencies(paper),
    ):  # fmt: skip
        assert isinstance(table, Missing)


def test_datasheet_roofs():
    rows = cells(pipe.datasheet_roofs(tiny()))
    # 2 cores * 32 FLOP/cycle * 2 GHz, 100 GFLOP/s of it measured; 20 of 64 GFLOP/s at fp64
    assert rows[0] == [
        "Example CPU \\(4 cores\\)", "fp32", "2 cores × 32 FLOP/cycle \\(Example core, avx2\\) × 2\\.00 GHz",
        "128 GFLOP/s", "–", "78 %", "[@epoch_hw; @stas_mle]",
    ]  # fmt: skip
    assert rows[1][1:4:2] == ["fp64", "64.0 GFLOP/s"]
    assert rows[1][5] == "31 %"
    # 8 of 10 TFLOP/s
    assert rows[2] == [
        "Example GPU",
        "fp32",
        "Bead 2: as printed, vector units",
        "10.0 TFLOP/s",
        "1.00 TB/s",
        "80 %",
        "[@epoch_hw]",
    ]


def test_an_unconfirmed_datasheet_roof_is_marked():
    doubtful = replace(tiny(), chips=tiny().chips.assign(verified="no"))
    assert [row[1] for row in cells(pipe.datasheet_roofs(doubtful))] == [
        "fp32",
        "fp64",
        "fp32 \\*",
        "bf16 \\*",
    ]


def test_no_datasheet_roof_at_all_is_a_sentence():
    bare = replace(tiny(), machines=(replace(tiny().machine("cpu"), clock=None),))
    assert "its clock was not measured" in pipe.datasheet_roofs(bare)
    assert isinstance(pipe.datasheet_roofs(bare), Missing)
