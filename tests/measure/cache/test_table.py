import errno
import math
import os
from dataclasses import replace
from unittest.mock import Mock

import pytest
from helpers.rows import kernel_time, run, samples
from hypothesis import given, settings
from hypothesis import strategies as st

from measure.cache import table
from measure.cache.table import ChildTable, append
from measure.domain.records import ROUND, Environment, KernelTime, Run, Sample
from measure.domain.schema import TABLES
from measure.errors import UserError
from measure.published.records import Chip

RUN_HEADER = ",".join(TABLES[Run].columns)
RUN = "e1,net,1,fp32,inference,eager,ok,,now,,,,,0,,"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "samples.csv"


WORDS = ["ok", "cpu", "inference", "eager", "wide", "A=1", "madvise", "1:1:1", "3x224x224", "fp32", "avx2", "linear"]
"""One at least fits each form of the tables below."""


def values(column):
    """Any value of a column that its facts allow."""
    if column.type is str:
        of_type = st.text(min_size=1, max_size=20)
        if column.form is not None:
            of_type = st.sampled_from(list(filter(column.form.fits, WORDS)))
    elif column.type is int:
        of_type = st.integers(math.ceil(column.least), int(column.most))
    else:
        of_type = st.floats(column.least, column.most)
    return st.one_of(st.none(), of_type) if column.optional and column.empty is None else of_type


@pytest.mark.parametrize("record", [Environment, Run, Sample, KernelTime], ids=lambda record: record.__name__)
def test_whatever_a_table_holds_is_read_back(path, monkeypatch, record):
    monkeypatch.setattr(os, "fsync", lambda _: None)
    columns = {name: values(column) for name, column in TABLES[record].columns.items()}

    @settings(max_examples=10)
    @given(st.lists(st.builds(record, **columns), max_size=3))
    def check(rows):
        table.write(path, record, rows)
        table.append(path, record, rows[:1])
        assert table.read(path, record) == rows + rows[:1]

    check()


PIECES = [b"\n", b"\r", b",", b'"', b"\xff", b"\0", b"nan", b"-1", b"1e400", b"net", RUN_HEADER.encode() + b"\n"]


@given(
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from(PIECES) | st.binary(max_size=4)), min_size=1, max_size=4)
)
def test_a_hostile_table_is_read_or_refused_in_a_sentence(tmp_path_factory, changes):
    path = tmp_path_factory.mktemp("table") / "runs.csv"
    content = f"{RUN_HEADER}\n{RUN}\n{RUN}\n".encode()
    for place, piece in changes:
        content = content[:place] + piece + content[place + len(piece) :]
    path.write_bytes(content)
    try:
        rows = table.read(path, Run)
    except UserError as problem:
        message = str(problem)
        assert message.startswith(str(path))
        assert "; " in message
    else:
        assert all(row.batch >= 1 and row.status == "ok" for row in rows)


def test_a_table_with_columns_in_another_order_takes_new_rows(path):
    table.append(path, Run, [run()])
    rows = [line.split(",") for line in path.read_text().splitlines()]
    path.write_text("".join(",".join(reversed(cells)) + "\n" for cells in rows))
    table.append(path, Run, [run(model="other")])
    assert table.read(path, Run) == [run(), run(model="other")]
    assert path.read_text().startswith(RUN_HEADER)


def test_a_row_twice_is_sound_until_it_contradicts_itself(path):
    once = samples(2)
    table.write(path, Sample, [*once, once[0]])
    assert [line for line, _ in table.checked(path, Sample)] == [2, 3, 4]
    table.append(path, Sample, [replace(once[1], latency_s=10 * once[1].latency_s)])
    with pytest.raises(UserError, match=r"samples\.csv, line 5, column latency_s: contradicts line 3"):
        table.checked(path, Sample)


