import shutil

import pytest
from helpers.papers import REFERENCES
from helpers.places import ROOT

from measure.errors import UserError
from report.load import printed
from report.load.bibliography import read_keys

FOLDER = ROOT / "data" / "published"
FILE = FOLDER / "training_steps.csv"
KEYS = read_keys(REFERENCES)


def test_the_rows_of_the_study_as_printed():
    rows = printed.training_steps(FILE, KEYS)
    assert len(rows) == 9
    row = rows[(rows.model_key == "vit_b_32") & (rows.gpu == "NVIDIA V100")].iloc[0]
    assert (row.time_s, row.flop_per_s, row.intensity_flop_per_byte, row.batch) == (0.1688, 10113e9, 48.72, 64)


def test_the_rounding_of_a_number_is_half_the_unit_of_its_last_digit():
    tables = printed.read(FOLDER, KEYS)
    peaks = dict(zip(tables.chips.chip, tables.chips.peak_flop_per_s_rounding, strict=True))
    assert peaks["NVIDIA H100 SXM"] == pytest.approx(0.5e12)  # 3958e12
    assert peaks["NVIDIA L4"] == pytest.approx(0.05e12)  # 30.3e12
    counts = tables.training[tables.training.quantity == "flop"]
    assert counts.iloc[0].forward_rounding == pytest.approx(0.5)  # 91416125440


def test_a_cell_that_may_be_empty_is_not_known():
    tables = printed.read(FOLDER, KEYS)
    assert tables.training[tables.training.study == "a1rooflines"].batch.isna().all()
    assert (tables.chips.precision == "").sum() == 1


def test_files_that_are_not_there_are_empty_tables(tmp_path):
    assert printed.training_steps(tmp_path / "none.csv", KEYS).empty
    tables = printed.read(tmp_path, KEYS)
    assert all(frame.empty for frame in vars(tables).values())


@pytest.mark.parametrize(
    ("file", "old", "new", "words"),
    [
        (
            "models.csv",
            "flop,",
            "flops,",
            "models.csv, line 1: the columns must be study, model, flop, footprint_byte, intensity_flop_per_byte, "
            "model_key, each once: see 'flop', and mend the header",
        ),
        (
            "models.csv",
            "3.01e9",
            "three",
            "models.csv, line 2, column flop: the cell is 'three', not a number above 0; mend",
        ),
        (
            "chips.csv",
            "1979e12",
            "-1",
            "chips.csv, line 2, column peak_flop_per_s: the cell is '-1', not a number above 0; mend",
        ),
        ("chips.csv", "1979e12", "", "chips.csv, line 2, column peak_flop_per_s: the cell is empty; mend"),
        ("training.csv", "latency", "speed", "line 2, column quantity: the cell is 'speed', not one of latency, flop"),
        (
            "claims.csv",
            "madani2026-2",
            "madani2026-1",
            "claims.csv, line 3: madani2026-1 stands in line 2 already; delete",
        ),
        ("claims.csv", "madani2026-1,madani2026", "x,nobody", "column study: 'nobody' is not in the bibliography"),
        ("claims.csv", "madani2026-1,", "madani2026-1,,", "claims.csv, line 2: 4 cells where the header has 3"),
    ],
)
def test_a_damaged_table_is_said_in_one_sentence(tmp_path, file, old, new, words):
    folder = tmp_path / "published"
    shutil.copytree(FOLDER, folder)
    text = (folder / file).read_text()
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1))
    with pytest.raises(UserError) as problem:
        printed.read(folder, KEYS)
    assert words in str(problem.value)
