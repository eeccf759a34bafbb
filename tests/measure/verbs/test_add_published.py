import shutil

import pytest
from helpers.locks import watch_writes
from helpers.places import TESTS

from measure import __main__ as command
from measure.cache import table
from measure.cache.hand_kept import PublishedBandwidth, PublishedTiming
from measure.cache.schema import TABLES, file_of

HEADER = ",".join(TABLES[PublishedTiming].columns)
BEAD = "src,a.csv,Bead 2,inference,resnet50,8,224,fp32,,contiguous,,2.4,12.4,0.02,,,40,400,no,yes,mean"


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    shutil.copy(TESTS / "data" / "chips.csv", tmp_path / "data" / "chips.csv")
    return tmp_path / "data"


@pytest.fixture
def add(data, tmp_path):
    def called(*lines, flags=(), header=HEADER):
        file = tmp_path / "table.csv"
        file.write_text("\n".join((header, *lines)) + "\n")
        return command.main(["add-published", str(file), *flags, "--data", str(data)])

    return called


def known(data, record=PublishedTiming):
    return table.read(file_of(record, data), record)


def test_a_table_is_added_and_what_comes_next_is_told(add, data, capsys):
    assert add(BEAD, BEAD.replace("resnet50,8", "resnet50,16").replace("0.02,", "0.04,")) == 0
    output = capsys.readouterr().out
    assert "Added 2 of 2 rows to" in output
    assert "Check that bib/references.bib has an entry for src." in output
    assert output.endswith(f"Next: python -m measure count-published --data {data}\n")
    first, second = known(data)
    assert (first.device, first.batch, first.latency_s, first.compiler) == ("Bead 2", 8, 0.02, None)
    assert add(BEAD) == 0
    assert "Added 0 of 1 rows" in capsys.readouterr().out
    assert known(data) == [first, second]


def test_the_table_is_locked_while_it_is_written(add, monkeypatch):
    written = watch_writes(monkeypatch)
    assert add(BEAD) == 0
    assert written == {"models.csv": True}


def test_the_header_says_which_table_it_is(add, data, capsys):
    header = ",".join(TABLES[PublishedBandwidth].columns)
    line = "src,a.txt,Bead-2-40GB,gpu-cache,read,2048,,1e12,0.3"  # an alias of Bead 2
    assert add(line, header=header) == 0
    assert [row.byte_per_s for row in known(data, PublishedBandwidth)] == [1e12]
    assert add(line, header="source,device,speed") == 2
    assert "table.csv, line 1: unknown column 'speed'; correct the header" in capsys.readouterr().err


def test_a_duplicate_column_is_named(add, capsys):
    columns = [*TABLES[PublishedBandwidth].columns, "device"]
    assert add("src,a.txt,Bead 2,gpu-cache,read,2048,,1e12,0.3,Bead 2", header=",".join(columns)) == 2
    assert "line 1: duplicate column 'device'" in capsys.readouterr().err


def test_a_row_that_repeats_another_is_added_once_and_another_rate_of_its_set_too(add, data, capsys):
    header = ",".join(TABLES[PublishedBandwidth].columns)
    line = "src,a.txt,Bead 2,gpu-cache,read,2048,,1e12,0.3"
    assert add(line, line, line.replace("1e12", "2e12"), header=header) == 0
    assert [row.byte_per_s for row in known(data, PublishedBandwidth)] == [1e12, 2e12]
    assert "Added 2 of 3 rows" in capsys.readouterr().out


def test_a_device_is_known_whatever_its_case_and_spelled_as_its_chip(add, data, capsys):
    assert add(BEAD.replace("Bead 2", "BEAD 2")) == add(BEAD.replace("Bead 2", "bead-2-40gb")) == 0
    assert [row.device for row in known(data)] == ["Bead 2", "Bead-2-40GB"]
    capsys.readouterr()
    assert add(BEAD) == 0
    assert "Added 0 of 1 rows" in capsys.readouterr().out


def test_a_row_that_says_something_else_is_taken_by_replace_alone(add, data, capsys):
    assert add(BEAD) == 0
    other = BEAD.replace("0.02,", "0.03,")
    assert add(other) == 2
    assert (
        "line 2: published/measurements/models.csv has other values for the same source, file, device"
        in capsys.readouterr().err
    )
    assert [row.latency_s for row in known(data)] == [0.02]
    assert add(other, flags=["--replace"]) == 0
    assert [row.latency_s for row in known(data)] == [0.03]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ([BEAD.replace("Bead 2", "Bead 9")], "line 2, column device: 'Bead 9' is neither a chip of"),
        ([BEAD, BEAD], "line 3: has the key of line 2; delete one of the two"),
        ([BEAD.replace("0.02", "fast")], "line 2, column latency_s: the cell is 'fast', not a number from 1e-07"),
        ([BEAD.replace("contiguous", "rows")], "line 2, column layout: the cell is 'rows', not one of contiguous, "),
        ([BEAD + ",1"], "line 2: 22 cells where the header has 21"),
    ],
)  # fmt: skip
def test_a_wrong_row_adds_nothing(add, data, capsys, lines, complaint):
    assert add(*lines) == 2
    assert complaint in capsys.readouterr().err
    assert known(data) == []


def test_a_row_that_contradicts_itself_is_kept_and_told(add, data, capsys):
    # 400 inputs a second in 0.02 s are 8, not 7
    assert add(BEAD.replace("resnet50,8", "resnet50,7")) == 0
    output = capsys.readouterr().out
    assert "1 rows contradict themselves, rate × time is not the batch: line 2 (resnet50 at 7: 400 × 0.02 s)" in output
    assert len(known(data)) == 1


def test_a_file_that_is_not_there(data, capsys):
    assert command.main(["add-published", str(data / "no.csv"), "--data", str(data)]) == 2
    assert "cannot be read (No such file or directory); name a table as CSV" in capsys.readouterr().err