def test_a_torn_last_line_is_no_row_and_goes_with_the_next_write(path):
    assert table.set_torn_line_aside(path) is None
    table.append(path, Sample, samples(2))
    whole = path.read_bytes()
    assert table.set_torn_line_aside(path) is None
    for change in (table.append, lambda *rest: table.write(path, Sample, [*samples(2), *rest[2]])):
        path.write_bytes(whole + b"e1,net,1,fp32,infer")
        assert table.read(path, Sample) == samples(2)  # a writer was killed
        with pytest.raises(UserError, match=r"samples\.csv, line 4: incomplete row"):
            table.checked(path, Sample)
        change(path, Sample, samples(1, model="other"))
        assert [row.model for row in table.read(path, Sample)] == ["net", "net", "other"]
    path.write_bytes(whole + b"e1,net,1,fp3")
    aside = path.with_name("samples.csv.torn")
    aside.mkdir()
    with pytest.raises(UserError, match=r"samples\.csv\.torn: could not be written \(Is a directory\)"):
        table.set_torn_line_aside(path)
    aside.rmdir()
    assert table.set_torn_line_aside(path) == aside
    assert (path.read_bytes(), aside.read_bytes()) == (whole, b"e1,net,1,fp3\n")
    assert len(table.checked(path, Sample)) == 2


@pytest.mark.parametrize("change", [table.write, table.append])
@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "the disk is full"), (errno.EIO, "Input/output error")])
def test_a_disk_that_takes_no_more_leaves_the_table_intact(path, monkeypatch, change, number, words):
    table.write(path, Sample, samples(2))
    whole = path.read_bytes()
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(number, os.strerror(number))))
    with pytest.raises(UserError, match=words):
        change(path, Sample, samples(3, model="other"))
    assert path.read_bytes() == whole
    assert [file.name for file in path.parent.iterdir()] == ["samples.csv"]


def test_nothing_is_written_that_would_not_be_read(path):
    table.append(path, KernelTime, [kernel_time()])
    whole = path.read_bytes()
    for column, value, complaint in (
        ("time_s", math.nan, ", column time_s: the cell is 'nan', not a number from 0 to 86400 s"),
        ("time_s", -1.0, ", column time_s: the cell is '-1.0', not a number from 0 to 86400 s"),
        ("calls", 1.5, ", column calls: the cell is '1.5', not a whole number of at least 1"),
        ("kernel", "", ", column kernel: the cell is empty"),
        ("kernel", "k" * 200_000, ": field larger than field limit (131072)"),
    ):
        for change in (table.write, table.append):
            with pytest.raises(table.UnreadableError) as caught:
                change(path, KernelTime, [kernel_time("other"), replace(kernel_time(), **{column: value})])
            assert str(caught.value).startswith(f"{path}{complaint}")
            assert str(caught.value).endswith("; nothing was written; correct its source")
    assert path.read_bytes() == whole
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_half_a_character_becomes_a_question_mark(path):
    table.write(path, KernelTime, [kernel_time(kernel="half of \ud83d")])  # a lone surrogate
    assert table.read(path, KernelTime) == [kernel_time(kernel="half of ?")]


def test_only_the_first_row_of_each_key_is_read(path):
    table.append(path, Sample, [*samples(2), *samples(2, "other"), *samples(1)])
    path.write_text(path.read_text().replace(",1,4,1.1,", ",1,4,soon,"))
    assert [(line, row.model) for line, row in table.numbered(path, Sample, ["model"])] == [(2, "net"), (4, "other")]


@pytest.mark.parametrize("damaged", [b"environment_id,model\re1,net\r", b"environment_id", b""])
def test_a_file_without_a_complete_line_is_no_empty_table(path, damaged):
    path.write_bytes(damaged)
    for use in (lambda: table.read(path, Run), lambda: table.append(path, Run, [run()])):
        with pytest.raises(UserError, match=r"samples\.csv: has no complete line"):
            use()
    assert path.read_bytes() == damaged


