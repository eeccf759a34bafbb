import csv
import io
import json
import random
from math import exp
from pathlib import Path

import pytest
from helpers.comparing import machine, put
from helpers.rows import cell_columns

from measure.__main__ import main
from measure.cache.records import Run, Sample
from measure.cache.table import as_text


def compare(*arguments):
    return main(["compare", *map(str, arguments)])


@pytest.fixture
def caches(tmp_path):
    """Two caches of one cell in three rounds: in the second it takes a fifth longer."""
    for name, factor in (("a", 1.0), ("b", 1.2)):
        folder = machine(tmp_path / name)
        for index, latency in enumerate((0.99, 1.0, 1.01)):
            put(folder, index, [factor * latency * noise for noise in (0.99, 1.0, 1.0, 1.0, 1.0, 1.01)])
    return tmp_path / "a", tmp_path / "b"


def test_the_table_shows_each_cell_with_its_ratio(caches, capsys):
    assert compare(*caches) == 0
    output = capsys.readouterr().out
    assert "alexnet      1  fp32       inference  eager    1.00 s  1.20 s  1.200" in output
    assert "1 cell compared: 1 slower, 0 faster, 0 within error; geometric mean of B/A 1.200" in output


def test_a_regression_beyond_what_is_allowed_is_exit_code_1(caches, capsys):
    assert compare(*caches, "--fail-on-regression", "5%") == 1
    assert capsys.readouterr().err == "--fail-on-regression 5%: alexnet batch 1 fp32 inference eager\n"
    assert compare(*caches, "--fail-on-regression", "25%") == 0
    assert compare(*reversed(caches), "--fail-on-regression", "5%") == 0


def test_a_cell_that_no_longer_runs_is_a_regression(caches):
    folder = machine(caches[1])
    cell = cell_columns("vgg11", 1, "inference", environment=folder.environments()[0].environment_id)
    folder.put_run(Run(**cell, status="oom", reason="no memory", recorded_at="2026", round=0), [])
    assert compare(*caches, "--fail-on-regression", "25%") == 0  # it never ran
    old = machine(caches[0])
    run = Run(**cell, status="ok", reason=None, recorded_at="2026", round=0)
    old.put_run(run, [Sample(**cell, sample=0, block=1, latency_s=1.0, round=0)])
    assert compare(*caches, "--fail-on-regression", "25%") == 1


def test_csv_holds_every_row_and_nothing_else_goes_to_standard_output(caches, tmp_path, capsys):
    assert compare(*caches, "--csv", "-") == 0
    printed = capsys.readouterr().out
    (row,) = csv.DictReader(io.StringIO(printed))
    assert (row["model"], row["a_rounds"], row["roof_kernel"], row["change"]) == ("alexnet", "3", "", "slower")
    assert float(row["ratio"]) == pytest.approx(1.2)
    assert compare(*caches, "--csv", tmp_path / "rows.csv") == 0
    assert (tmp_path / "rows.csv").read_text() == printed
    assert "1 cell compared" in capsys.readouterr().out


def test_json_holds_both_environments_and_every_row(caches, capsys):
    assert compare(*caches, "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["a"]["torch"] == said["b"]["torch"] == "2.14.1"
    (row,) = said["comparisons"]
    assert row["ratio"] == pytest.approx(1.2)
    assert row["b_reason"] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--fail-on-regression", "5"], "--fail-on-regression: '5' is not a percentage; use 5% or 2.5%"),
        (["--csv", "-", "--json"], "--csv - and --json: print in different ways; give one of them"),
        (["--json", "--markdown"], "--json and --markdown: print in different ways; give one of them"),
        (["--csv", "/nowhere/rows.csv"], "--csv: /nowhere/rows.csv cannot be written"),
    ],
)
def test_bad_flags_are_answered_in_one_sentence(caches, capsys, arguments, words):
    assert compare(*caches, *arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("python -m measure compare: ")
    assert words in output.err
    assert output.err.count("\n") == 1


def test_bad_folders_are_answered_in_one_sentence(caches, tmp_path, capsys):
    machine(tmp_path / "empty")
    assert compare(caches[0], tmp_path / "empty") == 2
    assert "have no cell or roof with a result in common" in capsys.readouterr().err
    assert compare(caches[0], tmp_path / "nowhere") == 2
    assert "nowhere is neither a machine's folder" in capsys.readouterr().err


def test_a_damaged_table_is_answered_in_one_sentence(caches, capsys):
    (caches[1] / "machines/box/runs.csv").write_text("colour\n")
    assert compare(*caches) == 2
    assert "runs.csv, line 1: unknown column 'colour'" in capsys.readouterr().err


def test_a_machine_measured_twice_in_the_same_state_is_not_called_changed(tmp_path, capsys):
    generator = random.Random(12)
    for name in "ab":
        folder = machine(tmp_path / name)
        identity = folder.environments()[0].environment_id
        for model in range(20):
            for index in range(3):
                process = exp(generator.gauss(0, 0.015))
                cell = cell_columns(f"model{model}", 1, "inference", environment=identity)
                times = [process * exp(generator.gauss(0, 0.005)) for _ in range(8)]
                samples = [
                    Sample(**cell, sample=sample, block=1, latency_s=time, round=index)
                    for sample, time in enumerate(times)
                ]
                run = Run(**cell, status="ok", reason=None, recorded_at="2026", round=index)
                folder.put_run(run, samples)
    assert compare(tmp_path / "a", tmp_path / "b", "--fail-on-regression", "0%") == 0
    assert "20 cells compared: 0 slower, 0 faster, 20 within error" in capsys.readouterr().out


def test_no_text_of_a_table_is_a_formula_to_a_spreadsheet():
    texts = ["=cmd()", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"]
    assert list(map(as_text, texts)) == [f"'{text}" for text in texts]
    assert list(map(as_text, ["a=b", "", -1, None])) == ["a=b", "", -1, None]


@pytest.fixture
def three(caches, tmp_path):
    folder = machine(tmp_path / "c")
    for index, latency in enumerate((0.49, 0.5, 0.51)):
        put(folder, index, [latency * noise for noise in (0.99, 1.0, 1.0, 1.0, 1.0, 1.01)])
    return *caches, tmp_path / "c"


def test_the_first_is_compared_with_each_other(three, capsys):
    assert compare(*three) == 0
    said = capsys.readouterr().out
    # 1, 1.2 and 0.5 s
    assert said.count("1 cell compared: ") == 2
    assert "geometric mean of B/A 1.200" in said
    assert "geometric mean of B/A 0.500" in said
    assert compare(*three, "--markdown") == 0
    assert capsys.readouterr().out.count("- B: ") == 2


def test_rows_of_several_sides_name_their_b(three, tmp_path, capsys):
    assert compare(*three, "--csv", tmp_path / "rows.csv") == 0
    rows = list(csv.DictReader((tmp_path / "rows.csv").open()))
    assert [(Path(row["b"]).parts[-3], row["change"]) for row in rows] == [("b", "slower"), ("c", "faster")]
    capsys.readouterr()
    assert compare(*three, "--json") == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert [pair["b"]["name"] for pair in pairs] == ["Chip"] * 2
    assert [pair["comparisons"][0]["change"] for pair in pairs] == ["slower", "faster"]


def test_a_regression_on_any_side_counts(three, capsys):
    assert compare(three[0], three[2], three[1], "--fail-on-regression", "5%") == 1
    assert "alexnet batch 1 fp32 inference eager" in capsys.readouterr().err
    assert compare(*three, three[0]) == 2
    assert "are the same measurements" in capsys.readouterr().err
