from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from helpers.calls import BEAD, COSTS, additive, call, work

from measure.predicting import records, study
from measure.predicting.model import AT_THE_ROOF
from measure.predicting.records import ALL, AUTOCAST, BY_DEVICE, COMPILED, DIE, OPTION, OURS, POOL, TERMS, VECTOR
from measure.predicting.study import rows_of

COG = BEAD._replace(device="Cog 3")


@pytest.fixture(scope="module")
def found():
    aside = BEAD._replace(device=study.ASIDE[0])
    calls = [*additive(models=120), *additive(1.3, COG, models=90), *additive(1.2, aside, models=30)]
    named = zip(study.KNOWN[:5], additive(1.3, COG)[5::7], strict=True)
    calls += [replace(one, work=replace(one.work, network=name)) for name, one in named]
    return study.study(calls, COSTS, lambda _: None)


def test_a_pool_and_its_dies_are_fitted_without_those_put_aside(found):
    rows = {(row.level, row.label, row.term): row for row in found[0]}
    labels = (POOL, ""), (DIE, "Bead 2"), (DIE, "Cog 3")
    assert set(rows) == {(*label, term) for label in labels for term in TERMS if term != VECTOR}
    assert {row.device for row in found[0]} == {"any GPU"}
    pool, bead, cog = (
        rows[level, label, "convolution arithmetic"] for level, label in ((POOL, ""), (DIE, "Bead 2"), (DIE, "Cog 3"))
    )
    assert (pool.models, bead.models, cog.models) == (125, 120, 95)
    assert pool.value * bead.value == pytest.approx(2.0, rel=0.1)  # a part is of the timings
    assert pool.value * cog.value == pytest.approx(1.3 * 2.0, rel=0.1)


def test_left_out_rows_are_predicted_from_the_rest(found):
    whole = [row for row in found[2] if (row.method, row.batches, row.sort) == (OURS, ALL, ALL)]
    rows = {(row.left_out, row.device): row for row in whole}
    aside = {device for left_out, device in rows if left_out == records.PUT_ASIDE}
    assert aside == {study.ASIDE[0], "any GPU"}
    # Cog 3 takes 1.3 times as long as Bead 2. One die shows its pool in part, for the pool is expected at the roof
    cog, bead = (rows[BY_DEVICE, name].median_ratio for name in ("Cog 3", "Bead 2"))
    assert 1.3 < cog < 1.7
    assert cog / bead == pytest.approx(1.3**2, rel=0.2)
    assert rows[BY_DEVICE, "any GPU"].within is None  # two devices are too few
    # Five times on the device show the factor
    assert rows[records.FIVE_KNOWN, "Cog 3"].median_error < 0.03


def test_a_networks_factor_is_the_shrunk_median_of_all_devices():
    """Each network of Cog 3 takes 1.3 times as long as on Bead 2, and ``odd`` 1.5 times as long as both let expect."""
    odd = [
        call("odd", float(np.hypot(1.5 * factor * 11.5e-3, 1e-3)), work(5.0), each)
        for factor, each in ((1.0, BEAD), (1.3, COG))
    ]
    timed = rows_of([*additive(), *additive(1.3, COG), *odd, call("hidden", 1e-3, work(0.01), BEAD)], COSTS)
    values = {"convolution arithmetic": 2.0, "other memory": 1.5}
    of_pool = np.array([values.get(term, 1e-6) for term in TERMS])
    factors = study.network_factors(timed, {(POOL, ""): np.log(of_pool / AT_THE_ROOF)})
    # Two devices say 1.5, one more would say 1: 1.5 to the power of 2/3
    assert factors["odd"] == pytest.approx(1.5 ** (2 / 3), rel=1e-3)
    assert factors["net7"] == pytest.approx(1.0)
    assert "hidden" not in factors  # its host's launches take all of the time


def resnet(setting, factor=1.0):
    return call("resnet50", factor * 11.5e-3, work(5.0, moved=1.0 / 3), setting)  # 2 * 5 + 1.5 / 3 + 1 = 11.5 ms


def test_each_row_is_left_out_once_and_with_its_label():
    parts = list(study.folds(np.array([f"net{k // 2}" for k in range(50)], dtype=object)))
    assert sum(part.astype(int) for part in parts).tolist() == [1] * 50
    assert all((part[::2] == part[1::2]).all() for part in parts)
    timed = rows_of(additive(), COSTS)  # all are of the family net
    assert list(study.check_families(timed, study.fit_pool(timed))) == []