def test_requested_rows_are_replaced_where_the_old_ones_were(path):
    parts = ChildTable(path, Sample, ROUND)

    def children(*parents):
        return table.rows_of(Sample, parts.columns_of([run(name) for name in parents]))

    parts.put([(run("a"), samples(2, "a")), (run("b"), samples(1, "b"))])
    assert children("b") == samples(1, "b")
    assert children() == []
    append(path, Sample, samples(2, "a"))  # as two folders that were joined by hand: both are replaced
    parts.put([(run("c"), samples(1, "c")), (run("a"), samples(1, "a"))])
    assert [row.model for row in children("a", "b", "c")] == ["a", "b", "c"]
    for own in ([], samples(3, "c")):  # they come back after there were none
        parts.put([(run("c"), own)])
        assert children("c") == own


@pytest.mark.parametrize("only", [("latency_s",), ("latency_s", "model"), ("sample", "round", "clock_hz")])
def test_some_columns_are_read_without_looking_at_others(path, only):
    append(path, Sample, samples(3))
    whole = table.columns(path, Sample)
    assert table.columns(path, Sample, only) == {name: cells for name, cells in whole.items() if name in only}
    rows = path.read_text().replace("fp32", "no precision")
    path.write_text(rows)
    assert len(table.columns(path, Sample, only)["latency_s" if "latency_s" in only else "sample"]) == 3
    with pytest.raises(UserError, match="no precision"):
        table.columns(path, Sample)


def test_rows_with_some_cells_alone(path):
    rows = [run("a", 1), run("a", 2), run("b", 1)]
    append(path, Run, rows)
    assert table.read_some(path, Run, ("model", "batch"), {("a", 2), ("b", 1), ("b", 2)}) == rows[1:]
    assert table.read_some(path.with_name("none.csv"), Run, ("model",), {("a",)}) == []


def test_a_long_table_is_refused_for_its_first_wrong_row(path):
    """The rows are parsed some at a time, and the wrong cells are as far apart as can be."""
    row = "e1,net,{},fp32,inference,eager,ok,,now,,,,,,0,,,\n"
    lines = [row.format(number % 7 + 1) for number in range(2 * table.PIECE)]  # 1 to 7: texts that come again
    header = f"{RUN_HEADER}\n"
    path.write_text(header + "".join(lines))
    rows = table.read(path, Run)
    assert [row.batch for row in rows] == [number % 7 + 1 for number in range(2 * table.PIECE)]
    lines[3] = lines[3].replace("fp32", "fp31")  # line 5: below the header, and counted from 1
    lines[table.PIECE] = row.format("none")
    lines[-1] = row.format("no")
    for change, place in (("", f"line {table.PIECE + 2}, column batch: "), ("one,two\n", f"line {len(lines) + 2}: 2")):
        path.write_text(header + "".join(lines) + change)
        with pytest.raises(UserError, match=place):
            table.read(path, Run)


def test_a_table_written_by_hand_may_lack_columns_that_came_later(tmp_path):
    header = [name for name in TABLES[Chip].columns if name not in ("cache_byte", "link", "link_byte_per_s")]
    cells = {"chip": "Bead 2", "vendor": "Bead", "chip_kind": "gpu", "year": "2021", "precision": "fp32"}
    cells |= {"unit": "vector", "peak_flop_per_s": "1e13", "bandwidth_byte_per_s": "1e12", "verified": "no"}
    cells |= {"source": "own", "memory_byte": "4e10", "price_usd": "999", "node_gpus": "4"}
    path = tmp_path / "chips.csv"
    path.write_text(f"{','.join(header)}\n{','.join(cells.get(name, '') for name in header)}\n", "utf-8")
    (row,) = table.read(path, Chip)
    # What stands behind an absent column keeps its place
    assert (row.memory_byte, row.cache_byte, row.price_usd) == (4e10, None, 999)
    assert (row.link, row.link_byte_per_s, row.node_gpus) == ("", None, 4)
    path.write_text(path.read_text("utf-8").replace("bandwidth_byte_per_s,", "", 1), "utf-8")
    with pytest.raises(UserError, match="the column 'bandwidth_byte_per_s' is missing"):
        table.read(path, Chip)
