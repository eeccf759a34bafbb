from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import empty, many, tiny

from report.analysis import available, predictors
from report.analysis.available import DataMissingError
from report.analysis.predictors import BOUND, FLOP, PARAMETERS


def of(paper, kind):
    return available.cells(paper.machine(kind))


def test_without_a_roof_or_operators_there_is_no_roofline_time():
    assert [predictor.name for predictor in predictors.known(of(many(), "cpu"))] == [
        "FLOP", "parameters", "activations", "traffic", "roofline time",
    ]  # fmt: skip
    assert BOUND not in predictors.known(of(many(), "cpu").assign(operator_bound_s=float("nan")))


def test_common_batches_have_half_as_many_models_as_the_largest_group():
    cells = of(many(), "gpu")
    few = cells[(cells.batch != 4) | cells.model.isin(list("abc"))]
    assert predictors.common_batches(few) == [1, 16]
    assert predictors.common_batches(pd.concat([few, cells[cells.model == "d"]])) == [1, 4, 16]


def test_per_input():
    rows = predictors.per_input(of(many(), "cpu"))
    b = rows[rows.model == "b"].set_index("batch")
    # 20 ms, 4 * 20 ms / 2 and 16 * 20 ms / 2.04 for a batch
    assert b.latency_s.to_dict() == pytest.approx({1: 0.02, 4: 0.01, 16: 0.02 / 2.04})
    assert set(b.forward_flop) == {2e9}
    assert set(b.activation_byte) == {2e6}
    assert set(b.traffic_byte) == {3e7}
    assert set(b.parameter_count) == {1e6}  # whatever the batch
    assert b.operator_bound_s.tolist() == pytest.approx([0.02] * 3)  # 2 GFLOP at 100 GFLOP/s


def test_quantities():
    table, names = predictors.quantities(many())
    assert names == [
        "CPU latency", "GPU latency", "FLOP", "parameters", "activations", "traffic", "CPU roofline time",
        "GPU roofline time",
    ]  # fmt: skip
    assert len(table) == 24
    row = table[(table.model == "c") & (table.batch == 4)].iloc[0]
    # 4 GFLOP: 10 ms each, twice as quick at batch 4; on the GPU 2 ms five times over, of four; 4 GFLOP at 8 TFLOP/s
    assert row[names].tolist() == pytest.approx([0.02, 0.0025, 4e9, 7e6, 3e6, 4e7, 0.04, 0.0005])
    failed = table[(table.model == "g") & (table.batch == 16)].iloc[0]
    assert pd.isna(failed["CPU latency"])
    assert failed["GPU latency"] == pytest.approx(0.008 / 16)
    only_cpu = replace(many(), machines=(many().machine("cpu"),))
    assert predictors.quantities(only_cpu)[1] == [
        "CPU latency", "FLOP", "parameters", "activations", "traffic", "CPU roofline time",
    ]  # fmt: skip
    with pytest.raises(DataMissingError):
        predictors.quantities(empty())


def test_groups():
    cells = of(many(), "cpu")
    found = predictors.groups(cells)
    assert [(batch, len(rows)) for batch, rows in found] == [(None, 23), (1, 8), (4, 8), (16, 7)]
    assert [batch for batch, _ in predictors.groups(cells[cells.batch == 4])] == [4]
    assert [predictors.title(batch) for batch in (None, 4)] == ["all, per input", "batch size 4"]


def test_rankings():
    ranked = predictors.rankings(many().machine("gpu"))
    assert list(ranked) == [None, 1, 4, 16]
    order = {rank.predictor: rank for rank in ranked[4]}
    # On the GPU the models a to h are 1st, 3rd, 7th, 4th, 5th, 2nd, 6th and 8th; by FLOP they are in their order.
    assert order[FLOP].spearman.value == pytest.approx(1 - 6 * (1 + 16 + 16 + 1) / (8 * 63))
    assert order[FLOP].coefficients["Kendall"].value == pytest.approx((28 - 2 * 7) / 28)
    # The slope 1/2, less what c at -1.5 and f at 1.5 from the middle, log2(5) off, take of it: 42 is the x's spread.
    assert order[FLOP].law.exponent == pytest.approx(0.5 - 2 * 1.5 * 2.321928 / 42)
    # By parameters they are 8th, 1st, 7th, 2nd, 6th, 3rd, 5th and 4th: differences 7 -2 0 -2 1 1 -1 -4.
    assert order[PARAMETERS].spearman.value == pytest.approx(1 - 6 * 76 / (8 * 63))
    assert ranked[4][-1].predictor == PARAMETERS
    values = [rank.spearman.value for rank in ranked[4]]
    assert values == sorted(values, reverse=True)


def test_too_few_models_have_no_ranking():
    assert predictors.rankings(tiny().machine("gpu")) == {}  # two models


def test_traits():
    rows = predictors.model_traits(many(), 4)
    assert set(rows) == {trait.column for trait in predictors.TRAITS}
    assert rows.depthwise_share.to_dict() == {model: 0.25 * (model == "c") for model in "abcdefgh"}
    assert rows.operator_calls.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert rows.parameter_byte["b"] == 4e6
    # 4 * 2 GFLOP over 4 * 30 MB
    assert rows.traffic_intensity["b"] == pytest.approx(200 / 3)


def test_a_trait_that_was_not_counted_is_empty():
    rows = predictors.model_traits(tiny(), 1)
    assert (rows.depthwise_share == 0).all()  # no layer is of that kind
    assert rows.operator_calls.isna().all()
    with pytest.raises(DataMissingError, match="batch size 64"):
        predictors.model_traits(tiny(), 64)
