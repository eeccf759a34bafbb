from dataclasses import replace

import pytest
from helpers.predicted import BEAD, ROOF, additive, call, demand
from helpers.rows import workload

from measure.cache.predictions import ALL_BATCHES, BY_DEVICE, ONE_KNOWN, OURS, TERMS, Coefficient, PredictionError
from measure.domain.roofs import Roof
from measure.domain.words import EAGER, INFERENCE
from measure.predicting.demand import How, PredictedDevice
from measure.predicting.prediction import Predictor
from measure.predicting.study import pool_of
from report.paper.choices import choices

POOL = pool_of("gpu", "fp16", INFERENCE)
VALUES = {"convolution arithmetic": 2.0, "activation memory": 1.5, "call": 1000.0}
COEFFICIENTS = [Coefficient(*POOL, term, 40, 40, VALUES.get(term, 0.0), 0.0, 9.0) for term in TERMS]
ERRORS = [
    PredictionError(*POOL, left_out, OURS, ALL_BATCHES, 40, 40, 0.1, 0.2, 0.9, 1.0, low, high)
    for left_out, low, high in ((BY_DEVICE, 0.5, 2.0), (ONE_KNOWN, 0.8, 1.3))
]
CALLS = [*additive(1.0, BEAD._replace(device="Cog 3")), *additive(0.5, BEAD._replace(device="Dot 4"), models=3)]
"""By the coefficients; neighbours add nothing, and Dot 4 takes half as long."""

EEL = PredictedDevice(
    "Eel 5", "gpu", Roof({"fp16": ROOF.peak_flop_per_s}, ROOF.bandwidth_byte_per_s), memory_byte=24e9, power_w=300.0
)
DOT = replace(EEL, name="Dot 4", memory_byte=None)
FIG = replace(EEL, name="Fig 6", chip_kind="asic")


def counted(model="oak", batch=8, shape="3x224x224", trains=False, **asked):
    row = workload(model, batch, 4 * 10**9, inference_peak_byte=10**8, training_peak_byte=3 * 10**8)
    return {(model, shape, batch, "bf16", trains): (row, demand(4.0, moved=2.0, batch=batch, **asked))}


def made(rows=None, calls=(), devices=(EEL,)):
    predictor = Predictor(COEFFICIENTS, ERRORS, [*CALLS, *calls])
    return choices(predictor, devices, counted() if rows is None else rows, [*CALLS, *calls])


def seconds(found, device, at=0):
    """The least and the likely time of a call, as a reader's page computes them."""
    place = next(index for index, each in enumerate(found.devices) if each["name"] == device)
    _, convolutions, products, bandwidth, fit, factor, *_ = next(
        row for row in found.rates["fp16 inference"] if row[0] == place
    )
    *_, convolution, product, footprint, _, fits = found.calls[at]
    a, b, c, fixed = fits[str(fit)]
    least = max(convolution / convolutions + product / products, footprint / bandwidth)
    return least / 1e6, factor * (a / convolutions + b / products + c / bandwidth + fixed) / 1e6


def test_a_call_is_few_numbers():
    found = made()
    assert (found.models, found.batches, found.widths["fp16"], found.widths["tf32"]) == (["oak"], [8], 2, 4)
    assert found.devices == [{"name": "Eel 5", "kind": "gpu", "memory": 24_000, "power": 300}]
    # 4 GFLOP are 4,000,000 kFLOP: at 1,000 GFLOP/s 4,000 us; the footprint is 50 MB, the peak 100 MB. The activations
    # move 200 MB, at 1 GB/s 0.2 s, 1.5 times as long 300,000 us; a call costs 1,000 us.
    (row,) = found.calls
    assert row[:8] == [0, 0, 2, INFERENCE, 4_000_000, 0, 50_000, 100]
    assert row[8]["0"] == pytest.approx([8_000_000, 0, 300_000, 1000], rel=1e-3)


def test_the_numbers_give_what_the_predictor_does():
    found = made(devices=(EEL, DOT))
    predictor = Predictor(COEFFICIENTS, ERRORS, CALLS)
    for device in (EEL, DOT):
        told = predictor.predict(demand(4.0, moved=2.0), device, "fp16", EAGER, INFERENCE)
        assert seconds(found, device.name) == pytest.approx((told.least_s, told.likely_s), rel=1e-3)
    eel, dot = found.rates["fp16 inference"]
    assert (eel[6:], dot[6:]) == ([0.5, 2, "datasheet", 0], [0.8, 1.3, "scaled", 3])


def test_a_kind_that_nobody_timed_has_no_interval():
    (row,) = made(devices=(FIG,)).rates["fp16 inference"]
    assert row[6:] == [None, None, "datasheet", 0]


def test_precisions_that_no_device_has_are_not_offered():
    assert list(made().rates) == ["fp16 inference"]


def test_a_batch_size_of_few_models_is_left_out():
    rows = {**counted("oak"), **counted("elm"), **counted("fir"), **counted("oak", 512)}
    found = made(rows)
    assert (found.batches, len(found.calls)) == ([8], 3)


def test_of_several_shapes_that_counts_at_which_most_was_counted():
    rows = {**counted(batch=8), **counted(batch=64), **counted(batch=8, shape="3x448x448")}
    assert [row[1] for row in made(rows).calls] == [0, 1]


def test_what_was_timed_stands_beside():
    timed = [
        call("oak", 0.02, demand(4.0), how=How(copied=True)),
        call("oak", 0.03, demand(4.0)),
        call("oak", 0.025, demand(4.0)),
        # other work under the same name, compiled, a model that was not counted, another batch size
        call("oak", 0.001, demand(9.0)),
        call("oak", 0.002, demand(4.0), BEAD._replace(variant="torch.compile"), how=How(compiled=True)),
        call("yew", 0.003, demand(4.0)),
        call("oak", 0.004, demand(4.0, batch=16)),
    ]
    # The fastest without the copy
    found = made(calls=timed, devices=(replace(EEL, name="Bead 2"),))
    assert found.measured == [[0, 0, 0, "fp16", INFERENCE, 25_000, False]]


def test_without_counts_or_fits_there_is_nothing():
    assert made({}).calls == []
    assert choices(Predictor([], [], []), [EEL], counted(), []).rates == {}
