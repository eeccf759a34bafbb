import pytest
from helpers.locks import watch_writes

from measure import __main__ as command
from measure.cache import table
from measure.cache.hand_kept import PublishedTiming
from measure.cache.schema import TABLES, file_of
from measure.cache.workload_records import PublishedCount, PublishedKind
from measure.verbs import count_published
from measure.verbs.count_published import PublishedCounts, PublishedCountTask, planned

HEADER = ",".join(TABLES[PublishedTiming].columns)


@pytest.fixture
def data(tmp_path):
    """A cache in which others timed three models, one of them twice."""
    path = file_of(PublishedTiming, tmp_path)
    path.parent.mkdir(parents=True)
    cells = (("squeezenet1_1", 1, 64), ("squeezenet1_1", 8, 64), ("timm:tinynet_e", 8, 106), ("timm:gone", 8, ""))
    lines = [
        f"src,a.csv,Bead 2,inference,{model},{batch},{size},fp32,,,,,,0.02,,,,,no,,mean" for model, batch, size in cells
    ]
    path.write_text("\n".join((HEADER, *lines)) + "\n")
    return tmp_path


def rows(data, record):
    return table.read(file_of(record, data), record)


def test_each_model_is_counted_at_its_size_and_a_stranger_has_a_reason(data, capsys):
    assert command.main(["count-published", "--data", str(data)]) == 0
    counts = {row.model: row for row in rows(data, PublishedCount)}
    assert {name: row.status for name, row in counts.items()} == {
        "squeezenet1_1": "ok", "timm:tinynet_e": "ok", "timm:gone": "unsupported",
    }  # fmt: skip
    assert "timm has no model 'gone'" in counts["timm:gone"].reason
    squeezenet = counts["squeezenet1_1"]
    assert (squeezenet.input_shape, squeezenet.parameter_count) == ("3x64x64", 1_235_496)  # as torchvision publishes
    # Its first convolution has 64 filters of 3 x 3 x 3 on an output of 31 x 31: 2 * 27 * 64 * 961 FLOP are a part
    assert squeezenet.forward_flop > 2 * 27 * 64 * 961
    kinds = [row for row in rows(data, PublishedKind) if row.model == "squeezenet1_1" and row.stage == "inference"]
    assert sum(row.flop for row in kinds) == squeezenet.forward_flop
    assert sum(row.byte for row in kinds) == squeezenet.traffic_byte
    # Each operator reads its parameters once, for however many inputs
    assert sum(row.further_byte for row in kinds) == squeezenet.traffic_byte - squeezenet.parameter_byte
    assert capsys.readouterr().out.startswith("counts: 2 done, 1 without a result; ")
    assert command.main(["count-published", "--data", str(data)]) == 0
    assert "Nothing left to count" in capsys.readouterr().out


def test_what_is_counted_is_left_and_globs_choose(data):
    every = planned(data, ["*"], set())
    assert [(task.name, task.input_size) for task in every] == [
        ("squeezenet1_1", 64), ("timm:tinynet_e", 106), ("timm:gone", None),
    ]  # fmt: skip
    assert planned(data, ["timm:*"], {("timm:gone", None)}) == [PublishedCountTask("timm:tinynet_e", 106)]


def test_rows_that_a_kill_left_without_their_model_are_replaced(data):
    left = PublishedKind("squeezenet1_1", 64, "inference", "convolution", 1, 2, 3, 4, 5)
    table.append(file_of(PublishedKind, data), PublishedKind, [left])
    PublishedCounts(data).add(PublishedCount("squeezenet1_1", 64, "error", "no"), [])
    assert rows(data, PublishedKind) == []


def test_a_transformer_is_built_for_its_size():
    task = PublishedCountTask("timm:vit_tiny_patch16_224", 160)
    assert task.model.input_shape == (3, 160, 160)
    counted = task.run(None, None, lambda: None)[0].workload
    # 10 x 10 patches and a class token: the embedding of positions is 101 x 192, where at 224 it is 197 x 192
    assert counted.parameter_count == 5_717_416 - 96 * 192


def test_bad_input(data, capsys):
    assert command.main(["count-published", "--models", "resnet*", "--data", str(data)]) == 2
    assert "--models: 'resnet*' is not one of squeezenet1_1, timm:gone, timm:tinynet_e" in capsys.readouterr().err
    assert command.main(["count-published", "--budget", "soon", "--data", str(data)]) == 2


def test_ctrl_c_says_how_to_go_on_and_loses_no_earlier_count(data, monkeypatch, capsys):
    def stopped(*_):
        raise KeyboardInterrupt

    PublishedCounts(data).add(COUNTED, [KIND])
    monkeypatch.setattr(count_published.runner, "run", stopped)
    assert command.main(["count-published", "--force", "--data", str(data)]) == 130
    assert "Stopped after 0 of 3; to go on: python -m measure count-published" in capsys.readouterr().out
    assert (rows(data, PublishedCount), rows(data, PublishedKind)) == ([COUNTED], [KIND])


COUNTED = PublishedCount("timm:gone", None, "ok", None)
KIND = PublishedKind("timm:gone", None, "inference", "convolution", 1, 2, 3, 4, 5)


def test_the_tables_are_locked_while_they_are_written(data, monkeypatch):
    written = watch_writes(monkeypatch)
    PublishedCounts(data).add(COUNTED, [KIND])
    assert written == {"counts.csv": True, "counted_kinds.csv": True}


def test_what_another_process_counted_meanwhile_is_not_added_again(data):
    for counts in (PublishedCounts(data), PublishedCounts(data)):
        counts.add(COUNTED, [KIND])
    assert (rows(data, PublishedCount), rows(data, PublishedKind)) == ([COUNTED], [KIND])
