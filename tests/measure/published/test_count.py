from pathlib import Path

import pytest
from helpers.watching import watch_writes

from measure import __main__ as command
from measure.cache import table
from measure.domain.schema import TABLES, file_of
from measure.published import count
from measure.published.records import PublishedCount, PublishedKind, PublishedTiming

CACHE = Path("cache")
COUNTED = PublishedCount("timm:gone", None, "ok", None)
KIND = PublishedKind("timm:gone", None, "inference", "convolution", 4, 8, 1, 2, 3, 4, 5)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """A cache with three models that others timed, one of them twice."""
    monkeypatch.chdir(tmp_path)
    path = file_of(PublishedTiming, CACHE)
    path.parent.mkdir(parents=True)
    line = "src,a.csv,Bead 2,inference,{},{},{},fp32,,,,,,0.02,,,,,no,,mean,"
    cells = (("squeezenet1_1", 1, 64), ("squeezenet1_1", 8, 64), ("timm:tinynet_e", 8, 106), ("timm:gone", 8, ""))
    header = ",".join(TABLES[PublishedTiming].columns)
    path.write_text("\n".join((header, *(line.format(*cell) for cell in cells))) + "\n")


def call(*words):
    return command.main(["count-published", *words, "--data", "cache"])


def rows(record):
    return table.read(file_of(record, CACHE), record)


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_each_model_is_counted_at_its_size_or_has_a_reason():
    assert call() == 0
    squeezenet, tinynet, gone = rows(PublishedCount)
    assert (squeezenet.model, tinynet.status, gone.status) == ("squeezenet1_1", "ok", "unsupported")
    assert "'gone'" in gone.reason
    assert (squeezenet.input_shape, squeezenet.parameter_count) == ("3x64x64", 1_235_496)  # as torchvision publishes
    # Its first convolution has 64 filters of 3 x 3 x 3 on an output of 31 x 31: 2 * 27 * 64 * 961 FLOP are a part
    assert squeezenet.forward_flop > 2 * 27 * 64 * 961
    kinds = [row for row in rows(PublishedKind) if row.model == "squeezenet1_1" and row.stage == "inference"]
    assert sum(row.flop for row in kinds) == squeezenet.forward_flop
    assert sum(row.byte for row in kinds) == squeezenet.traffic_byte
    # Each operator reads its parameters once, for however many inputs
    assert sum(row.further_byte for row in kinds) == squeezenet.traffic_byte - squeezenet.parameter_byte


@pytest.mark.slow
@pytest.mark.parametrize("ridge", [8, 30, 100])  # FLOP per byte
@pytest.mark.parametrize("batch", count.BATCHES)
def test_the_least_time_of_rows_is_that_of_their_operators(batch, ridge):
    _, kinds = count.count("timm:resnet18", None, lambda: None)
    model = count.model_at("timm:resnet18", None)
    (each,) = count.count_all(model, [batch], "fp32", None)
    least = [row.calls * max(row.flop / ridge, row.byte) for row in each.operators if row.stage == "inference"]
    rows = [row for row in kinds if row.stage == "inference"]
    of_rows = [max(batch * row.flop / ridge, row.byte + (batch - 1) * row.further_byte) for row in rows]
    # The sum's maximum is at most the maxima's sum. They differ only in rows whose octave holds the ridge.
    assert sum(of_rows) == pytest.approx(sum(least), rel=0.015)
    assert sum(of_rows) <= sum(least) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("flop", "byte", "expected"),
    [(0, 8, 4), (15, 2, 4), (16, 2, 8), (31, 2, 8), (500, 1, 256), (1100, 1, 256), (1, 0, 256), (0, 0, 4)],
)
def test_a_class_is_the_power_of_two_at_or_below_the_intensity(flop, byte, expected):
    assert count.intensity_class(flop, byte) == expected  # 15 / 2 = 7.5 FLOP/B lies between 4 and 8


@pytest.mark.slow
def test_a_transformer_is_built_for_its_size():
    counted, _ = count.count("timm:vit_tiny_patch16_224", 160, lambda: None)
    assert counted.input_shape == "3x160x160"
    # 10 x 10 patches and a class token: the embedding of positions is 101 x 192, where at 224 it is 197 x 192
    assert counted.parameter_count == 5_717_416 - 96 * 192


def test_globs_choose_among_the_timed_models():
    squeezenet, tinynet, gone = ("squeezenet1_1", 64), ("timm:tinynet_e", 106), ("timm:gone", None)
    assert count.timed(CACHE, ["*"]) == [squeezenet, tinynet, gone]  # each once
    assert count.timed(CACHE, ["timm:*"]) == [tinynet, gone]


def test_a_counted_model_is_not_counted_again(capsys):
    count.add(CACHE, COUNTED, [KIND])
    assert call("--models", "timm:gone") == 0
    assert "Nothing left to count" in capsys.readouterr().out


def test_rows_of_another_process_are_not_added_twice(monkeypatch):
    written = watch_writes(monkeypatch)
    table.append(file_of(PublishedKind, CACHE), PublishedKind, [KIND, KIND])  # without their model
    written.clear()
    for _ in range(2):
        count.add(CACHE, COUNTED, [KIND])
    assert (rows(PublishedCount), rows(PublishedKind)) == ([COUNTED], [KIND])
    assert written == {"counts.csv": True, "counted_kinds.csv": True}  # while locked
