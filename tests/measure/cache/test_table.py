import dataclasses
import errno
import math
import os
import typing

import pytest
from helpers.rows import (
    ENVIRONMENT,
    counter_profile,
    kernel_counters,
    kernel_time,
    layer,
    roof_measurement,
    run,
    samples,
    workload,
)

from measure.cache import table
from measure.cache.records import ROUND, Environment, KernelTime, Run, Sample
from measure.cache.schema import TABLES
from measure.cache.table import ChildTable, append
from measure.errors import UserError


@pytest.mark.parametrize("record", TABLES)
def test_keys_are_columns(record):
    assert set(TABLES[record].key) <= {field.name for field in dataclasses.fields(record)}


@pytest.mark.parametrize(
    "row",
    [
        workload(uncounted="sort:2:0.1"),
        layer(),
        ENVIRONMENT,
        roof_measurement(latency_s=1 / 3),
        run(status="oom", reason='no "memory", at all\nor nearly'),
        samples(1)[0],
        kernel_time(),
        counter_profile(status="unsupported", reason="forbidden; ask an administrator"),
        kernel_counters(),
    ],
)
def test_what_is_written_is_read_back(tmp_path, row):
    table.write(tmp_path / "table.csv", type(row), [row])
    assert table.read(tmp_path / "table.csv", type(row)) == [row]


def test_an_unknown_value_is_an_empty_cell(tmp_path):
    table.write(tmp_path / "machine.csv", Environment, [ENVIRONMENT])
    header, line = (tmp_path / "machine.csv").read_text().splitlines()
    assert line.startswith('e1,h1,cpu,"Chip, of 2 cores",2,2,1024,,,Linux')
    assert header.split(",") == list(typing.get_type_hints(Environment))


def test_a_table_that_is_not_there_is_empty(tmp_path):
    assert table.read(tmp_path / "none.csv", Run) == []


def test_append_adds_at_the_end(tmp_path):
    path = tmp_path / "samples.csv"
    table.append(path, Sample, samples(2))
    table.append(path, Sample, samples(1, model="other"))
    assert [row.model for row in table.read(path, Sample)] == ["net", "net", "other"]


def test_a_torn_last_line_is_dropped_and_overwritten(tmp_path):
    path = tmp_path / "samples.csv"
    table.append(path, Sample, samples(2))
    whole = path.read_bytes()
    path.write_bytes(whole + b"e1,net,1,fp32,infer")
    assert table.read(path, Sample) == samples(2)
    table.append(path, Sample, samples(1, model="other"))
    assert [row.model for row in table.read(path, Sample)] == ["net", "net", "other"]


RUN_HEADER = ",".join(TABLES[Run].columns)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("model,wat\n", "line 1: unknown column 'wat'; correct the header, or update this checkout if a newer"),
        ("environment_id,model\n", "line 1: the column 'batch' is missing; correct the header"),
        ("model,model\n", "line 1: duplicate column 'model' in the header"),
        (
            "{head}\ne1,net,one,fp32,inference,eager,ok,,now,,,,,0,,\n",
            "line 2, column batch: the cell is 'one', not a whole number of at least 1",
        ),
        ("{head}\ne1,net,,fp32,inference,eager,ok,,now,,,,,0,,\n", "line 2, column batch: the cell is empty"),
        (
            "{head}\ne1,net,0,fp32,inference,eager,ok,,now,,,,,0,,\n",
            "the cell is '0', not a whole number of at least 1",
        ),
        (
            "{head}\ne1,net,1,fp32,inference,eager,ok,,now,,,,,-1,,\n",
            "the cell is '-1', not a whole number of at least 0",
        ),
        ("{head}\ne1,net,1\n", "line 2: 3 cells where the header has 16"),
        (
            "{head}\ne1,net,1,fp32,inference,eager,ok,,now,,,,,0,,\ne1,net,x,fp32,inference,eager,ok,,now,,,,,0,,\n",
            "line 3, column",
        ),
    ],
)
def test_a_damaged_table_is_named_with_line_and_column(tmp_path, text, complaint):
    path = tmp_path / "runs.csv"
    path.write_text(text.replace("{head}", RUN_HEADER))
    with pytest.raises(UserError) as caught:
        table.read(path, Run)
    assert str(caught.value).startswith(str(path))
    assert complaint in str(caught.value)


