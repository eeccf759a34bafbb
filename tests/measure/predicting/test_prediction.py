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
from measure.domain.words import INFERENCE, STEP
from measure.predicting import records, timings
from measure.predicting.prediction import DATASHEET, FITTED, ON_DIE, SCALED, Predictor, usual_setting
from measure.predicting.prediction_terms import PredictedDevice, of_chips
from measure.predicting.records import (
    ALL,
    BENCHMARK,
    CONVOLUTIONAL,
    DECODING,
    DIE,
    OPTION,
    POOL,
    TERMS,
    TF32_CONVOLUTIONS,
    Coefficient,
    HostCost,
    NetworkFactor,
    PredictionError,
    pool_of,
)

GPUS, SERVED = pool_of("gpu", "fp16", INFERENCE), pool_of("tokens", "fp16", INFERENCE)
FP32 = pool_of("gpu", "fp32", INFERENCE)
VALUES = {"convolution arithmetic": 2.0, "other memory": 1.5}


def coefficients(pool, factor=1.0):
    return [
        Coefficient(pool.device, pool.precision, pool.phase, POOL, "", term, 40, factor * VALUES.get(term, 0.0))
        for term in TERMS
    ]


def factors(pool, level, label, factor, models=40):
    about = pool.device, pool.precision, pool.phase, level, label
    return [Coefficient(*about, term, models, factor) for term in TERMS]


def error(setting, left_out, within, batches=ALL, sort=ALL):
    return PredictionError(*setting, left_out, records.OURS, batches, sort, 40, 40, 0.1, 0.2, 0.9, 1.0, within)


ROWS = [
    *coefficients(GPUS), *coefficients(FP32), *coefficients(SERVED, 0.1), *factors(GPUS, OPTION, BENCHMARK, 0.8),
    *factors(FP32, OPTION, TF32_CONVOLUTIONS, 1.1), *factors(GPUS, DIE, "B1", 1.3),
    *factors(GPUS, DIE, "Dot 4", 0.5, models=3),
]  # fmt: skip
HOSTS = [HostCost("bench", INFERENCE, "2.14.0", 30.0)]
PART = "2 to 15", CONVOLUTIONAL
"""The part of the made call, of 8 inputs."""

ERRORS = [
    error(BEAD, records.BY_FAMILY, 1.1), error(BEAD, records.BY_FAMILY, 1.4, "1", CONVOLUTIONAL),
    error(GPUS, records.BY_FAMILY, 1.2, "16 to 127"), error(GPUS, records.BY_FAMILY, 1.3, sort=CONVOLUTIONAL),
    error(GPUS, records.BY_FAMILY, 1.15, *PART),
    error(GPUS, records.BY_DEVICE, 1.8, *PART), error(GPUS, records.BY_DEVICE, 2.1, "1", CONVOLUTIONAL),
    error(GPUS, records.BY_DEVICE, None, "128 and more"),  # which did not hold
    error(GPUS, records.ONE_KNOWN, 1.6, *PART), error(GPUS, records.FIVE_KNOWN, 1.4, *PART),
    error(SERVED, records.BY_DEVICE, 1.5, "1", DECODING),
]  # fmt: skip
PREDICTOR = Predictor(ROWS, HOSTS, ERRORS)
LAUNCHED = 100 * 30e-6


DIES = {"Bead 2": "B1", "Cog 3": "B1"}


def chip(name, kind="gpu", **rates):
    roof = Roof({"fp16": ROOF.peak_flop_per_s} | rates, ROOF.bandwidth_byte_per_s)
    return PredictedDevice(name, kind, roof, die=DIES.get(name, ""))


CALL = work(4.0, moved=2.0)


def predict(device, batch=8, precision="fp16", predictor=PREDICTOR, setting=(), **conditions):
    basis = predictor.basis(device, precision, setting, INFERENCE, **conditions)
    return basis and basis.predict(replace(CALL, batch=batch))


MADE = (2 * 4 + 1.5 * 2) * 1e-3
"""The device's part of the call by the coefficients of the pool."""


def test_a_device_with_many_timed_models_has_its_dies_factor():
    found = predict(chip("Bead 2"))
    assert (found.basis, found.timed_models, found.host_us) == (FITTED, 40, 30)
    assert found.likely_s == pytest.approx(np.hypot(1.3 * MADE, LAUNCHED))
    assert (found.low_s, found.high_s) == pytest.approx((found.likely_s / 1.15, found.likely_s * 1.15))
    # 4 GFLOP at 1 TFLOP/s; of 1.3 * 11 ms and 3 ms the arithmetic has 1.3 * 8
    assert (found.least_s, found.bound) == (pytest.approx(4e-3), "arithmetic")
    assert (found.costliest, found.costliest_share) == ("convolution arithmetic", pytest.approx(10.4 / 17.3))
    assert not found.is_on_roof


