import re
from dataclasses import replace

import pypandoc
import pytest
from helpers.papers import committed_chips, tiny, wide
from helpers.sentences import cells

from report.tables import chips


def all_tables(paper):
    kinds = ("cpu", "gpu", "asic", "soc", "fpga")
    whole = [chips.fastest(paper), chips.derivations(paper), chips.growth(paper)]
    return whole + [chips.rates(paper, kind) for kind in kinds]


def test_fastest_chips_cite_their_sources():
    rows = {row[0]: row[1:] for row in cells(chips.fastest(tiny()))}
    assert rows["Bead 2"] == ["bf16 tensor", "100 TFLOP/s", "1.00 TB/s", "100", "[@epoch_hw; @stas_mle]"]
    assert rows["Cog 3"] == ["bf16 tensor \\*", "200 TFLOP/s", "20.0 TB/s †", "10.0", "[@epoch_hw]"]
    assert rows["Dial 4"][1] == "10.0 TOP/s"


def test_all_rates_of_a_kind():
    rows = cells(chips.rates(wide(), "gpu"))
    assert len(rows) == 12
    assert rows[0] == [
        "Bead 2", "2021", "fp32 vector", "10.0 TFLOP/s", "–", "1.00 TB/s", "10.0", "300 W", "[@epoch_hw]",
    ]  # fmt: skip
    # Of the same chip, only what differs; its sources do.
    assert rows[1] == [
        "", "", "bf16 tensor", "100 TFLOP/s", "200 TFLOP/s", "", "100", "", "[@epoch_hw; @stas_mle]",
    ]  # fmt: skip
    assert rows[2][0] == "NVIDIA A1"
    (cog, tpu, *_) = cells(chips.rates(wide(), "asic"))
    assert (cog[2], cog[5]) == ("bf16 tensor \\*", "20.0 TB/s †")
    assert tpu[7] == "50.0 W ‡"
    assert cells(chips.rates(wide(), "fpga"))[0][3] == "10.0 TOP/s"


def test_derivations():
    rows = cells(chips.derivations(wide()))
    assert rows[0] == [
        "Abacus 1", "fp32 vector", "16 cores × 2 GHz × 32 FLOP/cycle", "1.00 TFLOP/s", "–",
    ]  # fmt: skip
    assert rows[1][4] == "4 ch × 6250 MT/s × 8 B"
    assert rows[2] == ["", "bf16 tensor", "16 cores × 2 GHz × 1024 FLOP/cycle", "32.0 TFLOP/s", ""]


def test_growth():
    # Of the line: peaks 1e13 to 6.4e14 in six years, twice a year; bandwidths and ridge points 2 ** 0.5 a year.
    rows = {row[0]: row[1:] for row in cells(chips.growth(wide()))}
    assert rows["NVIDIA, HBM, of the GPUs"] == [
        "4", "2016–2022", "100 % (100 to 100 %)", "41 % (41 to 41 %)",
        "41 % (41 to 41 %)",
    ]  # fmt: skip
    assert rows["GPUs"][0] == "5"
    assert set(rows) == {"GPUs", "NVIDIA, HBM, of the GPUs"}


def test_pandoc_reads_each_table_as_one():
    for table in all_tables(wide()):
        html = pypandoc.convert_text(table, "html", format="markdown")
        assert html.count("<table") == 1
        assert html.count("<tr") == len(table.splitlines()) - 1
        assert "|" not in html


FACTORS = re.compile(r"^(\d+) (?:cores|modules) x ([\d.]+) GHz (?:\([^)]*\) )?x (\d+) (?:FLOP|op)/cycle")


def test_the_derivations_of_the_committed_table_give_its_peaks():
    rows = committed_chips()[committed_chips().chip_kind == "cpu"]
    found = [(row, FACTORS.match(row.derivation)) for row in rows.itertuples()]
    found = [(row, factors) for row, factors in found if factors]
    assert len(found) >= 20
    for row, factors in found:
        cores, gigahertz, each_cycle = map(float, factors.groups())
        assert row.peak_flop_per_s == pytest.approx(cores * gigahertz * 1e9 * each_cycle, rel=1e-3), row.chip


UNITS = re.compile(
    r"(\d+) (?:tensor cores|cores|lanes|SMs|CUs) x (?:(\d+) (?:FMA|MAC|FLOP/cycle) x )?(2 x )?([\d.]+) GHz"
)
"""Units, what one does in a cycle, twice that where it is multiply-adds, and the clock."""


def test_the_derivations_of_gpus_give_their_peaks():
    rows = committed_chips()[committed_chips().chip_kind != "cpu"]
    found = [(row, UNITS.fullmatch(row.derivation)) for row in rows.itertuples()]
    found = [(row, factors) for row, factors in found if factors]
    assert len(found) >= 120
    for row, factors in found:
        units, operations, of_two, gigahertz = factors.groups()
        rate = int(units) * int(operations or 1) * (2 if of_two else 1) * float(gigahertz) * 1e9
        # AMD prints 11.5 and 23.1 of the MI100: three digits
        assert row.peak_flop_per_s == pytest.approx(rate, rel=4e-3), (row.chip, row.precision)


def test_every_rate_of_the_committed_table_is_in_a_table():
    assert committed_chips().chip.nunique() == 125
    paper = replace(wide(), chips=committed_chips())
    kinds = ("cpu", "gpu", "asic", "soc", "fpga")
    assert sum(len(cells(chips.rates(paper, kind))) for kind in kinds) == 507