def test_a_table_that_is_no_text_is_named(tmp_path):
    path = tmp_path / "runs.csv"
    path.write_bytes(b"\xff\xfe\x00\n")
    with pytest.raises(UserError, match="is not UTF-8 text"):
        table.read(path, Run)


def test_a_table_with_its_columns_in_another_order_takes_new_rows(tmp_path):
    path = tmp_path / "runs.csv"
    table.append(path, Run, [run()])
    rows = [line.split(",") for line in path.read_text().splitlines()]
    path.write_text("".join(",".join(reversed(cells)) + "\n" for cells in rows))
    table.append(path, Run, [run(model="other")])
    assert table.read(path, Run) == [run(), run(model="other")]
    assert path.read_text().startswith(RUN_HEADER)


def test_a_torn_last_line_is_set_aside_beside_the_table(tmp_path):
    path = tmp_path / "samples.csv"
    assert table.set_torn_line_aside(path) is None
    table.append(path, Sample, samples(2))
    whole = path.read_bytes()
    assert table.set_torn_line_aside(path) is None
    with path.open("ab") as file:
        file.write(b"e1,net,1,fp3")
    assert table.set_torn_line_aside(path) == tmp_path / "samples.csv.torn"
    assert path.read_bytes() == whole
    assert (tmp_path / "samples.csv.torn").read_bytes() == b"e1,net,1,fp3\n"


@pytest.mark.parametrize("change", [table.write, table.append])
@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "the disk is full"), (errno.EIO, "Input/output error")])
def test_a_disk_that_takes_no_more_leaves_the_table_intact(tmp_path, monkeypatch, change, number, words):
    path = tmp_path / "samples.csv"
    table.write(path, Sample, samples(2))
    whole = path.read_bytes()

    def refuse(_descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UserError, match=words):
        change(path, Sample, samples(3, model="other"))
    assert path.read_bytes() == whole
    assert sorted(file.name for file in tmp_path.iterdir()) == ["samples.csv"]


@pytest.mark.parametrize("number", ["nan", "inf", "-0.5", "0"])
def test_a_latency_is_a_number_above_0(tmp_path, number):
    path = tmp_path / "samples.csv"
    table.append(path, Sample, samples(1))
    path.write_text(path.read_text().replace(",0.1,", f",{number},"))
    with pytest.raises(
        UserError, match=f"column latency_s: the cell is '{number}', not a number from 1e-12 to 86400 s"
    ):
        table.read(path, Sample)


def test_a_temperature_may_be_below_0(tmp_path):
    path = tmp_path / "samples.csv"
    cold = [dataclasses.replace(row, temperature_c=-3.5) for row in samples(1)]
    table.append(path, Sample, cold)
    assert table.read(path, Sample) == cold


def test_the_first_row_of_each_key_is_read_and_the_others_are_not_looked_at(tmp_path):
    path = tmp_path / "samples.csv"
    table.append(path, Sample, [*samples(2), *samples(2, "other"), *samples(1)])
    lines = path.read_text().splitlines()
    lines[2] = lines[2].replace(",1.1,", ",torn,")
    path.write_text("\n".join(lines) + "\n")
    assert table.numbered(path, Sample, ["model", "round"]) == [(2, samples(1)[0]), (4, samples(1, "other")[0])]


def test_a_folder_in_the_place_of_a_table_is_named(tmp_path):
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory\); restore the file or move it away"):
        table.read(tmp_path, Sample)


@pytest.mark.parametrize("change", [table.write, table.append])
@pytest.mark.parametrize(
    ("column", "value", "complaint"),
    [
        ("time_s", math.nan, ", column time_s: the cell is 'nan', not a number from 0 to 86400 s"),
        ("time_s", math.inf, ", column time_s: the cell is 'inf', not a number from 0 to 86400 s"),
        ("time_s", -1.0, ", column time_s: the cell is '-1.0', not a number from 0 to 86400 s"),
        ("calls", 0, ", column calls: the cell is '0', not a whole number of at least 1"),
        ("calls", 1.5, ", column calls: the cell is '1.5', not a whole number of at least 1"),
        ("phase", "sleep", ", column phase: the cell is 'sleep', not one of inference, step"),
        ("kernel", "", ", column kernel: the cell is empty"),
        ("kernel", "k" * 200_000, ": field larger than field limit (131072)"),
    ],
)
def test_nothing_is_written_that_would_not_be_read(tmp_path, change, column, value, complaint):
    path = tmp_path / "kernels.csv"
    table.append(path, KernelTime, [kernel_time()])
    whole = path.read_bytes()
    with pytest.raises(table.UnreadableError) as caught:
        change(path, KernelTime, [kernel_time("other"), dataclasses.replace(kernel_time(), **{column: value})])
    assert str(caught.value).startswith(f"{path}{complaint}")
    assert str(caught.value).endswith("; nothing was written; correct its source")
    assert path.read_bytes() == whole
    assert [file.name for file in tmp_path.iterdir()] == ["kernels.csv"]


