from dataclasses import replace

from helpers.papers import tiny
from helpers.sentences import plain

from report import findings
from report.analysis.available import Missing


def only(*counters):
    results = tiny().counters
    return replace(tiny(), counters=results[results.counter.isin(counters)])


def test_exactness():
    assert "Of all 4 classification models" in plain(findings.counters.exactness(tiny()))
    wrong = tiny().counters.replace({"counter": {"fvcore": "ridgepoint", "ridgepoint": "other"}})
    text = plain(findings.counters.exactness(replace(tiny(), counters=wrong)))
    assert "within their rounding for 0, and our parameters exactly for 4" in text


def test_ranking():
    text = plain(findings.counters.ranking(tiny()))
    assert "are FlopCounterMode for 4, thop for 2 and fvcore for 1 of these models" in text
    assert "No other counter" in findings.counters.ranking(only("ridgepoint"))


def test_weighing():
    # fvcore's multiply-adds over torchvision's: 2.01 / 2, 1.02 / 1, 42 / 40, 6.4 / 10, a line each
    assert plain(findings.counters.weighing(tiny(), "fvcore")) == (
        "In the median of each line of models, what fvcore counts is farthest from what is published for ViT "
        "(−36.0 %), ShuffleNet v2 (+5.00 %) and ResNet (+2.00 %), and nearest for VGG (+0.500 %)."
    )
    without = findings.counters.weighing(only("ridgepoint"), "fvcore")
    assert isinstance(without, Missing)
    assert "fvcore was not installed when the models were counted; python benchmarks/counters.py" in without


def test_pace():
    # ours 4 * 0.5 s; torch 4 * 0.25, fvcore 4 * 1, thop 3 * 2
    text = plain(findings.counters.pace(tiny()))
    assert "are counted in 2.00 s, in a process that holds 300 MB at most" in text
    assert "alone take FlopCounterMode 0.500, fvcore 2.00 and thop 3.00 times as long" in text
    assert findings.counters.pace(only("ridgepoint")).endswith("at most.")


def test_place():
    assert "on the Example CPU (4 cores) (environment cpu-new)" in plain(findings.counters.place(tiny()))
    elsewhere = replace(tiny(), counters=tiny().counters.assign(environment_id="other"))
    assert "on a machine that the cache does not hold (environment other)" in findings.counters.place(
        elsewhere
    )


def test_without_our_own_counts():
    for finding in (findings.counters.exactness, findings.counters.ranking, findings.counters.pace):
        assert isinstance(finding(only("fvcore")), Missing)