@pytest.mark.parametrize(
    ("name", "known", "basis", "models", "factor", "within"),
    [
        # A die has a factor, which its chips share, and a device without a die has its own. A known time adapts it, and
        # a datasheet has the pool's coefficients
        ("Cog 3", (), ON_DIE, 40, 1.3, 1.8),
        ("Dot 4", (), FITTED, 3, 0.5, 1.8),
        ("Dot 4", (3.0,), SCALED, 1, 3.0, 1.8),
        ("Eel 5", (3.0,), SCALED, 1, 3.0, 1.8),
        ("Eel 5", (3.0,) * 5, SCALED, 5, 3.0, 1.4),
        ("Eel 5", (), DATASHEET, 0, 1.0, 1.8),
    ],
)
def test_a_device_with_few_times_or_none(name, known, basis, models, factor, within):
    found = predict(chip(name), own_times=[(CALL, np.hypot(each * MADE, LAUNCHED)) for each in known])
    assert (found.basis, found.timed_models) == (basis, models)
    assert found.likely_s == pytest.approx(np.hypot(factor * MADE, LAUNCHED), rel=0.06)
    assert found.high_s / found.likely_s == pytest.approx(within)


def test_one_known_time_narrows_the_interval_if_the_host_is_known():
    known = [(CALL, np.hypot(3.0 * MADE, LAUNCHED))]
    for named, within in ((None, 1.8), (30.0, 1.6)):
        found = predict(chip("Eel 5"), own_times=known, host_us=named)
        assert found.likely_s == pytest.approx(known[0][1], rel=0.06)
        assert found.high_s / found.likely_s == pytest.approx(within)


