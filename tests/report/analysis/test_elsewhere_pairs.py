"""Changes, generations and steps on the made measurements of helpers.elsewhere_papers."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.elsewhere_papers import name, timed_elsewhere
from helpers.papers import empty
from scipy.stats import spearmanr

from report.analysis import elsewhere_pairs
from report.analysis.available import DataMissingError
from report.analysis.elsewhere_pairs import changes, compiled_instead, fused, generations, lowered, training


def by_case(comparisons):
    return {(comparison.case, comparison.where): comparison for comparison in comparisons}


def test_changes():
    found = by_case(changes(timed_elsewhere()))
    assert set(found) == {
        ("torch.compile", "Bead 2, inference at fp16"),
        ("channels_last", "Bead 2, inference at fp16"),
    }
    compiled = found["torch.compile", "Bead 2, inference at fp16"]
    # In order: 0.5, 0.8, ten of 1.5, twelve of 2: the median lies between 1.5 and 2, a tenth of 23 steps at 1.5
    spread = compiled.spread
    assert (spread.median, spread.low, spread.quarter, spread.high) == (1.75, 1.5, 1.5, 2.0)
    assert spread.slower == pytest.approx(2 / 24)
    assert (spread.models, spread.least) == (24, "timm:elm22")
    assert compiled.promised is None


def test_what_a_compiler_brings_where_layers_move_bytes_that_it_saves():
    (found,) = fused(timed_elsewhere())
    # The share rises from model to model, but for the thirteenth, where it is highest: the first six gain 2, of the
    # last five and that one four 1.5, one 0.5 and one 0.8
    assert (found.least, found.most) == (2.0, 1.5)
    shares = [0.9 if k == 12 else k / (100 + k) for k in range(24)]
    gains = [2.0] * 12 + [1.5] * 10 + [0.5, 0.8]
    assert found.coefficient.value == pytest.approx(spearmanr(shares, gains).statistic)
    assert found.coefficient.models == 24


def test_layers_at_a_size_that_was_not_timed_do_not_count():
    paper = timed_elsewhere()
    kinds = paper.elsewhere.kinds
    # At 448 pixels activations move most where they move least at 224: counted too, they would turn the order round
    larger = kinds[kinds.layer_kind == "activation"].assign(input_size=448, byte=lambda rows: 10**13 // (rows.byte + 1))
    more = replace(paper, elsewhere=replace(paper.elsewhere, kinds=pd.concat([kinds, larger])))
    (found,), (alone,) = fused(more), fused(paper)
    assert (found.coefficient, found.least, found.most) == (alone.coefficient, alone.least, alone.most)


def test_without_counted_layers_the_command_is_named():
    paper = timed_elsewhere()
    few = paper.elsewhere.kinds[paper.elsewhere.kinds.model == name(12)]
    with pytest.raises(DataMissingError, match="count-published"):
        fused(replace(paper, elsewhere=replace(paper.elsewhere, kinds=few)))


def test_a_compiler_in_place_of_a_newer_device():
    found = compiled_instead(timed_elsewhere())
    assert (found.compiled.device, found.newer.device) == ("Bead 2", "Bead 2 to Cog 3")
    # Twelve of 2 / 3, ten of 1.5, 0.5 and 0.8: in order the twelfth and the thirteenth are 2 / 3
    assert found.advantage.factor == pytest.approx(2 / 3)
    assert found.advantage.count == 24


def test_lowered():
    (half,) = lowered(timed_elsewhere())
    assert (half.device, half.spread.median) == ("Bead 2", pytest.approx(5))
    # Above both ridge points the roofs promise the ratio of the peaks, 100 to 10 TFLOP/s
    assert half.promised == pytest.approx(10)


def test_generations():
    (found,) = generations(timed_elsewhere())
    # At 16 bits: 3 times the oaks, the elms alike; the peak is twice as high
    assert found.where == "Bead 2 to Cog 3, inference at fp16"
    assert found.spread.median == pytest.approx(2)
    assert (found.spread.low, found.spread.high) == (pytest.approx(1), pytest.approx(3))
    assert found.promised == pytest.approx(2)


def test_training():
    (found,) = training(timed_elsewhere())
    assert found.where == "Bead 2, at fp16"
    assert found.spread.median == pytest.approx(4)  # 2 latencies of 8 inputs for 4 of them
    assert found.promised == pytest.approx(3)  # the backward pass has twice the FLOP


@pytest.mark.parametrize("compared", [changes, fused, compiled_instead, lowered, generations, training])
def test_without_timings_there_is_a_command(compared):
    with pytest.raises(DataMissingError, match="add-published"):
        compared(empty())


def test_few_models_are_no_distribution(monkeypatch):
    monkeypatch.setattr(elsewhere_pairs, "FEWEST", 25)
    for compared in (changes, lowered, generations, training):
        with pytest.raises(DataMissingError, match=r"25 (counted )?models"):
            compared(replace(timed_elsewhere()))  # another paper: what is known of the one is kept
