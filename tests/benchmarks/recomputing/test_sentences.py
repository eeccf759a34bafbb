from types import SimpleNamespace

import pandas as pd
import pytest
from recomputing import sentences
from recomputing.effects import Conclusions, Series, Subject
from recomputing.statistics import Effect


def effect(factor, low, high):
    return Effect(factor, 9, lambda _: (low, high))


FASTER, SLOWER, NONE = effect(2, 1.5, 2.5), effect(0.4, 0.3, 0.5), effect(1, 0.9, 1.1)


@pytest.mark.parametrize(
    ("effects", "named"),
    [
        ({1: FASTER, 8: FASTER}, []),  # everywhere
        ({1: NONE, 8: FASTER, 64: FASTER}, [8, 64]),
        ({1: SLOWER, 8: FASTER, 64: NONE}, [8, 1]),
        ({1: SLOWER, 8: NONE}, [1]),
        ({1: NONE, 8: NONE}, []),
    ],
)
def test_advice_names_the_batch_sizes_at_which_it_holds_if_not_at_all(effects, named):
    assert sentences.sizes_in_advice(effects, 0.95) == named


def agree(expected, text):
    return [held.agrees for held in expected.hold(text)]


def test_a_range_names_the_dies_at_its_ends():
    pairs = pd.DataFrame(
        {
            "chip": ["A10", "T4", "B9"],
            "die": ["GA102", "", ""],
            "ratio": [4.0, 8.0, 99.0],
            "verified": ["yes", "yes", "no"],
        }
    )
    told = sentences.Range(pairs)
    assert agree(told, "4.00 (GA102, A10) to 8.00 times (T4)") == [True] * 4
    assert agree(told, "4.01 (GA102, A10) to 8.00 times (B9)") == [False, True, True, False]
    assert agree(told, "4.00 times (GA102, A10)") == [False]
    assert agree(sentences.Range(pairs[:1]), "4.00 times (GA102, A10)") == [True, True]


def test_growth_is_told_kind_by_kind():
    rows = pd.DataFrame({"year": [2010, 2011, 2012, 2013], "ridge_flop_per_byte": [1.0, 2, 4, 8]})
    told = sentences.Moved(
        [Series("cpu", "fp32 on vector units", rows), Series("gpu", "fp32 on vector units", rows)], 0.9
    )
    cpus, gpus = (
        f"8.00 (8.00 to 8.00) for 4 dies of {kind}s (fp32 on vector units, 2010 to 2013)" for kind in ("CPU", "GPU")
    )
    assert agree(told, f"{cpus} and {gpus}") == [True] * 8
    assert agree(told, f"{cpus.replace('4 dies', '5 dies')} and {gpus}").count(False) == 1
    assert agree(told, cpus) == [False]


@pytest.fixture
def kinds():
    """Sentences on a variant at two batch sizes and a growth, which are tested, and on a margin."""
    conclusions = Conclusions(SimpleNamespace())
    conclusions.__dict__["subjects"] = [
        Subject("Variant", "NVIDIA T4", [FASTER, NONE]),
        Subject("Ridge points", "", [NONE]),
        Subject("Sparse peaks", "", [effect(2, 2, 2)], is_margin=True),
    ]
    machine = SimpleNamespace(title="NVIDIA T4")
    cache = SimpleNamespace(shown=[machine], machines=[machine])
    return sentences.kinds(cache, conclusions, SimpleNamespace())


@pytest.mark.parametrize(
    "sentence",
    [
        # One of three is clear: 1 - 5 % / 3
        "These are the largest of 3 effects tested, with intervals of 98.3 % that allow for their number; after them "
        "come margins, which cannot be below one, with intervals of 95 %.",
        "On 2 subjects the cache lets us test 3 effects, one at each batch size and variant that was tried; 1 of them "
        "is more than chance.",
        "1 subject has an effect of a factor of 1.10 or more.",
        "Looked for but not listed, since they may be none or are smaller than those above: Ridge points 1.0 (0.90 to "
        "1.1); Variant on the NVIDIA T4 2.0 (1.5 to 2.5).",
        "Nothing was profiled on the NVIDIA T4; python -m measure --batch-sizes 1 64 profiles one.",
    ],
)
def test_what_is_said_of_all_effects_together_is_recomputed(kinds, sentence):
    held = list(kinds.hold(sentence))
    assert held
    assert all(one.agrees for one in held), held


def test_an_effect_that_is_not_one_of_those_found_is_not_recomputed(kinds):
    head = "Looked for but not listed, since they may be none or are smaller than those above: "
    assert [one.agrees for one in kinds.hold(f"{head}Precision 1.2.")] == [False]
    assert [one.printed for one in kinds.hold(f"{head}Ridge points 1.0 (0.90 to 1.2).") if not one.agrees] == ["1.2"]


def test_the_lists_are_in_the_order_of_sizes():
    conclusions = Conclusions(SimpleNamespace())
    conclusions.__dict__["subjects"] = [Subject("up", "", [FASTER]), Subject("down", "", [SLOWER])]
    assert sentences.order(conclusions) == [["down", "up"]]
