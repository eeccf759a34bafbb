from dataclasses import replace

from helpers.papers import empty
from helpers.sentences import plain
from helpers.sweep_papers import L4, sweep, swept, with_timings

from report.analysis.available import Missing
from report.findings import elsewhere_sweeps


def test_saturations():
    # Medians: at fp16 256 and 256, gains 400/8 and 800/10: 65; at fp32 16 and 64, gains 10 and 20: 15; 1040/50 = 20.8
    assert plain(elsewhere_sweeps.saturations(swept())) == (
        "In the median of 2 models that others timed over batch sizes, 95 % of the best throughput is reached at batch "
        "size 40 (NVIDIA T4 at fp32) to 256 (NVIDIA T4 at fp16). The best is 15.0 to 65.0 times that of the smallest "
        "batch."
    )


def test_precisions():
    # 8/10 and 10/20 at batch size 1, 400/100 and 800/400 at 256
    assert plain(elsewhere_sweeps.precisions(swept())) == (
        "At fp16 the NVIDIA T4 is 0.650 times as fast as at fp32 at batch size 1, and 3.00 times at 256, in the median "
        "of 2 models."
    )


def test_steps():
    # 64/0.7590 = 84.32, of which 390 are 4.63 times as many; 64/0.1867 = 342.8, and 1000
    text = plain(elsewhere_sweeps.steps(swept()))
    assert "4.63 times as long on the NVIDIA T4 (resnet50, batch size 64), for 3.00 times the FLOP" in text
    assert "2.92 times as long on the NVIDIA V100 SXM2 (resnet50, batch size 64), for 3.00 times the FLOP" in text
    assert text.endswith("4 steps on these chips have no such pass.")
    uncounted = with_timings(sweep("resnet50", (1, 2, 3, 4, 5)))
    assert "FLOP" not in elsewhere_sweeps.steps(uncounted)


def test_what_is_missing():
    for finding in (elsewhere_sweeps.saturations, elsewhere_sweeps.precisions, elsewhere_sweeps.steps):
        assert isinstance(finding(empty()), Missing)
    alone = with_timings(sweep("timm:ash", (1, 2, 3, 4, 5), device=L4))
    assert "at another precision" in elsewhere_sweeps.precisions(alone)
    assert "on the same chip" in elsewhere_sweeps.steps(alone)
    assert "on the same chip" in elsewhere_sweeps.steps(replace(alone, training_steps=empty().training_steps))
