import csv
import dataclasses
import io
import json
import random
from math import exp
from pathlib import Path

import pytest
from helpers.comparing import CELL, ENVIRONMENT, NEWER, machine, put
from helpers.rows import cell_columns

from measure.__main__ import main
from measure.cache.records import Environment, RoofMeasurement, Run, Sample
from measure.cache.table import as_text, write
from measure.domain.comparison import (
    FASTER,
    NOT_MEASURED,
    OTHERS,
    PROCESS,
    ROUNDS,
    SLOWER,
    WITHIN_ERROR,
    ComparedRow,
    Repeats,
    RoofKernel,
    Side,
    error_of_interval,
)  # fmt: skip
from measure.domain.latency import Cell
from measure.errors import UserError
from measure.verbs.compare import find, report, summary

A, B = Side("before", ENVIRONMENT, {}, {}), Side("after", NEWER, {}, {})


def side(status="ok", *medians_s, **values):
    return Repeats(medians_s, status=status, **values)


def row(model, a=NOT_MEASURED, b=NOT_MEASURED, **difference):
    return ComparedRow(Cell(model, 1, "fp32", "inference", "eager"), a, b, **difference)


def both(model, ratio, change, basis=ROUNDS, b_flags=None):
    found = {"ratio": ratio, "ratio_low": ratio - 0.01, "ratio_high": ratio + 0.01, "basis": basis, "change": change}
    return row(model, side("ok", 0.01), side("ok", 0.01 * ratio, flags=b_flags), **found)


def test_a_side_names_its_folder_and_environment():
    line, *_ = report(A, B, [])
    assert line == "A: Chip (cpu, 2 threads, torch 2.14.1), before@aaaa00000000, first measured 2026-01-01"


def test_markdown_has_the_sides_the_table_and_the_summary():
    lines = report(A, B, [both("my_net", 1.25, SLOWER), row("gone", side())], as_markdown=True)
    assert lines[0].startswith("- A: Chip (cpu")
    assert lines[4].startswith("| model | batch | precision | phase | variant | A | B | B/A |")
    assert lines[5] == "| :--- | ---: | :--- | :--- | :--- | ---: | ---: | ---: | ---: | :--- | :--- |"
    assert lines[6].startswith(
        r"| my\_net | 1 | fp32 | inference | eager | 10.0 ms | 12.5 ms | 1.250 | 1.240 to 1.260 |"
    )
    assert "- 1 cell compared: 1 slower, 0 faster, 0 within error; geometric mean of B/A 1.250" in lines
    assert lines[-2:] == ["- 1 cell only in A:", "  - gone batch 1 fp32 inference eager"]


def test_the_table_is_plain_text_where_it_is_piped():
    rows = [both("alexnet", 1.2, SLOWER, b_flags="wide"), both("vgg11", 1.0, WITHIN_ERROR)]
    rows.append(ComparedRow(RoofKernel("fma", 8, "fp32", "burst"), side()))
    lines = report(A, B, rows)
    assert lines[2] == "Changed: nothing that the environment records"
    assert lines[4:7] == [
        "model    batch  precision  phase      variant        A        B    B/A   95 % interval  change        flags",
        "alexnet      1  fp32       inference  eager    10.0 ms  12.0 ms  1.200  1.190 to 1.210  slower        B: wide",
        "vgg11        1  fp32       inference  eager    10.0 ms  10.0 ms  1.000  0.990 to 1.010  within error",
    ]
    assert lines[-2:] == ["1 roof only in A:", "  fma 8 fp32 burst"]


def test_cells_measured_under_load_are_counted():
    rows = [both("alexnet", 1.2, SLOWER, b_flags="loaded;wide"), both("vgg11", 1.0, WITHIN_ERROR)]
    said = "1 cell measured while other programs used the processor (loaded): a difference may be theirs"
    assert said in report(A, B, rows)
    assert "loaded" not in "".join(report(A, B, rows[1:]))


def test_a_change_that_one_process_shows_is_called_so():
    lines = report(A, B, [both("alexnet", 1.2, SLOWER, PROCESS), both("vgg11", 1.0, None, PROCESS)])
    assert lines[5].endswith("slower in one process")
    assert lines[6].endswith("not tested")


def test_what_changed_in_the_environment_is_said():
    after = dataclasses.replace(B, environment=dataclasses.replace(NEWER, torch="2.15.0", driver="580.1"))
    lines = report(A, after, [both("vgg11", 1.0, WITHIN_ERROR)])
    assert lines[2] == "Changed: driver none -> 580.1, torch 2.14.1 -> 2.15.0"