def test_simple_estimates_follow_their_names():
    fitted = rows_of([call("one", 6e-3, work(3.0)), call("two", 12e-3, work(6.0))], COSTS)
    rows = rows_of([call("three", 1.0, work(9.0, moved=12.0))], COSTS)
    checks = study.check(BY_DEVICE, np.ones(len(TERMS)), rows, fitted)
    likely_s = {check.method[0]: 1.0 / check.ratio[0] for check in checks}
    # Both took twice their FLOP at the peak
    assert likely_s[records.LIKE_FLOP] == pytest.approx(18e-3)
    # At the roof 3 + 1 and 6 + 1 ms: 6 / 4 and 12 / 7 times as long, in the median 1.607; the third 9 + 12 ms
    assert likely_s[records.LIKE_ROOFLINE] == pytest.approx((6 / 4 + 12 / 7) / 2 * 21e-3)


def test_a_slower_device_is_off_by_that_until_it_has_one_time():
    timed = rows_of([*additive(), resnet(BEAD), *additive(1.3, COG), resnet(COG, 1.3)], COSTS)
    found = pd.concat(
        study.check_devices(timed, study.fit_pool(timed), study.fits_without(timed, study.fit_pool(timed)))
    )
    adapted = found[(found.left_out == records.ONE_KNOWN) & (found.device == "Cog 3")]
    assert np.median(np.abs(1 / adapted.ratio - 1)) < 0.05
    assert "resnet50" not in set(adapted.network)


def test_one_time_is_checked_with_the_host_known():
    """Cog 3 takes 1.3 times as long, and its host 12 ms for the launches that the reference host makes in 1 ms."""
    costs = COSTS | {("Cog 3", "made", "2.4", "inference"): 120.0}
    known = call("resnet50", float(np.hypot(1.3 * 11.5, 12.0)) * 1e-3, work(5.0), COG)
    tiny = call("tiny", float(np.hypot(1.3 * 1.7, 12.0)) * 1e-3, work(0.1), COG)  # 2 * 0.1 + 1.5 ms, and launches
    timed = rows_of([*additive(), known, tiny], costs)
    effects = study.fit_pool(timed)
    found = pd.concat(study.check_devices(timed, effects, study.fits_without(timed, effects)))
    (ratio,) = found[(found.left_out == records.ONE_KNOWN) & (found.device == "Cog 3")].ratio
    assert ratio == pytest.approx(1.0, rel=0.02)


def test_tf32_is_a_peak_and_no_factor():
    calls = [*additive(), *additive(1.3, COG._replace(precision="fp32", options="benchmark;tf32"))]
    effects = study.fit_pool(rows_of(calls, COSTS))
    assert {label for level, label in effects if level == OPTION} == {"benchmark"}


def test_chips_of_one_die_share_its_factor_and_options_have_theirs():
    """Two chips of one die take 1.3 times as long as Bead 2; with autocast all take 1.2 times as long."""
    twins = [COG, COG._replace(device="Cog 3 Max")]
    calls = []
    for at, setting in enumerate((BEAD, *twins)):
        for factor, options in ((1.0, ""), (1.2, AUTOCAST)):
            made = additive(factor * (1.3 if at else 1.0), setting._replace(options=options))
            calls += [replace(each, die="die" if at else "") for each in made]
    effects = study.fit_pool(rows_of(calls, COSTS))
    assert {label for label in effects if label[0] in (DIE, OPTION)} == {(DIE, ""), (DIE, "die"), (OPTION, AUTOCAST)}
    at = TERMS.index("convolution arithmetic")
    assert np.exp(effects[DIE, "die"] - effects[DIE, ""])[at] == pytest.approx(1.3, rel=0.05)
    assert np.exp(effects[OPTION, AUTOCAST])[at] == pytest.approx(1.2, rel=0.05)
    rows = rows_of(calls, COSTS)
    without = study.fits_without(rows, study.fit_pool(rows))
    assert np.exp(without[twins[0].device][DIE, "die"])[at] > 1.05  # its twin shows the die


def test_a_setting_has_its_compiler_and_options_in_order():
    assert BEAD._replace(variant=COMPILED, options="autocast;benchmark").ran_with == (COMPILED, AUTOCAST, "benchmark")
    assert BEAD.ran_with == ()


