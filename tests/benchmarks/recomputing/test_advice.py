import pandas as pd
import pytest
from recomputing import advice
from recomputing.effects import Series
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
    assert advice.sizes_in_advice(effects, 0.95) == named


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
    told = advice.Range(pairs)
    assert agree(told, "4.00 (GA102, A10) to 8.00 times (T4)") == [True] * 4
    assert agree(told, "4.01 (GA102, A10) to 8.00 times (B9)") == [False, True, True, False]
    assert agree(told, "4.00 times (GA102, A10)") == [False]
    assert agree(advice.Range(pairs[:1]), "4.00 times (GA102, A10)") == [True, True]


def test_growth_is_told_kind_by_kind():
    rows = pd.DataFrame({"year": [2010, 2011, 2012, 2013], "ridge_flop_per_byte": [1.0, 2, 4, 8]})
    told = advice.Moved([Series("cpu", "fp32 on vector units", rows), Series("gpu", "fp32 on vector units", rows)], 0.9)
    cpus, gpus = (f"8.00 (8.00 to 8.00) for 4 dies of {kind}s (2010 to 2013)" for kind in ("CPU", "GPU"))
    assert agree(told, f"{cpus} and {gpus}") == [True] * 8
    assert agree(told, f"{cpus.replace('4 dies', '5 dies')} and {gpus}").count(False) == 1
    assert agree(told, cpus) == [False]
