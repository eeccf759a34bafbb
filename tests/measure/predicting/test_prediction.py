from dataclasses import replace
from itertools import pairwise, permutations

import numpy as np
import pytest
from helpers.calls import BEAD, ROOF, work
from helpers.places import ROOT

from measure.cache import table
from measure.cache.folders import Workloads
from measure.domain.roofs import Roof
from measure.domain.schema import file_of
from measure.domain.words import EAGER, INFERENCE, STEP
from measure.predicting import records, timings
from measure.predicting.prediction import DATASHEET, FITTED, SCALED, Predictor
from measure.predicting.prediction_terms import PredictedDevice, of_chips
from measure.predicting.records import ALL, CONVOLUTIONAL, DECODING, TERMS, Coefficient, NetworkFactor, PredictionError

POOL = records.pool_of("gpu", "fp16", INFERENCE)
OLD, NEW = BEAD._replace(software="2.9.1"), BEAD._replace(software="2.14.0")
FEW = BEAD._replace(device="Dot 4")
SERVED = records.Setting(records.TOKENS, "", "", records.HALF, "", INFERENCE)
HOST = records.Setting("bench", "measured", "2.14.0", records.ANY, "", INFERENCE)
VALUES = {"convolution arithmetic": 2.0, "other memory": 1.5}


def coefficients(setting, factor=1.0, models=40):
    return [Coefficient(*setting, term, models, factor * VALUES.get(term, 0.0)) for term in TERMS]


def error(setting, left_out, within, batches=ALL, sort=ALL):
    return PredictionError(*setting, left_out, records.OURS, batches, sort, 40, 40, 0.1, 0.2, 0.9, 1.0, within)


ROWS = [
    Coefficient(*HOST, records.LAUNCHES, 1, 30.0),
    *coefficients(POOL), *coefficients(OLD, 5.0), *coefficients(NEW, 1.3), *coefficients(FEW, 0.5, models=3),
    *coefficients(SERVED, 0.1),
]  # fmt: skip
PART = "2 to 15", CONVOLUTIONAL
"""The part of the made call, of 8 inputs."""

ERRORS = [
    error(NEW, records.BY_FAMILY, 1.1), error(NEW, records.BY_FAMILY, 1.2, "2 to 15"),
    error(NEW, records.BY_FAMILY, 1.25, sort=CONVOLUTIONAL), error(NEW, records.BY_FAMILY, 1.15, *PART),
    error(NEW, records.BY_FAMILY, 1.3, "16 to 127"),
    error(OLD, records.BY_FAMILY, 2.0, *PART),
    error(POOL, records.BY_DEVICE, 1.8, *PART), error(POOL, records.BY_DEVICE, 2.1, "1", CONVOLUTIONAL),
    error(POOL, records.BY_DEVICE, None, "128 and more"),  # which did not hold
    error(POOL, records.ONE_KNOWN, 1.6, *PART), error(POOL, records.FIVE_KNOWN, 1.4, *PART),
    error(SERVED, records.BY_DEVICE, 1.5, "1", DECODING),
]  # fmt: skip
PREDICTOR = Predictor(ROWS, ERRORS)
LAUNCHED = 100 * 30e-6


def chip(name, kind="gpu"):
    return PredictedDevice(name, kind, Roof({"fp16": ROOF.peak_flop_per_s}, ROOF.bandwidth_byte_per_s))


CALL = work(4.0, moved=2.0)


def predict(device, batch=8, precision="fp16", predictor=PREDICTOR, **conditions):
    basis = predictor.basis(device, precision, EAGER, INFERENCE, **conditions)
    return basis and basis.predict(replace(CALL, batch=batch))


MADE = (2 * 4 + 1.5 * 2) * 1e-3
"""The device's part of the call by the coefficients of the pool."""


def test_a_device_with_many_timed_models_has_its_own_fit():
    found = predict(chip("Bead 2"))
    assert (found.basis, found.timed_models, found.host_us) == (FITTED, 40, 30)
    assert found.likely_s == pytest.approx(np.hypot(1.3 * MADE, LAUNCHED))
    assert (found.low_s, found.high_s) == pytest.approx((found.likely_s / 1.15, found.likely_s * 1.15))
    # 4 GFLOP at 1 TFLOP/s; of 1.3 * 11 ms and 3 ms the arithmetic has 1.3 * 8
    assert (found.least_s, found.bound) == (pytest.approx(4e-3), "arithmetic")
    assert (found.costliest, found.costliest_share) == ("convolution arithmetic", pytest.approx(10.4 / 17.3))