def test_timings_that_all_others_contradict_are_left_out_and_listed():
    said = []
    wrong = additive(8.0, BEAD._replace(device="Dot 4"))
    calls = [*additive(), *additive(1.3, COG), *additive(0.9, BEAD._replace(device="Eel 5"))]
    coefficients, _, errors = study.study([*calls, *wrong], COSTS, said.append)
    assert [line for line in said if line.startswith("left out")] == [
        next(line for line in said if line.endswith("Dot 4, made, 2.4, fp16, eager, inference"))
    ]
    assert "Dot 4" not in {row.label for row in coefficients} | {row.device for row in errors}
    assert coefficients == study.study(calls, COSTS, said.append)[0]


def checked(ratios, setting=BEAD):
    calls = [call(f"net{k}", 1.0, work(1.0, batch=1 if k < 4 else 32), setting) for k in range(len(ratios))]
    return rows_of(calls, COSTS).assign(left_out=BY_DEVICE, method=OURS, ratio=ratios)


def test_errors_are_of_predictions_over_latencies_by_batch_size():
    rows = study.errors_of(BEAD, checked([0.5, 0.8, 1.0, 1.25, 4.0]))
    found = {row.batches: row for row in rows if row.sort == ALL}
    # Predictions are 2, 1.25, 1, 0.8 and 0.25 of the latencies: off by 1, 0.25, 0, 0.2 and 0.75
    assert found[ALL].median_error == pytest.approx(0.25)
    assert found[ALL].median_ratio == 1.0
    # Nine in ten: 0.6 of the way from 0.75 to 1
    assert found[ALL].p90_error == pytest.approx(0.75 + 0.6 * 0.25)
    assert {batches: row.calls for batches, row in found.items()} == {ALL: 5, "1": 4, "16 to 127": 1}


@pytest.mark.parametrize(
    ("ratios", "coverage", "within"),
    [
        ([1.1, 1 / 1.1] * 3, 1.0, 1.1),  # each model's ratio lies within the others
        ([1.1] * 5 + [2.0] * 2, 1.0, 2.0),  # so do the ratios of a pair
        ([1.1] * 5 + [2.0], 5 / 6, None),  # one of six does not, which is too many
        ([1.1] * 4, None, None),  # three others are too few
    ],
)
def test_a_settings_interval_is_checked_without_each_model(ratios, coverage, within):
    (row, *_) = study.errors_of(BEAD, checked(ratios))
    assert row.coverage == (coverage and pytest.approx(coverage))
    assert row.within == (within and pytest.approx(within))


@pytest.mark.parametrize(
    ("widths", "coverage", "within"),
    [
        # Six equal devices: 0.9 and a sixth of a tenth of the ratios. Five others: 0.9 and a fifth of a tenth
        ([0.1] * 6, 0.92, (0.9 + 0.1 / 6) * 0.1),
        ([0.1] * 4, None, None),  # three other devices are too few
        ([0.1] * 5 + [1.0], 5 / 6, None),  # one of six is off by more than all others, which is too many
    ],
)
def test_a_pools_interval_is_checked_without_each_device(widths, coverage, within):
    """Logarithms of a device's ratios lie evenly between minus and plus its width, or at 1."""
    alike = [
        checked(np.exp(np.linspace(width if width == 1 else -width, width, 2001)), BEAD._replace(device=f"Bead {at}"))
        for at, width in enumerate(widths)
    ]
    rows = study.errors_of(records.pool_of("gpu", "fp16", "inference"), pd.concat(alike))
    pool = next(row for row in rows if (row.device, row.batches, row.sort) == ("any GPU", ALL, ALL))
    if coverage is None:
        assert pool.coverage is pool.within is None
    else:
        assert pool.coverage == pytest.approx(coverage, abs=0.03)
        assert (pool.within and np.log(pool.within)) == (within and pytest.approx(within, abs=2e-3))


def test_few_ratios_need_a_wider_interval():
    # Ratios e^0.01, e^0.02, …: the last of nine, because a tenth is as likely to be above all of them
    for count, within in ((9, 0.09), (99, 0.90)):
        checks = pd.DataFrame({"network": np.arange(count), "ratio": np.exp(0.01 * np.arange(1, count + 1))})
        assert np.log(study.interval(checks, "network")) == pytest.approx(within, abs=0.002)
