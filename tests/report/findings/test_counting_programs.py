from dataclasses import replace

from helpers.papers import tiny
from helpers.sentences import plain

from report import findings
from report.analysis.available import Missing


def only(*programs):
    results = tiny().counting_programs
    return replace(tiny(), counting_programs=results[results.program.isin(programs)])


def test_exactness():
    assert "Of all 4 classification models" in plain(findings.counting_programs.exactness(tiny()))
    wrong = tiny().counting_programs.replace({"program": {"fvcore": "roofwright", "roofwright": "other"}})
    text = plain(findings.counting_programs.exactness(replace(tiny(), counting_programs=wrong)))
    assert "within their rounding for 0, and our parameters exactly for 4" in text


def test_ranking():
    text = plain(findings.counting_programs.ranking(tiny()))
    assert text == (
        "Of 3 other programs FlopCounterMode comes within 1 % of what is published, or within its rounding, for 4 of "
        "these models, the most, and fvcore for 1."
    )
    assert "No other counting program" in findings.counting_programs.ranking(only("roofwright"))


def test_weighing():
    # fvcore's multiply-adds over torchvision's: 2.01 / 2, 1.02 / 1, 42 / 40, 6.4 / 10, a line each
    assert plain(findings.counting_programs.weighing(tiny(), "fvcore")) == (
        "In the median of each line of models, what fvcore counts is farthest from what is published for ViT "
        "(−36.0 %), ShuffleNet v2 (+5.00 %) and ResNet (+2.00 %), and nearest for VGG (+0.500 %)."
    )
    without = findings.counting_programs.weighing(only("roofwright"), "fvcore")
    assert isinstance(without, Missing)
    assert "fvcore was not installed when the models were counted; python benchmarks/counting_programs.py" in without


def test_pace():
    # ours 4 * 0.5 s; torch 4 * 0.25, fvcore 4 * 1, thop 3 * 2
    text = plain(findings.counting_programs.pace(tiny()))
    assert "are counted in 2.00 s, in a process that holds 300 MB at most" in text
    assert "alone take FlopCounterMode 0.500, fvcore 2.00 and thop 3.00 times as long" in text
    assert findings.counting_programs.pace(only("roofwright")).endswith("at most.")


def test_place():
    assert "on the Example CPU (4 cores) (environment cpu-new)" in plain(findings.counting_programs.place(tiny()))
    elsewhere = replace(tiny(), counting_programs=tiny().counting_programs.assign(environment_id="other"))
    assert "on a machine that the cache does not hold (environment other)" in findings.counting_programs.place(
        elsewhere
    )


def test_without_our_own_counts():
    for finding in (
        findings.counting_programs.exactness,
        findings.counting_programs.ranking,
        findings.counting_programs.pace,
    ):
        assert isinstance(finding(only("fvcore")), Missing)