@pytest.mark.parametrize(
    ("name", "batch", "factor"),
    [
        # The pool's families left out; else the wider of batch and sort apart; else the device's own; else as untimed
        ("Bead 2", 8, 1.15), ("Bead 2", 64, 1.3), ("Bead 2", 1, 1.4), ("Bead 2", 128, None),
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


def test_an_option_has_a_factor_where_it_was_timed():
    plain, tuned, unknown = (predict(chip("Eel 5"), setting=each) for each in ((), (BENCHMARK,), ("channels_last",)))
    assert plain.likely_s == unknown.likely_s == pytest.approx(np.hypot(MADE, LAUNCHED))
    assert tuned.likely_s == pytest.approx(np.hypot(0.8 * MADE, LAUNCHED))


def test_tf32_convolutions_need_a_chip_that_has_them():
    tf32 = (TF32_CONVOLUTIONS,)
    with_it, without = (chip("Eel 5", fp32=1e12, **rates) for rates in ({"tf32": 4e12}, {}))
    found = [predict(each, precision="fp32", setting=setting) for each in (with_it, without) for setting in (tf32, ())]
    # 4 GFLOP take 2 * 1 ms in TF32 and 2 * 4 without; the bytes 3 ms
    seconds = [1.1 * 5e-3, MADE, MADE, MADE]
    assert [each.likely_s for each in found] == pytest.approx([np.hypot(each, LAUNCHED) for each in seconds])


@pytest.mark.parametrize(
    ("precision", "setting"),
    [
        ("fp16", ("autocast", "benchmark")), ("bf16", ("autocast", "benchmark")), ("fp32", ("benchmark", "tf32")),
        ("tf32", ("benchmark",)),
    ],
)  # fmt: skip
def test_the_usual_setting_is_that_of_most_timings(precision, setting):
    assert usual_setting(precision) == setting


@pytest.mark.parametrize("kind", ["asic", "fpga", "soc", "cpu"])
def test_a_kind_nobody_timed_has_no_prediction(kind):
    assert predict(chip("Fig 6", kind)) is None
    assert PREDICTOR.kinds == {"gpu", "tokens"}


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
    found = predict(chip("Eel 5"), predictor=Predictor(coefficients(GPUS, factor), HOSTS, ERRORS), host_us=0.0)
    assert (found.least_s, found.likely_s) == pytest.approx((4e-3, likely_s))
    assert found.is_on_roof == (factor == 0.1)
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
    predictor = Predictor(ROWS, [*HOSTS, HostCost("older", INFERENCE, "2.9.1", 7.0)], ERRORS)
    assert predictor.hosts["", INFERENCE] == 30
    assert predictor.hosts["older", INFERENCE] == 7
    assert predict(chip("Eel 5"), host_us=7.0).likely_s == pytest.approx(np.hypot(MADE, 0.7e-3))


def test_a_network_timed_elsewhere_has_a_factor_and_same_roof():
    oak = NetworkFactor(GPUS.device, GPUS.precision, GPUS.phase, "oak", 1.4)
    predictor = Predictor(ROWS, HOSTS, ERRORS, [oak])
    basis = predictor.basis(chip("Eel 5"), "fp16", (), INFERENCE)
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
    basis = PREDICTOR.basis(chip("Bead 2"), "fp16", (), INFERENCE, DECODING)
    assert (basis.coefficients[0], basis.host_us, basis.interval(DECODING, 1)) == (0.1 * 2.0, 0, 1.5)
    found = basis.predict(work(4.0))
    assert (found.variant, found.basis) == ("served", DATASHEET)  # not eager, nor fitted to images
    assert PREDICTOR.basis(chip("Fig 6", "asic"), "fp16", (), INFERENCE, DECODING) is None


def test_without_a_rate_or_a_fit_there_is_no_prediction():
    assert predict(chip("Eel 5"), precision="fp32") is None
    assert predict(chip("Eel 5"), predictor=Predictor(coefficients(SERVED), HOSTS, ERRORS)) is None


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
                bases[call.sort] = predictor.basis(chip, precision, usual_setting(precision), phase, call.sort)
            if basis := bases[call.sort]:
                times.setdefault(key[:2], []).append((key.batch, basis.predict(call).likely_s))
        for model, found in times.items():
            assert all(one[1] <= next_[1] for one, next_ in pairwise(sorted(found))), (chip.name, model)


def test_chips_of_one_die_and_untimed_ones_are_in_the_order_of_their_roofs(published):
    predictor, counted, chips = published
    call = counted[timings.Key("resnet50", "3x224x224", 64, "bf16", False)]
    bases = [
        predictor.basis(chip, "fp16", usual_setting("fp16"), INFERENCE) for chip in chips if chip.chip_kind == "gpu"
    ]
    found = [basis for basis in bases if basis]
    compared = 0
    for one, other in permutations(found, 2):
        if one.device.die != other.device.die and {one.name, other.name} != {DATASHEET}:
            continue
        slow, fast = one.roof, other.roof
        if slow.peak_flop_per_s <= fast.peak_flop_per_s and slow.bandwidth_byte_per_s <= fast.bandwidth_byte_per_s:
            assert one.predict(call).likely_s >= other.predict(call).likely_s
            compared += 1
    assert compared > 100


SLOW_TO_FAST = (
    ("NVIDIA H100 PCIe", "NVIDIA H100 SXM", "NVIDIA H200 SXM"),
    ("NVIDIA A100 SXM 40GB", "NVIDIA A100 SXM 80GB", "NVIDIA H100 SXM"),
    ("NVIDIA L4", "NVIDIA L40S"),
    ("NVIDIA T4", "NVIDIA V100 SXM2", "NVIDIA A100 SXM 40GB"),
    ("NVIDIA GeForce RTX 3090", "NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 5090"),
)


@pytest.mark.parametrize("names", SLOW_TO_FAST)
def test_no_chip_is_slower_than_one_that_is_known_to_be(published, names):
    """Of every counted network and batch, at fp16, forward."""
    predictor, counted, chips = published
    by_name = {chip.name: chip for chip in chips}
    calls = [call for key, call in counted.items() if key.precision == "bf16" and not key.trains]
    wrong = []
    for slow, fast in pairwise(names):
        for sort in {call.sort for call in calls}:
            one, other = (
                predictor.basis(by_name[name], "fp16", usual_setting("fp16"), INFERENCE, sort) for name in (slow, fast)
            )
            for call in calls:
                if call.sort == sort and one.predict(call).likely_s < other.predict(call).likely_s:
                    wrong.append((call.network, call.batch, slow, fast))
    assert len(calls) > 100
    assert wrong == []


def test_nine_in_ten_latencies_lie_within_their_interval():
    """In each table of checks: the mean over devices of the share within the 90 % interval."""
    held = {(left_out, phase): [] for left_out in records.CHECKS[:-1] for phase in (INFERENCE, STEP)}
    for row in table.read(file_of(PredictionError, ROOT / "data"), PredictionError):
        is_whole = (row.method, row.batches, row.sort) == (records.OURS, ALL, ALL)
        if is_whole and row.source and row.coverage is not None and row.left_out != records.CHECKS[-1]:
            held[row.left_out, row.phase].append(row.coverage)
    assert all(0.85 <= np.mean(shares) <= 0.95 for shares in held.values()), held
