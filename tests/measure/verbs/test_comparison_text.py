import dataclasses

import pytest
from helpers.comparing import ENVIRONMENT, NEWER

from measure.domain.comparison import (
    FASTER,
    NOT_MEASURED,
    OTHERS,
    PROCESS,
    ROUNDS,
    SLOWER,
    UNKNOWN,
    WITHIN_ERROR,
    ComparedRow,
    Difference,
    Repeats,
    RoofKernel,
    Side,
)  # fmt: skip
from measure.domain.latency import Cell
from measure.verbs.compare import report, summary

A, B = Side("before", ENVIRONMENT, {}, {}), Side("after", NEWER, {}, {})


def side(status="ok", *medians_s, **values):
    return Repeats(medians_s, status=status, **values)


def row(model, a=NOT_MEASURED, b=NOT_MEASURED, difference=UNKNOWN):
    return ComparedRow(Cell(model, 1, "fp32", "inference", "eager"), a, b, difference)


def both(model, ratio, change, basis=ROUNDS, b_flags=None):
    found = Difference(ratio, ratio - 0.01, ratio + 0.01, basis=basis, change=change)
    return row(model, side("ok", 0.01), side("ok", 0.01 * ratio, flags=b_flags), found)


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
