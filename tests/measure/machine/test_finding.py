import pytest

from measure.machine.host import OK, PROBLEM, WARNING, gigabytes, level_of, temperature_finding


@pytest.mark.parametrize(("value", "level"), [(0.0, OK), (0.1, WARNING), (0.4, WARNING), (0.5, PROBLEM), (9, PROBLEM)])
def test_a_value_weighs_by_the_bounds_that_it_reaches(value, level):
    assert level_of(value, (0.1, 0.5)) == level


def test_a_chip_near_its_limit_is_a_warning():
    assert temperature_finding("heat", "it has", 91.0, 100.0).level == WARNING
    assert temperature_finding("heat", "it has", 90.0, 100.0).level == OK
    unlimited = temperature_finding("heat", "it has", 95.0, None)
    assert (unlimited.level, unlimited.fact) == (OK, "it has 95 °C, and no limit")


def test_gigabytes_are_decimal():
    assert gigabytes(2.56e9) == "2.6 GB"
    assert gigabytes(2**30) == "1.1 GB"  # 1.0737e9
