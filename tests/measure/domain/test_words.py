import pytest

from measure.domain.words import least_byte, operation


@pytest.mark.parametrize(
    ("precision", "unit"), [("int8", "OP"), ("int64", "OP"), ("fp8", "FLOP"), ("bf16", "FLOP"), ("tf32", "FLOP")]
)
def test_operations_on_integers_are_no_flop(precision, unit):
    assert operation(precision) == unit


def test_what_no_call_can_read_need_not_move():
    assert least_byte(100, 20, 3) == 123
    assert least_byte(100, 20, 3, 50) == 73
