import pytest

from measure.errors import in_short


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (ValueError("first line\nsecond line"), "ValueError: first line"),
        (RuntimeError("No kernel for 2.5 GB. Try another one."), "RuntimeError: No kernel for 2.5 GB"),
        (KeyError(), "KeyError: no message"),
    ],
)
def test_a_problem_in_short(problem, text):
    assert in_short(problem) == text
