import json
import shutil

import pytest
from helpers.world import WORLD

from measure import __main__ as command
from measure.cache import table
from measure.cache.folders import Workloads
from measure.cache.hand_kept import PublishedTiming
from measure.cache.predictions import ALL_BATCHES, BY_DEVICE, OURS, TERMS, Coefficient, PredictionError
from measure.cache.schema import file_of
from measure.cache.workload_records import Workload
from measure.predicting.study import pool_of
from measure.verbs import predict

MODEL = "squeezenet1_0"
POOL = pool_of("gpu", "bf16", "inference")
CHIP = ("--chip", "Bead 2")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The chips of the world, and a fit by which a call takes twice its arithmetic, and a millisecond.

    The network is counted.
    """
    data = tmp_path_factory.mktemp("predict")
    shutil.copy(WORLD / "chips.csv", data)
    values = {term: 2.0 for term in TERMS if term.endswith("arithmetic")} | {"call": 1000.0}
    rows = [Coefficient(*POOL, term, 40, 40, values.get(term, 0.0), 0.0, 9.0) for term in TERMS]
    error = PredictionError(*POOL, BY_DEVICE, OURS, ALL_BATCHES, 40, 40, 0.1, 0.2, 0.9, 1.0, 0.5, 2.0)
    for record, found in ((Coefficient, rows), (PredictionError, [error]), (PublishedTiming, [])):
        table.write(file_of(record, data), record, found)
    assert call(data, MODEL, *CHIP, "--batch-sizes", "1", "2", "3", "8") == 0
    return data


def call(data, *words):
    return command.main(["predict", *words, "--precision", "bf16", "--data", str(data)])


def predictions(data, capsys, *words):
    assert call(data, *words, "--json") == 0
    return json.loads(capsys.readouterr().out)["predictions"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        # None of Cog 3's kind was timed: no interval. By batch size, though 3 inputs on it take less than 2 on Bead 2
        ("predict", [MODEL, "--chip", "Bead 2", "Cog 3", "--batch-sizes", "3", "2"]),
        ("predict-markdown", [MODEL, *CHIP, "--markdown"]),
        ("predict-json", [MODEL, *CHIP, "--batch-sizes", "8", "--json"]),
        ("predict-known", [MODEL, *CHIP, "--known", MODEL, "8", "2ms", "--batch-sizes", "8"]),
    ],
)
def test_predict(golden, made, capsys, name, words):
    assert call(made, *words) == 0
    golden(name, capsys.readouterr().out)


def test_a_chip_is_predicted_from_its_datasheet_and_a_known_time_scales_all_predictions(made, capsys):
    asked = (MODEL, *CHIP, "--batch-sizes", "1", "8")
    one, row = predictions(made, capsys, *asked)
    # torchvision publishes 0.819 GMAC; 8 inputs at 100 TFLOP/s, twice as long, and a millisecond
    flop_s = 8 * 2 * 0.819e9 / 1e14
    assert row["likely_s"] == pytest.approx(2 * flop_s + 1e-3, rel=0.01)
    assert (row["low_s"], row["high_s"]) == pytest.approx((0.5 * row["likely_s"], 2 * row["likely_s"]))
    assert row["least_s"] >= flop_s * 0.99
    assert row["inputs_per_s"] == pytest.approx(8 / row["likely_s"])
    assert row["memory_needed_byte"] > 8 * 2 * 3 * 224 * 224
    found = predictions(made, capsys, *asked, "--known", MODEL, "8", f"{3000 * row['likely_s']:.6f}ms")
    expected = [("scaled", pytest.approx(3 * each["likely_s"], rel=1e-3)) for each in (one, row)]
    assert [(each["basis"], each["likely_s"]) for each in found] == expected


def test_a_model_counts_once_and_joins_the_paper_only_when_a_run_counts_it(made, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(predict, "Worker", None)  # nothing is left to count
    data = shutil.copytree(made, tmp_path / "data")
    first = predictions(data, capsys, MODEL, *CHIP, "--batch-sizes", "2")
    assert not (data / "workload" / "models.csv").exists()
    counted = Workloads(data, "prediction/counted")
    Workloads(data).put(counted.of(counted.rows(Workload)))  # as a run does
    assert predictions(data, capsys, MODEL, *CHIP, "--batch-sizes", "2") == first


@pytest.mark.slow
def test_a_model_of_ones_own_is_predicted(made, capsys):
    (row,) = predictions(made, capsys, "tests.helpers.small_network:network", *CHIP)
    assert row["batch"] == 1
    assert (made / "workload" / "own" / "models.csv").exists()