@pytest.mark.parametrize(
    ("name", "factors", "basis", "models", "factor", "within"),
    [
        # Some times have coefficients of their own; a time adapts them; a datasheet has the widest interval
        ("Dot 4", (), SCALED, 3, 0.5, 1.4),
        ("Dot 4", (3.0,), SCALED, 1, 3.0, 1.6),
        ("Eel 5", (3.0,), SCALED, 1, 3.0, 1.6),
        ("Eel 5", (3.0,) * 5, SCALED, 5, 3.0, 1.4),
        ("Eel 5", (), DATASHEET, 0, 1.0, 1.8),
    ],
)
def test_a_device_with_few_times_or_none(name, factors, basis, models, factor, within):
    found = predict(chip(name), own_times=[(CALL, np.hypot(each * MADE, LAUNCHED)) for each in factors])
    assert (found.basis, found.timed_models) == (basis, models)
    assert found.likely_s == pytest.approx(np.hypot(factor * MADE, LAUNCHED), rel=0.06)
    assert found.high_s / found.likely_s == pytest.approx(within)


@pytest.mark.parametrize(
    ("name", "batch", "factor"),
    [
        # Such networks at such batch sizes; else the wider of both apart; else as of an untimed chip
        ("Bead 2", 8, 1.15), ("Bead 2", 64, 1.3), ("Bead 2", 1, 2.1), ("Bead 2", 128, None),
        ("Eel 5", 8, 1.8), ("Eel 5", 1, 2.1), ("Eel 5", 128, None),
    ],
)  # fmt: skip
def test_an_interval_is_of_calls_timed_alike(name, batch, factor):
    found = predict(chip(name), batch)
    if factor is None:
        assert found.low_s is found.high_s is None
    else:
        assert found.high_s / found.likely_s == pytest.approx(factor)
        assert found.likely_s / found.low_s == pytest.approx(factor)  # the likely time is in the middle


def test_a_kind_nobody_timed_is_taken_for_a_gpu_without_interval():
    found = predict(chip("Fig 6", "asic"))
    assert found.likely_s == pytest.approx(np.hypot(MADE, LAUNCHED))
    assert found.low_s is found.high_s is None


@pytest.mark.parametrize(
    ("factor", "likely_s", "low_s", "high_s"),
    [
        # By the fit 1.1 ms, below the 4 ms at the peak: 1.8 times that is the upper end
        (0.1, 4e-3, 4e-3, 7.2e-3),
        # By the fit 5.5 ms, and 5.5 / 1.8 = 3.1 ms is below the roof
        (0.5, 5.5e-3, 4e-3, 9.9e-3),
        (1.0, 11e-3, 11e-3 / 1.8, 19.8e-3),
    ],
)
def test_neither_the_likely_time_nor_its_interval_beats_the_roof(factor, likely_s, low_s, high_s):
    found = predict(chip("Eel 5"), predictor=Predictor(coefficients(POOL, factor), ERRORS), host_us=0.0)
    assert (found.least_s, found.likely_s) == pytest.approx((4e-3, likely_s))
    assert (found.low_s, found.high_s) == pytest.approx((low_s, high_s))


def test_chips_are_ranked_by_likely_time():
    found = predict(chip("Eel 5"))
    rows = [
        replace(found, chip="unchecked", likely_s=found.likely_s / 2, low_s=None, high_s=None),
        replace(found, chip="slower", likely_s=2 * found.likely_s),
        found,
        replace(found, chip="large", likely_s=found.likely_s / 3, fits=False),
    ]
    assert [row.chip for row in sorted(rows, key=lambda row: row.rank)] == ["Eel 5", "slower", "large", "unchecked"]


def test_a_host_is_named_or_has_the_newest_torch():
    older = HOST._replace(device="older", software="2.9.1")
    predictor = Predictor([*ROWS, Coefficient(*older, records.LAUNCHES, 1, 7.0)], ERRORS)
    assert predictor.hosts["", INFERENCE] == 30
    assert predictor.hosts["older", INFERENCE] == 7
    assert predict(chip("Eel 5"), host_us=7.0).likely_s == pytest.approx(np.hypot(MADE, 0.7e-3))


