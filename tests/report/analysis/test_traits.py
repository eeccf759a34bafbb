import pytest
from helpers.papers import many, tiny

from report.analysis.available import DataMissingError
from report.analysis.traits import TRAITS, of_models


def test_of_models():
    rows = of_models(many(), 4)
    assert set(rows) == {trait.column for trait in TRAITS}
    assert rows.depthwise_share.to_dict() == {model: 0.25 * (model == "c") for model in "abcdefgh"}
    assert rows.operator_calls.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert rows.parameter_byte["b"] == 4e6
    # 4 * 2 GFLOP over 4 * 30 MB
    assert rows.traffic_intensity["b"] == pytest.approx(200 / 3)


def test_what_was_not_counted_is_empty():
    rows = of_models(tiny(), 1)
    assert (rows.depthwise_share == 0).all()  # no layer is of that kind
    assert rows.operator_calls.isna().all()
    with pytest.raises(DataMissingError, match="batch size 64"):
        of_models(tiny(), 64)
