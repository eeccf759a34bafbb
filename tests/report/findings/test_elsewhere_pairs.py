from dataclasses import replace

from helpers.elsewhere_papers import timed_elsewhere
from helpers.sentences import plain

from report.findings import elsewhere_pairs


def test_changes():
    # Oaks compiled take the half, elms two thirds of the time: the median of twelve of both is 1.75
    assert plain(elsewhere_pairs.changes(timed_elsewhere())) == (
        "With torch.compile models run 1.75 times as fast in the median. On the Bead 2 8.3 % of them are slower "
        "(inference at fp16); the slowest, timm:elm22, runs 0.500 times as fast. With channels_last models run "
        "1.10 times as fast in the median; none is slower."
    )


def test_lowered():
    text = plain(elsewhere_pairs.lowered(timed_elsewhere()))
    assert text.startswith("Inference at fp16 runs 5.00 times (Bead 2) as fast as at fp32, in the median of the models")
    assert text.endswith("The promise of the roofs is kept in the median on none of 1.")


def test_generations():
    # An oak takes a third of its time on Cog 3, an elm as long: 2 in the median, as the roofs have it
    assert plain(elsewhere_pairs.generations(timed_elsewhere())) == (
        "From the Bead 2 to Cog 3 models run 2.00 times as fast in the median. The ratio of their roofs comes within "
        "10 % of that."
    )


def test_a_promise_that_is_not_kept_is_told(monkeypatch):
    found = elsewhere_pairs.elsewhere_pairs.generations(timed_elsewhere())
    broken = [replace(each, promised=4.0) for each in found]
    monkeypatch.setattr(elsewhere_pairs.elsewhere_pairs, "generations", lambda paper: broken)
    assert plain(elsewhere_pairs.generations(timed_elsewhere())).endswith(
        "farthest off from the Bead 2 to Cog 3: it promises 4.00 times, and models run 2.00 times as fast."
    )


def test_training():
    text = plain(elsewhere_pairs.training(timed_elsewhere()))
    assert "on the Bead 2 at fp16, 4.00 times as long as a forward pass in the median of 24 models, for" in text
    assert text.endswith("for 3.00 times its FLOP.")
