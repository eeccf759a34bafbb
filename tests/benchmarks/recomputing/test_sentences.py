from types import SimpleNamespace

import pytest
from recomputing import sentences
from recomputing.effects import Conclusions, Subject
from recomputing.statistics import Effect


def effect(factor, low, high):
    return Effect(factor, 9, lambda _: (low, high))


FASTER, SLOWER, NONE = effect(2, 1.5, 2.5), effect(0.4, 0.3, 0.5), effect(1, 0.9, 1.1)


@pytest.fixture
def kinds():
    """Sentences on a variant at two batch sizes and a growth, which are tested, and on two margins."""
    conclusions = Conclusions(SimpleNamespace())
    conclusions.__dict__["subjects"] = [
        Subject("Variant", "NVIDIA T4", [FASTER, NONE]),
        Subject("Ridge points", "", [NONE]),
        Subject("Sparse peaks", "", [effect(2, 2, 2)], is_margin=True),
        Subject("Peak", "NVIDIA T4", [effect(2, 2, 2)], is_margin=True),
    ]
    machine = SimpleNamespace(title="NVIDIA T4")
    cache = SimpleNamespace(shown=[machine], machines=[machine])
    return sentences.kinds(cache, conclusions, SimpleNamespace())


@pytest.mark.parametrize(
    "sentence",
    [
        # One of three is clear: 1 - 5 % / 3
        "First stand the largest of 3 effects tested, with intervals of 98.3 % that allow for their number; then "
        "margins, which cannot be below one, with intervals of 95 %.",
        "On 2 subjects the cache lets us test 3 effects, one at each batch size and variant that was tried.",
        "Of these 1 is more than chance.",
        "1 subject has an effect of a factor of 1.10 or more.",
        "Looked for but not listed, since they may be none or are smaller than those above: Ridge points; Variant on "
        "the NVIDIA T4.",
        "Looked for but not listed, since they may be none or are smaller than those above: Peak and Variant on the "
        "NVIDIA T4.",
        "Nothing was profiled on the NVIDIA T4; python -m measure --batch-sizes 1 64 profiles one.",
    ],
)
def test_what_is_said_of_all_effects_together_is_recomputed(kinds, sentence):
    held = list(kinds.hold(sentence))
    assert held
    assert all(one.agrees for one in held), held


def test_an_effect_that_is_not_one_of_those_found_is_not_recomputed(kinds):
    head = "Looked for but not listed, since they may be none or are smaller than those above: "
    held = list(kinds.hold(f"{head}Precision on the NVIDIA T4."))
    assert [(one.printed, one.agrees) for one in held] == [("Precision", False), ("NVIDIA T4", True)]


def test_the_lists_are_in_the_order_of_sizes():
    conclusions = Conclusions(SimpleNamespace())
    conclusions.__dict__["subjects"] = [Subject("up", "", [FASTER]), Subject("down", "", [SLOWER])]
    assert sentences.order(conclusions) == [["down", "up"], ["down", "up"]]


def test_the_first_page_has_three_effects_and_two_margins():
    growing = [effect(2 + place, 2, 9) for place in range(4)]
    conclusions = Conclusions(SimpleNamespace())
    conclusions.__dict__["subjects"] = [Subject(f"e{place}", "", [each]) for place, each in enumerate(growing)]
    conclusions.__dict__["subjects"] += [Subject(f"m{place}", "", [each], True) for place, each in enumerate(growing)]
    first, effects, margins = sentences.order(conclusions)
    assert first == ["e3", "e2", "e1", "m3", "m2"]
    assert (effects, margins) == (["e3", "e2", "e1", "e0"], ["m3", "m2", "m1", "m0"])
