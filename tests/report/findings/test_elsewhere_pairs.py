from helpers.elsewhere_papers import timed_elsewhere
from helpers.sentences import plain

from report.findings import elsewhere_pairs


def test_changes():
    text = plain(elsewhere_pairs.changes(timed_elsewhere()))
    assert (
        "On the Bead 2 torch.compile makes inference at fp16 1.75 times as fast in the median of 24 models, 1.50 to "
        "2.00 for eight of ten; 8.3 % of them are slower, timm:elm22 by most (0.500)."
    ) in text
    assert "On the Bead 2 channels_last makes inference at fp16 1.10 times as fast" in text
    assert text.endswith("; none is slower.")


def test_lowered():
    text = plain(elsewhere_pairs.lowered(timed_elsewhere()))
    assert "on 1 device, from 5.00 times as fast in the median of 24 models" in text
    assert "where the roofs at their intensities promise 10.0" in text
    assert text.endswith("kept in the median on none of 1.")


def test_generations():
    text = plain(elsewhere_pairs.generations(timed_elsewhere()))
    assert "from the Bead 2 to Cog 3 (inference at fp16) 2.00 times as fast in the median of 24 models" in text
    assert "where the roofs at their intensities promise 2.00" in text


def test_training():
    text = plain(elsewhere_pairs.training(timed_elsewhere()))
    assert "on the Bead 2 at fp16, 4.00 times as long in the median of 24 models" in text
    assert text.endswith("as a forward pass, for 3.00 times its FLOP.")