def test_a_network_timed_elsewhere_has_a_factor_and_same_roof():
    oak = NetworkFactor(POOL.device, POOL.precision, POOL.phase, "oak", 1.4)
    predictor = Predictor(ROWS, ERRORS, [oak])
    basis = predictor.basis(chip("Eel 5"), "fp16", EAGER, INFERENCE)
    of_oak = replace(CALL, network="oak")
    found, other = basis.predict(of_oak), basis.predict(CALL)
    assert found.likely_s == pytest.approx(np.hypot(1.4 * MADE, LAUNCHED))
    assert other.likely_s == pytest.approx(np.hypot(MADE, LAUNCHED))
    assert found.least_s == other.least_s
    # A time of it on the device shows the device's factor, not the network's
    found = predict(chip("Eel 5"), predictor=predictor, own_times=[(of_oak, np.hypot(2 * 1.4 * MADE, LAUNCHED))])
    assert found.likely_s == pytest.approx(np.hypot(2 * MADE, LAUNCHED), rel=0.1)


def test_own_times_show_their_host_unless_one_is_named():
    times = [(work(0.1, moved=0.1), 2 * LAUNCHED)] * 3  # launches of 3 ms hide the device
    assert predict(chip("Eel 5"), own_times=times).host_us == pytest.approx(60, rel=0.1)
    assert predict(chip("Eel 5"), own_times=times, host_us=30.0).host_us == 30


def test_language_models_need_serving_data_not_a_chips_images():
    basis = PREDICTOR.basis(chip("Bead 2"), "fp16", EAGER, INFERENCE, DECODING)
    assert (basis.coefficients[0], basis.host_us, basis.interval(DECODING, 1)) == (0.1 * 2.0, 0, 1.5)
    assert basis.predict(work(4.0)).variant == "served"  # not eager


def test_without_a_rate_or_a_fit_there_is_no_prediction():
    assert predict(chip("Eel 5"), precision="fp32") is None
    assert predict(chip("Eel 5"), predictor=Predictor(coefficients(NEW), ERRORS)) is None


@pytest.fixture(scope="module")
def published():
    """The committed fit, all counted calls, and all chips."""
    data = ROOT / "data"
    chips = {chip.name: chip for chip in of_chips(data).values()}
    return Predictor.read(data), timings.counted(Workloads(data)), list(chips.values())


@pytest.mark.parametrize("phase", [INFERENCE, STEP])
@pytest.mark.parametrize("precision", ["fp32", "tf32", "fp16", "bf16"])
def test_a_latency_never_falls_as_the_batch_grows(published, precision, phase):
    predictor, counted, chips = published
    width = "fp32" if precision in ("fp32", "tf32") else "bf16"
    keys = sorted(key for key in counted if key.precision == width and key.trains == (phase == STEP))
    for chip in chips:
        bases, times = {}, {}
        for key in keys:
            call = counted[key]
            if call.sort not in bases:
                bases[call.sort] = predictor.basis(chip, precision, EAGER, phase, call.sort)
            if basis := bases[call.sort]:
                times.setdefault(key[:2], []).append((key.batch, basis.predict(call).likely_s))
        for model, found in times.items():
            assert all(one[1] <= next_[1] for one, next_ in pairwise(sorted(found))), (chip.name, model)


def test_untimed_chips_are_in_the_order_of_their_roofs(published):
    predictor, counted, chips = published
    call = counted[timings.Key("resnet50", "3x224x224", 64, "bf16", False)]
    bases = [predictor.basis(chip, "fp16", EAGER, INFERENCE) for chip in chips if chip.chip_kind == "gpu"]
    untimed = [basis for basis in bases if basis and basis.name == DATASHEET]
    assert len(untimed) > 20
    for one, other in permutations(untimed, 2):
        slow, fast = one.roof, other.roof
        if slow.peak_flop_per_s <= fast.peak_flop_per_s and slow.bandwidth_byte_per_s <= fast.bandwidth_byte_per_s:
            assert one.predict(call).likely_s >= other.predict(call).likely_s


def test_nine_in_ten_latencies_lie_within_their_interval():
    """In each table of checks: the mean over devices of the share within the 90 % interval."""
    held = {(left_out, phase): [] for left_out in records.CHECKS[:-1] for phase in (INFERENCE, STEP)}
    for row in table.read(file_of(PredictionError, ROOT / "data"), PredictionError):
        is_whole = (row.method, row.batches, row.sort) == (records.OURS, ALL, ALL)
        if is_whole and row.source and row.coverage is not None and row.left_out != records.CHECKS[-1]:
            held[row.left_out, row.phase].append(row.coverage)
    assert all(0.85 <= np.mean(shares) <= 0.95 for shares in held.values()), held
