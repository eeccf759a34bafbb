"""The mutants of a file: what counts as a change, and that a seed draws the same ones."""

from itertools import islice

import mutants
import pytest


@pytest.mark.parametrize(
    ("changed", "is_the_same"),
    [
        ('@cache\ndef f(x: int | None) -> float:\n    """Halve."""\n    return x / 2', True),
        ("def f(x):\n    y: str = x\n    return x / 2", False),
        ("def f(x):\n    return x // 2", False),
        ("def f(x):\n    return x / 3", False),
    ],
)
def test_a_change_of_annotations_decorators_and_texts_is_none(changed, is_the_same):
    assert (mutants.meaning("def f(x):\n    return x / 2") == mutants.meaning(changed)) == is_the_same


def test_a_seed_draws_the_same_mutants_each_of_another_place():
    pytest.importorskip("cosmic_ray", reason="it makes the mutants")
    file = "measure/domain/advice.py"
    drawn, again, other = (list(islice(mutants.mutants([file], seed), 3)) for seed in (1, 1, 2))
    assert drawn == again != other
    assert mutants.mirror(file) == ["tests/measure/domain/test_advice.py", "tests/measure/domain"]
    original = mutants.meaning((mutants.ROOT / file).read_text("utf-8"))
    assert original not in {mutants.meaning(each.text) for each in drawn}
