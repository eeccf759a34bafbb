import pytest

from measure.domain.words import operation


@pytest.mark.parametrize(
    ("precision", "unit"), [("int8", "OP"), ("int64", "OP"), ("fp8", "FLOP"), ("bf16", "FLOP"), ("tf32", "FLOP")]
)
def test_operations_on_integers_are_no_flop(precision, unit):
    assert operation(precision) == unit
