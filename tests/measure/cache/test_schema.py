from typing import Annotated

import pytest

from measure.cache import hand_kept
from measure.cache.records import Environment, Run
from measure.cache.schema import TABLES, Column, several, some_of, table, unit
from measure.cache.table import UnreadableError, read, write
from measure.cache.workload_records import Workload
from measure.errors import UserError
from report.paper import printed

COLUMNS = [(record, name) for record, facts in TABLES.items() for name in facts.columns]
FORMS = [(record, name) for record, name in COLUMNS if TABLES[record].columns[name].form]


def ids(pairs):
    return [f"{record.__name__}-{name}" for record, name in pairs]


@pytest.mark.parametrize(("record", "name"), COLUMNS, ids=ids(COLUMNS))
def test_every_column_has_a_meaning_and_every_number_a_unit_or_is_said_to_have_none(record, name):
    column = TABLES[record].columns[name]
    assert column.meaning
    assert "|" not in column.meaning + column.unit
    assert not column.meaning.endswith(".")
    assert column.least < column.most
    if column.type is str:
        assert not column.unit
    else:
        assert column.unit
        assert column.form is None


def test_keys_are_columns_and_each_file_has_one_table():
    assert all(set(facts.key) <= set(facts.columns) for facts in TABLES.values())
    assert len({facts.path for facts in TABLES.values()}) == len(TABLES)
    by_hand = {record for record, facts in TABLES.items() if facts.by_hand}
    counted = {printed.ProgramCount, printed.CaseCount}
    papers = {record for record in TABLES if record.__module__ == printed.__name__} - counted
    assert by_hand == papers | {record for record in TABLES if record.__module__ == hand_kept.__name__}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("latency_low_s", "s"), ("forward_flop", "FLOP"), ("byte", "B"), ("sparse_peak_flop_per_s", "FLOP/s"),
        ("flop_per_s", "FLOP/s"), ("flop_per_cycle", "FLOP/cycle"), ("time_s_as_printed", "s"), ("sample_count", "1"),
        ("batch", ""), ("calls", ""),
    ],
)  # fmt: skip
def test_a_name_ends_with_its_unit(name, expected):
    assert unit(name) == expected


@pytest.mark.parametrize(
    ("record", "column", "fitting", "others"),
    [
        (Run, "status", ["ok", "oom"], ["fine", "OK", "ok ", "ok;oom", "ok\n"]),
        (Run, "flags", ["wide", "wide;drifting"], ["wide,drifting", ";", "wide;", "tall", "wide;wide"]),
        (Run, "variant", ["eager", "channels_last+compile", "compile+adam"], ["fast", "eager+", "+eager"]),
        (Run, "variant", ["cold", "adam"], ["cold+cold", "eager+eager", "eager+cold", "cold+eager"]),
        (Environment, "device", ["cpu", "cuda"], ["tpu", "cuda:0"]),
        (Environment, "caches", ["1:65536:2;3:33554432:1"], ["1:2", "one:2:3", "1;2"]),
        (
            Environment,
            "tuning",
            ["OMP_PROC_BIND=close", "MALLOC_MMAP_MAX_=0;LD_PRELOAD=a.so,b.so"],
            ["fast", "A=", "A=1;"],
        ),
        (Workload, "uncounted", ["sort:2:0.1", "a:b:1:2e-05;sort:2:1"], ["sort", "sort:2", ";"]),
    ],
)
def test_a_form_takes_what_fits_whole(record, column, fitting, others):
    form = TABLES[record].columns[column].form
    assert all(map(form.fits, fitting))
    assert not any(map(form.fits, others))


WORDS = (
    "ok", "cpu", "fp32", "inference", "convolution", "eager", "matmul", "burst", "MKL_CBWR=AUTO", "wide", "1:1:1",
    "a:1:1", "vector", "yes", "1;4-7", "avx2", "latency", "backward/forward", "madvise", "3x224x224",
    "fp16", "contiguous", "TensorRT", "mean", "device", "terms", "all",
)  # fmt: skip
"""One at least fits each form."""


@pytest.mark.parametrize(("record", "column"), FORMS, ids=ids(FORMS))
def test_another_word_is_named_with_file_and_line(tmp_path, record, column):
    columns = TABLES[record].columns
    cells = {}
    for name, each in columns.items():
        free = "x" if each.type is str else f"{max(each.least, 1):.0f}"
        cells[name] = next(filter(each.form.fits, WORDS)) if each.form else free
    path = tmp_path / "table.csv"

    def put(text):
        path.write_text(",".join(cells) + "\n" + ",".join((cells | {column: text}).values()) + "\n")

    put(cells[column])
    assert len(read(path, record)) == 1
    put("<script>alert(1)</script>" * 9)
    with pytest.raises(UserError) as caught:
        read(path, record)
    told = str(caught.value)
    assert told.startswith(f"{path}, line 2, column {column}: the cell is '<script>")
    assert len(told) < 400 + len(str(path))
    assert told.endswith("; correct the line or delete it")


@table("sorts.csv", key=["name"])
class Sort:
    """A row of a table."""

    name: Annotated[str, "its name"]
    length_s: Annotated[float, Column("how long it is", least=1e-3, most=10)]
    colours: Annotated[str | None, Column("its colours", form=some_of(("red", "blue"), "+"))] = None
    note: Annotated[str, Column("free", form=several("[a-z]+", "words"), empty="")] = ""


SORTS = TABLES.pop(Sort)  # no other test knows it


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Where sorts lie."""
    monkeypatch.setitem(TABLES, Sort, SORTS)
    return tmp_path / "sorts.csv"


@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        ("a,11,,", "column length_s: the cell is '11', not a number from 0.001 to 10 s"),
        *((f'a,"{text}",,', "column length_s: the cell is") for text in ("٣", "１.5", "1_000", "0x10", "1,5")),
        (",2,,", "column name: the cell is empty"),
        ("a,2,red+red,", "column colours: the cell is 'red+red', not one of red, blue, or several"),
        ("a,2,,A B", "column note: the cell is 'A B', not words"),
    ],
)
def test_a_cell_has_to_fit_its_column(path, cells, complaint):
    path.write_text(f"name,length_s,colours,note\nb,1.5,,\n{cells}\n", "utf-8")
    with pytest.raises(UserError) as caught:
        read(path, Sort)
    assert str(caught.value).startswith(f"{path}, line 3, {complaint}")


def test_an_empty_cell_is_unknown_or_what_its_column_says(path):
    write(path, Sort, [Sort("a", 1.5), Sort("b", 2.0, "red+blue", "one;two")])
    assert path.read_text() == "name,length_s,colours,note\na,1.5,,\nb,2.0,red+blue,one;two\n"
    assert read(path, Sort) == [Sort("a", 1.5, None, ""), Sort("b", 2.0, "red+blue", "one;two")]
    with pytest.raises(UnreadableError, match="the cell is"):
        write(path, Sort, [Sort("a", 11.0)])