def test_a_torn_line_is_no_row_and_can_be_refused(tmp_path):
    path = tmp_path / "samples.csv"
    table.append(path, Sample, samples(2))
    assert len(table.numbered(path, Sample, whole=True)) == 2
    path.write_bytes(path.read_bytes()[:-1])
    assert table.read(path, Sample) == samples(1)  # a writer was killed
    with pytest.raises(UserError, match=r"samples\.csv, line 3: incomplete row; restore the file or delete the line$"):
        table.numbered(path, Sample, whole=True)


def test_half_a_character_becomes_a_question_mark(tmp_path):
    path = tmp_path / "kernels.csv"
    table.write(path, KernelTime, [kernel_time(kernel="half of \ud83d")])  # a lone surrogate
    assert table.read(path, KernelTime) == [kernel_time(kernel="half of ?")]


@pytest.mark.parametrize("use", [table.read, lambda path, record: table.append(path, record, samples(1))])
@pytest.mark.parametrize("damage", [lambda whole: whole.replace(b"\n", b"\r"), lambda whole: whole[:20], lambda _: b""])
def test_a_file_without_a_complete_line_is_no_empty_table(tmp_path, use, damage):
    path = tmp_path / "samples.csv"
    table.append(path, Sample, samples(2))
    path.write_bytes(damage(path.read_bytes()))
    damaged = path.read_bytes()
    with pytest.raises(UserError, match=r"samples\.csv: has no complete line, ended by a line feed; restore the file"):
        use(path, Sample)
    with pytest.raises(UserError, match="has no complete line"):
        table.set_torn_line_aside(path)
    assert path.read_bytes() == damaged


def test_a_torn_line_that_cannot_be_set_aside_stays(tmp_path):
    path = tmp_path / "samples.csv"
    table.append(path, Sample, samples(2))
    torn = path.read_bytes() + b"e1,n"
    path.write_bytes(torn)
    (tmp_path / "samples.csv.torn").mkdir()
    with pytest.raises(UserError, match=r"samples\.csv\.torn: could not be written \(Is a directory\)"):
        table.set_torn_line_aside(path)
    assert path.read_bytes() == torn


@pytest.fixture
def parts(tmp_path):
    return ChildTable(tmp_path / "samples.csv", Sample, ROUND)


def test_the_parts_of_the_rows_that_are_asked_for(parts):
    parts.put([(run("a"), samples(2, "a")), (run("b"), samples(1, "b"))])
    assert parts.of([run("b")]) == samples(1, "b")
    assert parts.of([run("a"), run("b")]) == samples(2, "a") + samples(1, "b")
    assert parts.of([]) == []


def test_new_parts_stand_where_the_old_ones_stood(parts):
    parts.put([(run("a"), samples(2, "a")), (run("b"), samples(1, "b"))])
    parts.put([(run("c"), samples(1, "c")), (run("a"), samples(1, "a"))])
    assert [row.model for row in parts.of([run("a"), run("b"), run("c")])] == ["a", "b", "c"]


def test_parts_come_back_after_there_were_none(parts):
    for own in (samples(2), [], samples(3)):
        parts.put([(run(), own)])
        assert parts.of([run()]) == own


def test_what_stands_in_two_places_is_replaced_in_both(parts):
    parts.put([(run("a"), samples(2, "a")), (run("b"), samples(1, "b"))])
    append(parts.path, Sample, samples(2, "a"))  # as two folders that were joined by hand
    parts.put([(run("a"), samples(1, "a"))])
    assert parts.of([run("a"), run("b")]) == samples(1, "a") + samples(1, "b")
