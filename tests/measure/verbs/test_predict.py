import json
import shutil

import pytest
from helpers.places import TESTS

from measure import __main__ as command
from measure.cache import table
from measure.cache.folders import Workloads
from measure.cache.hand_kept import PublishedTiming
from measure.cache.predictions import ALL_BATCHES, BY_DEVICE, OURS, TERMS, Coefficient, PredictionError
from measure.cache.schema import TABLES, file_of
from measure.cache.workload_records import Workload
from measure.predicting.study import pool_of
from measure.verbs import predict

MODEL = "squeezenet1_0"
POOL = pool_of("gpu", "bf16", "inference")
FILES = (Coefficient, PredictionError)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The chips of the tiny cache, and a fit by which a call takes twice its arithmetic, and a millisecond."""
    data = tmp_path_factory.mktemp("predict")
    shutil.copy(TESTS / "data" / "chips.csv", data)
    values = {term: 2.0 for term in TERMS if term.endswith("arithmetic")} | {"call": 1000.0}
    rows = [Coefficient(*POOL, term, 40, 40, values.get(term, 0.0), 0.0, 9.0) for term in TERMS]
    error = PredictionError(*POOL, BY_DEVICE, OURS, ALL_BATCHES, 40, 40, 0.1, 0.2, 0.9, 1.0, 0.5, 2.0)
    for record, found in ((Coefficient, rows), (PredictionError, [error])):
        file_of(record, data).parent.mkdir(exist_ok=True)
        table.write(file_of(record, data), record, found)
    timings = file_of(PublishedTiming, data)
    timings.parent.mkdir(parents=True)
    timings.write_text(",".join(TABLES[PublishedTiming].columns) + "\n")
    return data


def call(data, *words):
    asked = words if "--precision" in words else (*words, "--precision", "bf16")
    return command.main(["predict", *asked, "--data", str(data)])


def told(data, capsys, *words):
    assert call(data, *words, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_a_chip_that_nobody_timed_is_predicted_from_its_datasheet(made, capsys):
    found = told(made, capsys, MODEL, "--chip", "Bead 2", "--batch-sizes", "8")
    assert {key: found[key] for key in ("model", "input_shape", "precision", "phase", "variant")} == {
        "model": MODEL, "input_shape": "3x224x224", "precision": "bf16", "phase": "inference", "variant": "eager",
    }  # fmt: skip
    (row,) = found["predictions"]
    # torchvision publishes 0.819 GMAC; 8 inputs at 100 TFLOP/s, twice as long, and a millisecond
    flop_s = 8 * 2 * 0.819e9 / 1e14
    assert row["likely_s"] == pytest.approx(2 * flop_s + 1e-3, rel=0.01)
    assert (row["low_s"], row["high_s"]) == pytest.approx((0.5 * row["likely_s"], 2 * row["likely_s"]))
    assert row["least_s"] >= flop_s * 0.99
    assert (row["basis"], row["timed_models"]) == ("datasheet", 0)
    assert row["inputs_per_s"] == pytest.approx(8 / row["likely_s"])
    assert row["memory_needed_byte"] > 8 * 2 * 3 * 224 * 224


def test_several_chips_and_batch_sizes_are_a_table_the_fastest_first(made, capsys):
    assert call(made, MODEL, "--batch-sizes", "8", "1") == 0
    title, blank, head, *rows = capsys.readouterr().out.splitlines()
    assert title == f"{MODEL}, 3x224x224, bf16, inference, eager"
    assert blank == ""
    assert " ".join(head.split()).startswith("chip batch least likely 90 % interval inputs/s")
    # The GPU with an interval, the ASIC, of whose kind none was timed, without; first both at batch size 1
    assert [("not checked" in row, row.split("  ")[0]) for row in rows] == [
        (True, "Cog 3"), (False, "Bead 2"), (True, "Cog 3"), (False, "Bead 2"),
    ]  # fmt: skip
    assert call(made, MODEL, "--batch-sizes", "8", "--markdown") == 0
    assert "| ---: |" in capsys.readouterr().out


def test_a_known_time_scales_all_predictions(made, capsys):
    plain = told(made, capsys, MODEL, "--chip", "Bead 2", "--batch-sizes", "1", "8")["predictions"]
    known = ("--known", MODEL, "8", f"{3000 * plain[1]['likely_s']:.6f}ms")
    found = told(made, capsys, MODEL, "--chip", "Bead 2", "--batch-sizes", "1", "8", *known)["predictions"]
    assert [row["basis"] for row in found] == ["scaled", "scaled"]
    assert [row["likely_s"] for row in found] == pytest.approx([3 * row["likely_s"] for row in plain], rel=1e-3)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nosuch"], "MODEL: no model is called 'nosuch'"),
        (["squeeze*", "--chip", "Bead 2", "--batch-sizes", "0"], "--batch-sizes: '0' is not a valid number"),
        ([MODEL, "--chip", "Bed 2"], "--chip: 'Bed 2' is not one of"),
        ([MODEL, "--chip", "Bead 2", "--precision", "fp61"], "--precision: 'fp61' is not one of"),
        ([MODEL, "--variant", "fast"], "--variant: 'fast' is not one of"),
        ([MODEL, "--known", MODEL, "8", "1ms"], "--known: is a latency of one chip, and --chip names"),
        ([MODEL, "--chip", "Bead 2", "--known", MODEL, "8", "1"], "--known: '1' is not a time"),
        ([MODEL, "--chip", "Bead 2", "--known", MODEL, "8", "0ms"], "--known: '0ms' is not a time"),
        ([MODEL, "--chip", "Bead 2", "--training"], "--precision: nothing was timed at bf16"),
    ],
)
def test_bad_input_is_one_sentence(made, capsys, words, said):
    assert call(made, *words) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_without_a_fit_the_command_that_makes_one_is_named(made, tmp_path, capsys):
    shutil.copy(made / "chips.csv", tmp_path)
    assert call(tmp_path, MODEL, "--chip", "Bead 2") == 2
    assert f"make it with python -m measure fit --data {tmp_path}" in capsys.readouterr().err


def test_a_prediction_adds_no_model_to_the_paper_and_counts_once(made, capsys, monkeypatch):
    told(made, capsys, MODEL, "--chip", "Bead 2", "--batch-sizes", "2")
    assert not (made / "workload" / "models.csv").exists()
    assert (made / "prediction" / "counted" / "models.csv").exists()
    monkeypatch.setattr(predict, "Worker", None)  # nothing is left to count
    told(made, capsys, MODEL, "--chip", "Bead 2", "--batch-sizes", "2")


def test_a_model_that_a_run_counted_after_a_prediction_counts_once(made, tmp_path, capsys):
    data = shutil.copytree(made, tmp_path / "data")
    (first,) = told(data, capsys, MODEL, "--chip", "Bead 2")["predictions"]
    predicted = Workloads(data, "prediction/counted")
    Workloads(data).put(predicted.of(predicted.rows(Workload)))  # as a run does
    assert told(data, capsys, MODEL, "--chip", "Bead 2")["predictions"] == [first]


def test_a_model_of_ones_own_is_predicted(made, capsys):
    (row,) = told(made, capsys, "tests.helpers.small_network:network", "--chip", "Bead 2")["predictions"]
    assert row["batch"] == 1
    assert (made / "workload" / "own" / "models.csv").exists()
