from dataclasses import replace
from types import SimpleNamespace

from helpers.predicted import BEAD as TIMED
from helpers.predicted import additive, demand
from helpers.predicted_papers import predicted
from helpers.rows import workload
from helpers.sentences import cells, plain

from measure.cache.predictions import ALL_BATCHES, BY_DEVICE, ONE_KNOWN, OURS, TERMS, Coefficient, PredictionError
from measure.domain.roofs import Roof
from measure.predicting.demand import PredictedDevice
from measure.predicting.prediction import Predictor
from measure.predicting.study import pool_of
from report.analysis.available import Missing
from report.tables import prediction


def lines(table, paper=None):
    return cells(plain(table(paper or predicted())))


def test_fits():
    # Bead 2 at its newest release alone: 4 % without the model, 10 % without the family, nine in ten three times that
    first, second, own = lines(prediction.fits)
    assert first == ["Bead 2", "bf16, eager", "1200", "4.0 %", "12 %", "90 %", "10 %", "30 %"]
    assert second[:4] == ["NVIDIA B2", "bf16, eager", "950", "5.0 %"]
    assert own == [
        "Example CPU \\(4 cores\\)", "fp32, eager", "25", "8.0 %", "24 %", "70 %", "12 %", "36 %",
    ]  # fmt: skip


def test_pools():
    sheet, known, source = lines(prediction.pools)
    # 25 %; FLOP six times, parameters seven, the roofline three and the line four times as much
    assert sheet == [
        "datasheet", "any GPU, 16 bits", "25 %", "75 %", "90 %", "75 %", "100 %", "150 %", "180 %",
    ]  # fmt: skip
    assert (known[0], known[2]) == ("one time", "11 %")
    assert (source[0], source[2]) == ("datasheet, other sources", "40 %")


def test_devices_stand_from_the_least_error():
    first, second = lines(prediction.devices)
    assert first == ["Bead 2", "bf16, eager", "2400", "20 %", "60 %", "90 %", "1.5", "10 %", "30 %"]
    assert second == ["NVIDIA B2", "bf16, eager", "1900", "30 %", "90 %", "90 %", "0.90", "12 %", "36 %"]


def test_batches():
    assert lines(prediction.batches) == [
        ["Bead 2", "bf16, eager", "–", "20 %", "–", "2.0 %"],
        ["NVIDIA B2", "bf16, eager", "–", "30 %", "–", "2.0 %"],
    ]


def test_coefficients():
    rows = lines(prediction.coefficients)
    # Three settings' 20 terms; the old release and the pool are not shown
    assert len(rows) == 60
    # The terms in their order are 1.0, 1.1 and so on: that of depthwise arithmetic is the second
    assert ["depthwise convolution arithmetic", "Bead 2", "bf16, eager", "1.10", "0.900 to 3.50"] in rows


POOL = pool_of("gpu", "fp16", "inference")
COEFFICIENTS = [Coefficient(*POOL, term, 40, 40, 2.0 if "arithmetic" in term else 0.0, 0, 9) for term in TERMS]
ERRORS = [PredictionError(*POOL, BY_DEVICE, OURS, ALL_BATCHES, 40, 40, 0.1, 0.2, 0.9, 1.0, 0.5, 2.0)]


def made(errors=ERRORS, calls=()):
    """A paper of three chips, of 1, 2 and 1 TFLOP/s at fp16, that take twice what their arithmetic does at the peak."""
    rates = {"NVIDIA T4": 1e12, "NVIDIA L4": 2e12, "Bead 2": 1e12}
    calls_of = (("resnet50", 64), ("resnet50", 1), ("vit_b_16", 64), ("oak", 64))
    predicts = SimpleNamespace(
        coefficients=predicted().predictions.coefficients,
        devices=[PredictedDevice(name, "gpu", Roof({"fp16": rate}, rate / 10)) for name, rate in rates.items()],
        counted={
            (model, "3x224x224", batch, "bf16", False): (workload(model, batch), demand(4.0, batch=batch))
            for model, batch in calls_of
        },
        predictor=Predictor(COEFFICIENTS, errors, calls),
    )
    return replace(predicted(), predictions=predicts)


def test_typical_models():
    # 4 GFLOP: at least 4 ms and likely 8 ms at 1 TFLOP/s, half of both at 2; the fastest first, and no other chip
    assert lines(prediction.typical, made()) == [
        ["NVIDIA L4", "2.0 ms", "4.0 ms", "2.0 ms", "4.0 ms", "0.50 to 2.0"],
        ["NVIDIA T4", "4.0 ms", "8.0 ms", "4.0 ms", "8.0 ms", "0.50 to 2.0"],
    ]


def test_a_chip_with_some_times_has_the_interval_of_such():
    rows = lines(
        prediction.typical,
        made(
            [replace(ERRORS[0], left_out=ONE_KNOWN, low_ratio=0.8, high_ratio=1.3)],
            additive(1.0, TIMED._replace(device="NVIDIA T4"), models=5),
        ),
    )
    assert [row[-1] for row in rows if row[0] == "NVIDIA T4"] == ["0.80 to 1.3"]


def test_without_typical_models_it_says_so():
    assert isinstance(prediction.typical(predicted()), Missing)