def test_the_summary_counts_and_names_what_has_no_counterpart():
    rows = [
        both("alexnet", 2.0, SLOWER),
        both("vgg11", 0.5, FASTER),
        row("vgg16", side()),
        row("vgg19", b=side("oom", reason="no memory")),
        row("swin_t", side(), side("oom", reason="no memory")),
        row("vit_b_16", side("timeout", reason="took longer than 60 s"), side()),
        row("vit_b_32", side("oom"), side("oom")),
    ]
    assert summary(rows) == [
        "2 cells compared: 1 slower, 1 faster, 0 within error; geometric mean of B/A 1.000",
        "1 cell only in A:",
        "  vgg16 batch 1 fp32 inference eager",
        "1 cell only in B:",
        "  vgg19 batch 1 fp32 inference eager",
        "1 cell without a result in A, with one in B:",
        "  vit_b_16 batch 1 fp32 inference eager: timeout, took longer than 60 s",
        "1 cell without a result in B, with one in A:",
        "  swin_t batch 1 fp32 inference eager: oom, no memory",
        "1 cell without a result on both sides:",
        "  vit_b_32 batch 1 fp32 inference eager",
    ]


def test_cells_with_inputs_of_another_shape_are_named():
    a = side(input_shape="16000")
    rows = [row("wav2vec2_base", a, side(status, input_shape="160000")) for status in ("ok", "oom")]
    assert summary(rows) == [
        "2 cells not compared, with inputs of another shape on each side:",
        *["  wav2vec2_base batch 1 fp32 inference eager: 16000 in A, 160000 in B"] * 2,
    ]


def test_of_many_cells_without_a_counterpart_a_few_are_named():
    lines = summary([row(f"model{number}", side()) for number in range(10)])
    assert lines[0] == "10 cells only in A:"
    assert lines[1:9] == [f"  model{number} batch 1 fp32 inference eager" for number in range(8)]
    assert lines[9:] == ["  and 2 more; --csv names all"]


@pytest.mark.parametrize(
    ("basis", "said"),
    [(PROCESS, "1 cell measured in one process a side"), (OTHERS, "1 cell measured in one round a side")],
)
def test_what_an_interval_rests_on_is_said_where_it_is_not_the_cells_rounds(basis, said):
    assert summary([both("alexnet", 1.0, WITHIN_ERROR, basis)])[1].startswith(said)
    assert len(summary([both("alexnet", 1.0, WITHIN_ERROR)])) == 1


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
    cell = cell_columns("vgg11", 1, "inference", environment=folder.rows(Environment)[0].environment_id)
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
        identity = folder.rows(Environment)[0].environment_id
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


def found(a, b, data=Path("nowhere")):
    return [(side.folder, side.environment) for side in find(str(a), str(b), data)]


def test_two_data_folders_give_the_machine_that_both_have(tmp_path):
    machine(tmp_path / "a", "box"), machine(tmp_path / "a", "other"), machine(tmp_path / "b", "box")
    assert found(tmp_path / "a", tmp_path / "b") == [
        (tmp_path / "a/machines/box", ENVIRONMENT),
        (tmp_path / "b/machines/box", ENVIRONMENT),
    ]


def test_two_data_folders_with_a_machine_each_give_the_two(tmp_path):
    machine(tmp_path / "a", "one"), machine(tmp_path / "b", "two")
    assert [folder.name for folder, _ in found(tmp_path / "a", tmp_path / "b")] == ["one", "two"]


def test_a_machine_beside_a_data_folder_names_the_machine_there(tmp_path):
    machine(tmp_path / "a", "box"), machine(tmp_path / "b", "box"), machine(tmp_path / "b", "other")
    folders = found(tmp_path / "a/machines/box", tmp_path / "b")
    assert [folder for folder, _ in folders] == [tmp_path / "a/machines/box", tmp_path / "b/machines/box"]


def test_a_machines_folder_may_lie_anywhere(tmp_path):
    machine(tmp_path / "a", "box")
    (tmp_path / "a/machines/box").rename(tmp_path / "before")
    machine(tmp_path / "a", "box")
    assert found(tmp_path / "before", tmp_path / "a")[0] == (tmp_path / "before", ENVIRONMENT)


def test_environments_of_a_machine_are_named_by_the_beginning_of_their_id(tmp_path):
    machine(tmp_path, "box", ENVIRONMENT, NEWER)
    folder = tmp_path / "machines/box"
    assert [side for _, side in found(f"{folder}@aaaa", folder)] == [ENVIRONMENT, NEWER]
    assert [side for _, side in found("box@aabb", "box@aaaa00000000", tmp_path)] == [NEWER, ENVIRONMENT]
    with pytest.raises(UserError, match="'aa' does not select one environment; name one of aaaa00000000, aabb00000000"):
        find(f"{folder}@aa", str(folder), tmp_path)
    with pytest.raises(UserError, match="'cc' does not select one environment; name one of aaaa00000000, aabb00000000"):
        find(f"{folder}@cc", str(folder), tmp_path)


