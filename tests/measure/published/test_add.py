import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.places import ROOT
from helpers.watching import watch_writes
from helpers.world import WORLD

from measure import __main__ as command
from measure.cache import table
from measure.domain.schema import TABLES, file_of
from measure.published.add import Limits
from measure.published.records import Chip, PublishedBandwidth, PublishedProduct, PublishedTiming

BEAD = "src,a.csv,Bead 2,inference,resnet50,8,224,fp32,,contiguous,,2.4,12.4,0.02,,,40,400,no,yes,mean,"
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


REFERENCE = ROOT / "data"  # it counts 8.178e9 FLOP and 4.278e8 B for an image
TIMING = PublishedTiming(
    "src", "a.csv", "NVIDIA T4", "inference", "resnet50", 64, 224, "fp32", None, None, None, None, None, 0.5, None,
    None, None, None, "no", None, "mean",
)  # fmt: skip
STREAM = PublishedBandwidth("src", "a.csv", "NVIDIA T4", "stream", "copy", None, None, 3e11, None)
PRODUCT = PublishedProduct("src", "NVIDIA T4", "fp32", 1024, 1024, 1024, 8e12, None, "")


@pytest.fixture(scope="module")
def limits():
    return Limits(REFERENCE, table.read(file_of(Chip, REFERENCE), Chip))


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (TIMING, ""),
        # 64 images at 8.1 TFLOP/s take 64.6 ms; at 1.5 times that rate 43 ms
        (replace(TIMING, latency_s=0.045), ""),
        (replace(TIMING, latency_s=0.040), "13.1 TFLOP/s is more than the 8.10 TFLOP/s of NVIDIA T4 at fp32"),
        (replace(TIMING, latency_s=0.040, autocast="fp16"), ""),  # of 65 TFLOP/s
        # bf16 is held against the rate of 16 bits too: 523 GFLOP in 1 ms are 523 TFLOP/s
        (replace(TIMING, precision="bf16", latency_s=0.001), "523 TFLOP/s is more than the 65.0 TFLOP/s"),
        (replace(TIMING, autocast="bf16", latency_s=0.040), ""),
        # 64 x 4.278e8 B at 320 GB/s take 85.6 ms: a hundred times that and 174 ms for 174 operators are 8.73 s
        (replace(TIMING, latency_s=8.7), ""),
        (replace(TIMING, latency_s=8.8), "8.80 s is more than the 8.73 s that is plausible"),
        (replace(TIMING, latency_s=100), "name the column by its unit, such as latency_ms"),  # 100 ms
        (replace(TIMING, model="unknown", latency_s=100), ""),  # nothing is counted
        (replace(TIMING, model="unknown", latency_s=100, throughput_per_s=640), "1e+03 times the batch of 64"),
        # An image at 8.1 TFLOP/s takes at least 1.0 ms; 2 ms are too short for 64 of them
        (replace(TIMING, latency_s=0.002), "if this is the time of one input, give the time of the batch"),
        (replace(TIMING, model="unknown", latency_s=0.002, throughput_per_s=500), "is one input, not the batch of 64"),
        (replace(TIMING, batch=1, latency_s=0.002, throughput_per_s=500), ""),
        (STREAM, ""),
        (replace(STREAM, byte_per_s=1e12), "1.00 TB/s is more than the 320 GB/s of NVIDIA T4's memory"),
        (replace(STREAM, byte_per_s=1e12, working_set_byte=2048), ""),  # out of a cache
        (PRODUCT, ""),
        (replace(PRODUCT, flop_per_s=3e13), "30.0 TFLOP/s is more than the 8.10 TFLOP/s of NVIDIA T4 at fp32"),
        (replace(PRODUCT, precision="fp8", flop_per_s=3e13), ""),  # no rate in the datasheet
    ],
)
def test_the_roof_of_the_chip_bounds_what_is_published(limits, row, words):
    column, problem = limits.problem(row)
    assert words in problem
    assert bool(problem) == bool(words)
    assert not words or getattr(row, column)


def test_everything_that_is_published_already_is_plausible(limits):
    for record in (PublishedTiming, PublishedBandwidth, PublishedProduct):
        wrong = [limits.problem(row) for row in table.read(file_of(record, REFERENCE), record)]
        assert [problem for _, problem in wrong if problem] == []
