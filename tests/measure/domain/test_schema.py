from typing import Annotated

import pytest

from measure.cache.table import read, write
from measure.domain.records import Environment, Run
from measure.domain.schema import DAY_S, MOST, TABLES, Column, duration, file_of, one_of, several, some_of, table, unit
from measure.domain.workload_records import Workload
from measure.errors import UserError
from measure.published import records as published_records


def test_every_column_has_a_meaning_and_every_number_a_unit():
    for facts in TABLES.values():
        assert set(facts.key) <= set(facts.columns)
        for column in facts.columns.values():
            assert column.meaning.rstrip(".|") == column.meaning != ""
            assert column.least < column.most
            assert bool(column.unit) == (column.type is not str)
    assert len({facts.path for facts in TABLES.values()}) == len(TABLES)
    by_hand = {record for record, facts in TABLES.items() if facts.by_hand}
    published = {record for record in TABLES if record.__module__.startswith("measure.published.")}
    assert by_hand == published - {published_records.PublishedCount, published_records.PublishedKind}


def test_a_name_ends_with_its_unit():
    units = {
        "latency_low_s": "s", "forward_flop": "FLOP", "byte": "B", "sparse_peak_flop_per_s": "FLOP/s", "calls": "",
        "flop_per_s": "FLOP/s", "flop_per_cycle": "FLOP/cycle", "time_s_as_printed": "s", "sample_count": "1",
    }  # fmt: skip
    assert {name: unit(name) for name in units} == units


def test_a_form_takes_what_fits_whole_and_none_takes_markup():
    for record, column, fitting, others in (
        (Run, "status", ["ok", "oom"], ["fine", "OK", "ok ", "ok;oom", "ok\n"]),
        (Run, "flags", ["wide", "wide;drifting"], ["wide,drifting", ";", "wide;", "tall", "wide;wide"]),
        (Run, "variant", ["eager", "channels_last+compile+adam"], ["fast", "eager+", "cold+cold", "eager+cold"]),
        (Environment, "caches", ["1:65536:2;3:33554432:1"], ["1:2", "one:2:3", "1;2"]),
        (Environment, "tuning", ["OMP_PROC_BIND=close", "MMAP_MAX_=0;LD_PRELOAD=a.so,b.so"], ["fast", "A=", "A=1;"]),
        (Workload, "uncounted", ["sort:2:0.1", "a:b:1:2e-05;sort:2:1"], ["sort", "sort:2", ";"]),
    ):
        fits = TABLES[record].columns[column].form.fits
        assert [text for text in (*fitting, *others) if fits(text)] == fitting
    columns = (each for facts in TABLES.values() for each in facts.columns.values())
    assert not any(each.form.fits("<script>") for each in columns if each.form)


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
    monkeypatch.setitem(TABLES, Sort, SORTS)
    return tmp_path / "sorts.csv"


@pytest.mark.parametrize(
    ("cells", "complaint"),
    [
        ("a,11,,", "column length_s: the cell is '11', not a number from 0.001 to 10 s"),
        *((f'a,"{text}",,', "column length_s: the cell is") for text in ("٣", "１.5", "1_0", "1_000", "0x10", "1,5")),
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


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (Column("", "1", type=int), "a whole number of at least 0"),
        (Column("", "s", type=float), "a number of at least 0 s"),
        (Column("", "W", least=0.5, most=10, type=float), "a number from 0.5 to 10 W"),
        (Column("", "°C", least=-40, type=int), "a whole number of at least -40 °C"),
        (Column("", form=one_of(("red", "blue"))), "one of red, blue"),
    ],
)
def test_an_error_names_the_form_that_a_cell_should_have(column, wanted):
    with pytest.raises(ValueError, match=f"^is 'no', not {wanted}$"):
        column.value("no")


def test_the_ends_of_a_range_are_in_it():
    column = Column("", "1", least=2, most=4, type=int)
    assert [column.value(text) for text in ("2", "3", "4")] == [2, 3, 4]
    for text in ("1", "5", "nan", "3.0", "1e0"):
        with pytest.raises(ValueError, match="from 2 to 4"):
            column.value(text)
    assert Column("", "1", type=int).value(str(MOST)) == MOST
    time = duration("how long it takes")
    assert (time.meaning, time.least > 0, time.most) == ("how long it takes", True, DAY_S)


def test_an_empty_cell_needs_an_optional_column():
    assert Column("", optional=True).value("") is None
    assert Column("", optional=True, empty="none").value("") == "none"
    with pytest.raises(ValueError, match=r"^is empty$"):
        Column("").value("")


def test_a_form_describes_what_fits():
    colour = one_of(name for name in ("red", "blue"))
    assert (colour.words, colour.description) == (("red", "blue"), "one of red, blue")
    assert [bool(colour.fits(text)) for text in ("red", "green", "")] == [True, False, False]
    mixed = some_of(("red", "blue"), "+", alone=("none",))
    texts = ("red", "blue+red", "none", "none+red", "red+red", "red+green", "red;blue")
    assert [text for text in texts if mixed.fits(text)] == ["red", "blue+red", "none"]
    assert mixed.description == "one of none, red, blue, or several joined by '+'"
    words = several("[a-z]+", "words")
    assert [text for text in ("a", "a;b", "a;", "A", "a;b;c") if words.fits(text)] == ["a", "a;b", "a;b;c"]
    assert words.description == "words joined by ';'"


def test_a_record_declares_its_table(monkeypatch, tmp_path):
    monkeypatch.setattr("measure.domain.schema.TABLES", tables := {})

    @table("folder/nails.csv", key=["name", "batch_count"], by_hand=True)
    class Nail:
        """A row of a table."""

        name: Annotated[str, "its name"]
        batch_count: Annotated[int, Column("how many", least=1)]
        grade: Annotated[float | None, Column("its grade", unit="1")] = None
        note: Annotated[str, Column("free", empty="")] = ""

    (facts,) = tables.values()
    assert (facts.path, facts.name, facts.key, facts.by_hand) == (
        "folder/nails.csv", "nails.csv", ("name", "batch_count"), True,
    )  # fmt: skip
    assert facts.columns == {
        "name": Column("its name"),
        "batch_count": Column("how many", "1", least=1, type=int),
        "grade": Column("its grade", "1", type=float, optional=True),
        "note": Column("free", empty="", optional=True),
    }
    assert file_of(Nail, tmp_path) == tmp_path / "folder/nails.csv"
    assert Nail("a", 1) == Nail("a", 1, None, "")

    @table("folder/screws.csv", key="a")
    class Screw:
        """A row of another table."""

        a: Annotated[str, "its name"]

    assert (tables[Screw].key, tables[Screw].by_hand) == (("a",), False)