def test_what_leaves_a_choice_or_none_is_said(tmp_path):
    for data, names in (("a", ("one", "two")), ("b", ("one", "two")), ("c", ("three",))):
        for name in names:
            machine(tmp_path / data, name)
    a, b, c = (str(tmp_path / name) for name in "abc")
    with pytest.raises(UserError, match=r"a has one, two; name the one to compare with .*b, as .*machines/one"):
        find(a, b, tmp_path)
    with pytest.raises(UserError, match=r"a has one, two; name the one to compare with .*c"):
        find(a, c, tmp_path)
    with pytest.raises(
        UserError, match=r"nowhere is neither a machine's folder, with a machine\.csv in it, nor a data"
    ):
        find(str(tmp_path / "nowhere"), c, tmp_path)
    with pytest.raises(UserError, match=r"are the same measurements; name two .*three@ID"):
        find(c, f"{c}/machines/three", tmp_path)


def test_a_machine_without_an_environment_is_said(tmp_path):
    machine(tmp_path, "box")
    write(tmp_path / "machines/empty/machine.csv", Environment, [])
    with pytest.raises(UserError, match=r"empty/machine\.csv has no environment; measure"):
        find("empty", "box", tmp_path)


def test_a_side_has_the_rounds_of_its_environment(tmp_path):
    folder = machine(tmp_path / "a", "box", ENVIRONMENT, NEWER)
    put(folder, 0, [1.0, 2.0, 3.0], flags="wide")
    put(folder, 1, [4.0, 5.0, 6.0, 7.0], flags="wide;throttled")
    put(folder, 2, [], "oom", "no memory")
    put(folder, 0, [9.0], environment=NEWER)
    old, new = find(f"{folder.folder}@aaaa", str(folder.folder), tmp_path)
    (cell,) = old.cells.values()
    assert list(old.cells) == [Cell(*CELL)]
    assert cell.status == "ok"
    assert cell.medians_s == (2.0, 5.5)
    assert cell.samples == 3
    assert cell.flags == "throttled;wide"
    assert new.cells[Cell(*CELL)].medians_s == (9.0,)


def test_a_cell_has_the_shape_of_its_inputs(tmp_path):
    a, b = machine(tmp_path / "a"), machine(tmp_path / "b")
    put(a, 0, [1.0])
    put(b, 0, [], "oom", "no memory")
    shapes = [
        cell.input_shape
        for side in find(str(tmp_path / "a"), str(tmp_path / "b"), tmp_path)
        for cell in side.cells.values()
    ]
    assert shapes == ["3x224x224"] * 2


def test_a_cell_that_failed_in_every_round_has_a_status_and_no_repeats(tmp_path):
    folder = machine(tmp_path / "a")
    put(folder, 0, [], "oom", "no memory")
    put(machine(tmp_path / "b"), 0, [1.0])
    (cell,) = find(str(tmp_path / "a"), str(tmp_path / "b"), tmp_path)[0].cells.values()
    assert (cell.status, cell.reason, cell.medians_s) == ("oom", "no memory", ())


def test_all_rounds_of_a_roof_count(tmp_path):
    folder = machine(tmp_path / "a")
    machine(tmp_path / "b")
    kernel = ("aaaa00000000", "stream_triad", "fp64", 512, 1, 1)
    times = (1.0, 0.9, 1.1), (1.2, 1.08, 1.32), (1.1, 0.99, 1.21)
    rounds = [
        RoofMeasurement(*kernel, "ok", None, *each, 9 + number, "sustained", round=number)
        for number, each in enumerate(times)
    ]
    failed = RoofMeasurement(*kernel, "error", "busy", None, None, None, None, "sustained", round=3)
    folder.put_roof_measurements([*rounds, failed])
    side, _ = find(str(tmp_path / "a"), str(tmp_path / "b"), tmp_path)
    repeats = side.roofs[RoofKernel("stream_triad", 512, "fp64", "sustained")]
    assert repeats.medians_s == (1.0, 1.2, 1.1)
    assert repeats.samples == 9
    # Each error is that of a width of a tenth to each side; three together leave a third of their squares' root
    errors = [error_of_interval(0.9, 1.1, samples) for samples in (9, 10, 11)]
    assert repeats.error == pytest.approx(sum(error**2 for error in errors) ** 0.5 / 3)


def test_a_ceiling_is_one_round_with_its_own_interval(tmp_path):
    folder = machine(tmp_path / "a")
    machine(tmp_path / "b")
    kernel = ("aaaa00000000", "matmul", "fp32", 512, 1, 1)
    failed = RoofMeasurement(
        "aaaa00000000", "matmul", "fp16", 512, 1, 1, "unsupported", "no fp16", None, None, None, None, "burst"
    )
    folder.put_roof_measurements([RoofMeasurement(*kernel, "ok", None, 1.0, 0.9, 1.2, 9, "burst"), failed])
    side, _ = find(str(tmp_path / "a"), str(tmp_path / "b"), tmp_path)
    repeats = side.roofs[RoofKernel("matmul", 512, "fp32", "burst")]
    assert repeats.medians_s == (1.0,)
    assert repeats.samples == 9
    assert repeats.error == error_of_interval(0.9, 1.2, 9)
    assert side.roofs[RoofKernel("matmul", 512, "fp16", "burst")].status == "unsupported"
