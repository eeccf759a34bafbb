import csv
import shutil
from dataclasses import replace

import pytest
from helpers.places import ROOT
from helpers.world import REFERENCES, WORLD, world

from measure.cache.schema import TABLES
from measure.errors import UserError
from report.paper import hand_tables
from report.paper.printed import Claim, FlopPerCycle, PrintedChip, model_numbers

KEYS = frozenset({"one"})


def read(path):
    return hand_tables.read(path, Claim, KEYS)


def test_lines_are_numbered_as_an_editor_does_and_cells_are_stripped(tmp_path):
    path = tmp_path / "claims.csv"
    path.write_bytes(b'id,study,claim\r\n1,one,"two\nlines"\r\n2, one ,no line end')
    assert read(path) == [(3, Claim("1", "one", "two\nlines")), (4, Claim("2", "one", "no line end"))]


def test_a_line_without_cells_is_named(tmp_path):
    path = tmp_path / "claims.csv"
    path.write_text("id,study,claim\n1,one,a\n\n")
    with pytest.raises(UserError, match="line 3: 0 cells where the header has 3; correct the line or delete it"):
        read(path)


def test_a_spreadsheets_byte_order_mark_is_no_part_of_the_header(tmp_path):
    path = tmp_path / "claims.csv"
    path.write_bytes(b"\xef\xbb\xbfclaim,id,study\n")
    assert read(path) == []


def test_no_file_has_no_lines(tmp_path):
    assert read(tmp_path / "none.csv") == []
    frame = hand_tables.frame([], PrintedChip)
    assert frame.empty
    assert frame.bandwidth_byte_per_s_rounding.sum() == 0.0


@pytest.mark.parametrize(
    ("content", "named"),
    [
        (b"chip\n\xff\n", "table.csv: is not UTF-8 text"),
        (b"id,study,claim\n" + b"x" * 200_000, "table.csv, line 2: "),
        (b"", "table.csv: has no complete line"),
        (b"id,study,claim\n1,one,a\n1,one,b\n", "table.csv, line 3: 1 stands in line 2"),
        (b"id,study,claim\n1,two,a\n", "table.csv, line 2, column study: 'two'"),
    ],
)
def test_what_is_no_table_is_named(tmp_path, content, named):
    path = tmp_path / "table.csv"
    path.write_bytes(content)
    with pytest.raises(UserError, match=named):
        read(path)


RATE_KEYS = frozenset({"one", "two"})
HEADER = ",".join(TABLES[FlopPerCycle].columns)
GOOD = "V,6,1;4-7,Core,avx2,fp32,32,one;two,"


def read_rates(tmp_path, *lines, header=HEADER):
    path = tmp_path / "flop_per_cycle.csv"
    path.write_text("\n".join([header, *lines]))  # no line end: an editor may leave none
    return hand_tables.flop_per_cycle(path, RATE_KEYS)


def test_a_row(tmp_path):
    (row,) = read_rates(tmp_path, GOOD)
    assert (row.vendor, row.family, row.flop_per_cycle, row.note) == ("V", 6, 32, "")
    assert model_numbers(row.models) == {1, 4, 5, 6, 7}


def test_a_table_that_is_not_there_is_empty(tmp_path):
    assert hand_tables.flop_per_cycle(tmp_path / "none.csv", RATE_KEYS) == ()


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (GOOD.replace("V,", ",", 1), "line 2, column vendor"),
        (GOOD.replace(",6,", ",six,"), "line 2, column family: the cell is 'six'"),
        (GOOD.replace("1;", "0x11;"), "line 2, column models: the cell is '0x11;4-7'"),
        (GOOD.replace("avx2", "avx3"), "line 2, column vector_extension: the cell is 'avx3'"),
        (GOOD.replace(",32,", ",0,"), "line 2, column flop_per_cycle: the cell is '0'"),
        (GOOD.replace(",32,", ",32.5,"), "line 2, column flop_per_cycle: the cell is '32.5'"),
        (GOOD.replace("two", "three"), "line 2, column source: 'three'"),
        (f"{GOOD}\n{GOOD.replace('1;4-7', '7')}", "line 3, column models: a model of 7 stands in line 2"),
    ],
)
def test_a_wrong_row_is_named_with_line_and_column(tmp_path, line, named):
    with pytest.raises(UserError, match=named):
        read_rates(tmp_path, *line.splitlines())


def test_one_model_may_have_rows_for_other_precisions_and_extensions(tmp_path):
    assert len(read_rates(tmp_path, GOOD, GOOD.replace("fp32", "fp64"), GOOD.replace("avx2", "avx512f"))) == 3


def test_a_row_fits_its_family_model_and_vector_extension():
    environment = world().machine("cpu").environment
    rows = hand_tables.flop_per_cycle(WORLD / "flop_per_cycle.csv", hand_tables.read_keys(REFERENCES))
    assert [(row.vector_extension, row.precision) for row in rows if row.fits(environment)] == [
        ("avx2", "fp32"),
        ("avx2", "fp64"),
    ]
    for other in ({"cpu_model": 7}, {"cpu_family": 2}, {"cpu_vendor": "Other"}, {"vector_extension": None}):
        assert not any(row.fits(replace(environment, **other)) for row in rows)


ROWS = hand_tables.flop_per_cycle(ROOT / "data" / "flop_per_cycle.csv", hand_tables.read_keys(REFERENCES))


