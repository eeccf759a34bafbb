import shutil
from pathlib import Path

import pytest
from helpers.watching import watch_writes
from helpers.world import WORLD

from measure import __main__ as command
from measure.cache import table
from measure.domain.schema import TABLES, file_of
from measure.published.records import PublishedBandwidth, PublishedTiming

BEAD = "src,a.csv,Bead 2,inference,resnet50,8,224,fp32,,contiguous,,2.4,12.4,0.02,,,40,400,no,yes,mean"
RATE = "src,a.txt,example gpu,gpu-cache,read,2048,,1e12,0.3"  # by an alias of Bead 2
CACHE = Path("cache")


@pytest.fixture(autouse=True)
def chips(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    CACHE.mkdir()
    shutil.copy(WORLD / "chips.csv", CACHE)


def add(*lines, flags=(), record=PublishedTiming):
    Path("table.csv").write_text("\n".join((",".join(TABLES[record].columns), *lines)) + "\n")
    return command.main(["add-published", "table.csv", *flags, "--data", "cache"])


def stored(record=PublishedTiming):
    return table.read(file_of(record, CACHE), record)


def test_a_table_is_added_and_the_next_steps_are_printed(golden, capsys, monkeypatch):
    written = watch_writes(monkeypatch)
    assert add(BEAD, BEAD.replace("resnet50,8", "resnet50,16").replace("0.02,", "0.04,")) == 0
    assert written == {"models.csv": True}  # while locked
    first, second = stored()
    assert (first.device, first.batch, first.latency_s, first.compiler) == ("Bead 2", 8, 0.02, None)
    assert add(BEAD) == 0  # again
    assert stored() == [first, second]
    # 400 inputs a second in 0.02 s are 8, not 7
    assert add(BEAD.replace("resnet50,8", "resnet50,7")) == 0
    golden("add-published", capsys.readouterr().out)


def test_the_header_names_the_table_and_repeated_rows_add_once():
    assert add(RATE, RATE, RATE.replace("1e12", "2e12"), record=PublishedBandwidth) == 0
    assert [row.byte_per_s for row in stored(PublishedBandwidth)] == [1e12, 2e12]  # another rate of its set, too


def test_a_device_in_any_case_is_found_and_replaced_on_request(capsys):
    assert add(BEAD.replace("Bead 2", "BEAD 2")) == add(BEAD.replace("Bead 2", "EXAMPLE GPU")) == 0
    other = BEAD.replace("0.02,", "0.03,")
    assert add(other) == 2
    assert "line 2: published/measurements/models.csv has other values" in capsys.readouterr().err
    assert [(row.device, row.latency_s) for row in stored()] == [("Bead 2", 0.02), ("Example GPU", 0.02)]
    assert add(other, flags=["--replace"]) == 0
    assert {(row.device, row.latency_s) for row in stored()} == {("Bead 2", 0.03), ("Example GPU", 0.02)}
