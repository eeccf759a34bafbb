import csv
from dataclasses import replace

import pytest
from helpers.papers import REFERENCES, tiny
from helpers.places import ROOT, TESTS

from measure.cache.hand_kept import FlopPerCycle, model_numbers
from measure.cache.schema import TABLES
from measure.errors import UserError
from report.load import bibliography, flop_per_cycle

KEYS = frozenset({"one", "two"})
HEADER = ",".join(TABLES[FlopPerCycle].columns)
GOOD = "V,6,1;4-7,Core,avx2,fp32,32,one;two,"


def read(tmp_path, *lines, header=HEADER):
    path = tmp_path / "flop_per_cycle.csv"
    path.write_text("\n".join([header, *lines]))  # no line end: an editor may leave none
    return flop_per_cycle.read(path, KEYS)


def test_a_row(tmp_path):
    (row,) = read(tmp_path, GOOD)
    assert (row.vendor, row.family, row.flop_per_cycle, row.note) == ("V", 6, 32, "")
    assert model_numbers(row.models) == {1, 4, 5, 6, 7}


def test_a_table_that_is_not_there_is_empty(tmp_path):
    assert flop_per_cycle.read(tmp_path / "none.csv", KEYS) == ()


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (GOOD.replace("V,", ",", 1), "line 2, column vendor: the cell is empty"),
        (GOOD.replace(",6,", ",six,"), "line 2, column family: the cell is 'six', not a whole number"),
        (GOOD.replace("4-7", "7-4"), "line 2, column models: the cell is '1;7-4', not model numbers such as 1;4-7"),
        (GOOD.replace("1;", "0x11;"), "line 2, column models: the cell is '0x11;4-7'"),
        (GOOD.replace("avx2", "avx3"), "line 2, column vector_extension: the cell is 'avx3', not one of amx_bf16"),
        (GOOD.replace("fp32", "single"), "line 2, column precision: the cell is 'single', not one of fp64"),
        (GOOD.replace(",32,", ",0,"), "line 2, column flop_per_cycle: the cell is '0', not a whole number"),
        (GOOD.replace(",32,", ",32.5,"), "line 2, column flop_per_cycle: the cell is '32.5'"),
        (GOOD.replace("two", "three"), "line 2, column source: 'three' is not in the bibliography; add its entry"),
        (GOOD + ",", "line 2: 10 cells where the header has 9"),
        (f"{GOOD}\n{GOOD.replace('1;4-7', '7')}", "line 3, column models: a model of 7 stands in line 2 already"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_named_with_line_and_column(tmp_path, line, complaint):
    with pytest.raises(UserError) as caught:
        read(tmp_path, *line.splitlines())
    assert str(caught.value).startswith(str(tmp_path / "flop_per_cycle.csv"))
    assert complaint in str(caught.value)


def test_a_wrong_header_is_named(tmp_path):
    with pytest.raises(UserError, match="line 1: the columns must be vendor, family, models"):
        read(tmp_path, GOOD, header=HEADER.replace("models", "model"))


def test_one_model_may_have_rows_for_other_precisions_and_extensions(tmp_path):
    assert len(read(tmp_path, GOOD, GOOD.replace("fp32", "fp64"), GOOD.replace("avx2", "avx512f"))) == 3


def test_a_row_fits_its_family_model_and_vector_extension():
    environment = tiny().machine("cpu").environment
    rows = flop_per_cycle.read(TESTS / "data" / "flop_per_cycle.csv", bibliography.read_keys(REFERENCES))
    assert [(row.vector_extension, row.precision) for row in rows if row.fits(environment)] == [
        ("avx2", "fp32"),
        ("avx2", "fp64"),
    ]
    for other in ({"cpu_model": 7}, {"cpu_family": 2}, {"cpu_vendor": "Other"}, {"vector_extension": None}):
        assert not any(row.fits(replace(environment, **other)) for row in rows)


ROWS = flop_per_cycle.read(ROOT / "data" / "flop_per_cycle.csv", bibliography.read_keys(REFERENCES))


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
        tiny().machine("cpu").environment,
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