@pytest.mark.parametrize(
    ("vendor", "family", "model", "extension", "fp32"),
    [
        ("GenuineIntel", 6, 26, "sse2", 8),  # Nehalem: 4 lanes, an addition and a multiplication
        ("GenuineIntel", 6, 62, "avx", 16),  # Ivy Bridge: 8 lanes, likewise
        ("GenuineIntel", 6, 79, "avx2", 32),  # Broadwell: 8 lanes * 2 units * 2 FLOP
        ("GenuineIntel", 6, 85, "avx512f", 64),  # Skylake-SP: 16 lanes * 2 units * 2 FLOP
        ("AuthenticAMD", 23, 1, "avx2", 16),  # Zen: 4 lanes * 2 units * 2 FLOP
        ("AuthenticAMD", 25, 17, "avx2", 32),  # Zen 4: cpufp measures 163.6 GFLOP/s at 5.1 GHz
        ("AuthenticAMD", 26, 68, "avx512f", 64),  # Zen 5: cpufp measures 354.3 GFLOP/s at 5.5 GHz
        ("0x41", 8, 0xD4F, "asimd", 32),  # Neoverse V2: 4 lanes * 4 units * 2 FLOP
    ],
)
def test_families(vendor, family, model, extension, fp32):
    environment = replace(
        world().machine("cpu").environment,
        cpu_vendor=vendor, cpu_family=family, cpu_model=model, vector_extension=extension,
    )  # fmt: skip
    rates = {row.precision: row.flop_per_cycle for row in ROWS if row.fits(environment)}
    assert rates == {"fp32": fp32, "fp64": fp32 / 2}


def test_the_rates_are_those_that_the_chips_table_multiplies_with():
    """Core i7-920, E5-2699 v4, Platinum 8280, Gold 6448Y and EPYC 9654 are derived there, from the same sources."""
    with (ROOT / "data" / "chips.csv").open(encoding="utf-8") as file:
        derivations = {(row["chip"], row["precision"]): row["derivation"] for row in csv.DictReader(file)}
    for chip, microarchitecture, extension in (
        ("Intel Core i7-920", "Nehalem and Westmere", "sse2"),
        ("Intel Xeon E5-2699 v4", "Haswell and Broadwell", "avx2"),
        ("Intel Xeon Platinum 8280", "Skylake and Cascade Lake (server)", "avx512f"),
        ("Intel Xeon Gold 6448Y", "Sapphire Rapids", "amx_bf16"),
        ("AMD EPYC 9654", "Zen 4", "avx2"),
    ):
        rows = [row for row in ROWS if (row.microarchitecture, row.vector_extension) == (microarchitecture, extension)]
        assert rows
        for row in rows:
            assert f"x {row.flop_per_cycle} FLOP/cycle/core" in derivations[chip, row.precision]


FOLDER = ROOT / "data" / "published"
FILE = FOLDER / "training_steps.csv"
STUDY_KEYS = hand_tables.read_keys(REFERENCES)


def test_the_rows_of_the_study_as_printed():
    rows = hand_tables.published(FOLDER, STUDY_KEYS).training_steps
    assert len(rows) == 9
    row = rows[(rows.model_key == "vit_b_32") & (rows.gpu == "NVIDIA V100")].iloc[0]
    assert (row.time_s, row.flop_per_s, row.intensity_flop_per_byte, row.batch) == (0.1688, 10113e9, 48.72, 64)


def test_the_rounding_of_a_number_is_half_the_unit_of_its_last_digit():
    tables = hand_tables.published(FOLDER, STUDY_KEYS)
    peaks = dict(zip(tables.chips.chip, tables.chips.peak_flop_per_s_rounding, strict=True))
    assert peaks["NVIDIA H100 SXM"] == pytest.approx(0.5e12)  # 3958e12
    assert peaks["NVIDIA L4"] == pytest.approx(0.05e12)  # 30.3e12
    counts = tables.training[tables.training.quantity == "flop"]
    assert counts.iloc[0].forward_rounding == pytest.approx(0.5)  # 91416125440


def test_a_cell_that_may_be_empty_is_not_known():
    tables = hand_tables.published(FOLDER, STUDY_KEYS)
    assert tables.training[tables.training.study == "a1rooflines"].batch.isna().all()
    assert (tables.chips.precision == "").sum() == 1


def test_files_that_are_not_there_are_empty_tables(tmp_path):
    tables = hand_tables.published(tmp_path, STUDY_KEYS)
    assert all(frame.empty for frame in vars(tables).values())


@pytest.mark.parametrize(
    ("file", "old", "new", "named"),
    [
        ("models.csv", "flop,", "flops,", "models.csv, line 1: unknown column 'flops'"),
        ("models.csv", "3.01e9", "three", "models.csv, line 2, column flop: the cell is 'three'"),
        ("chips.csv", "1979e12", "", "chips.csv, line 2, column peak_flop_per_s: "),
        ("training.csv", "latency", "speed", "line 2, column quantity: the cell is 'speed'"),
        ("claims.csv", "madani2026-1b", "madani2026-1a", "claims.csv, line 3: madani2026-1a stands in line 2"),
        ("claims.csv", "madani2026-1a,madani2026", "x,nobody", "column study: 'nobody'"),
        ("claims.csv", "madani2026-1a,", "madani2026-1a,,", "claims.csv, line 2: 4 cells where the header has 3"),
    ],
)
def test_a_damaged_table_is_named(tmp_path, file, old, new, named):
    folder = tmp_path / "published"
    shutil.copytree(FOLDER, folder)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=named):
        hand_tables.published(folder, STUDY_KEYS)
