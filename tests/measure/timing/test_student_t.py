from math import atan, inf, log, pi, sqrt

import pytest

from measure.timing.student_t import critical, digamma, inverse_trigamma, trigamma, two_sided_p

EULER = 0.5772156649015329


@pytest.mark.parametrize(
    ("freedom", "t"),
    [(1, 12.706), (2, 4.303), (4, 2.776), (10, 2.228), (30, 2.042), (120, 1.980), (inf, 1.960)],
)
def test_critical_values_are_those_of_the_printed_tables(freedom, t):
    assert critical(0.95, freedom) == pytest.approx(t, abs=5e-4)


@pytest.mark.parametrize("t", [0.0, 0.3, -1.0, 2.5, 40.0])
def test_probabilities_have_closed_forms_for_one_two_and_four_degrees_of_freedom(t):
    # Abramowitz and Stegun 26.7.3 and 26.7.4, with the angle atan(t / sqrt(freedom)).
    assert two_sided_p(t, 1) == pytest.approx(1 - 2 * atan(abs(t)) / pi, rel=1e-9)
    assert two_sided_p(t, 2) == pytest.approx(1 - abs(t) / sqrt(2 + t * t), rel=1e-9)
    sine, cosine_squared = abs(t) / sqrt(4 + t * t), 4 / (4 + t * t)
    assert two_sided_p(t, 4) == pytest.approx(1 - sine * (1 + cosine_squared / 2), rel=1e-6)


def test_many_degrees_of_freedom_are_nearly_the_normal_distribution():
    assert two_sided_p(2.0, 1e6) == pytest.approx(two_sided_p(2.0, inf), rel=1e-4)
    assert two_sided_p(2.0, inf) == pytest.approx(0.0455003, rel=1e-5)  # tables of the normal distribution


def test_digamma_and_trigamma_have_known_values():
    assert digamma(1) == pytest.approx(-EULER, abs=1e-12)
    assert digamma(0.5) == pytest.approx(-EULER - 2 * log(2), abs=1e-12)
    assert digamma(3) == pytest.approx(-EULER + 1 + 1 / 2, abs=1e-12)  # digamma(x + 1) = digamma(x) + 1 / x
    assert trigamma(1) == pytest.approx(pi**2 / 6, abs=1e-12)
    assert trigamma(0.5) == pytest.approx(pi**2 / 2, abs=1e-12)


@pytest.mark.parametrize("x", [1e-3, 0.5, 1.0, 7.0, 1e4])
def test_inverse_trigamma_undoes_trigamma(x):
    assert inverse_trigamma(trigamma(x)) == pytest.approx(x, rel=1e-6)
