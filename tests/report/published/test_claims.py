"""Every claim has a rule; the rules of those that arithmetic decides, by hand."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.papers import empty, many, tiny
from helpers.published_papers import printed
from helpers.training_papers import trained

from measure.domain.values import SPACE
from report.analysis import layer_costs
from report.analysis.correlations import Correlation
from report.published import claims
from report.published.agreement import Measured
from report.published.claims import coursework, madani
from report.published.claims.ruling import CONFIRMED, REFUTED, Ruling, anywhere, at_batches
from report.published.claims.sides import Ridge
from report.published.verdict import NOT_COMPARABLE, UNDECIDED


def ruled(claim, paper=None):
    return claims.ruling(paper or printed(), claim)


def with_claims(paper):
    return replace(paper, published=printed().published, chips=printed().chips)


def test_every_claim_has_a_rule_and_every_rule_a_claim():
    assert set(claims.CLAIMS) == set(printed().published.claims.id)


@pytest.mark.parametrize("claim", list(claims.CLAIMS))
@pytest.mark.parametrize("paper", [printed, tiny, many, trained, empty])
def test_every_rule_gives_a_mark_and_sentences_whatever_is_missing(claim, paper):
    ruling = claims.ruling(with_claims(paper()), claim)
    assert ruling.mark in claims.MARKS
    assert ruling.text.endswith(".")
    assert not {"nan", "None", "inf"} & set(ruling.text.replace(".", " ").replace(SPACE, " ").split())


def test_without_data_a_claim_is_undecided_and_names_what_decides():
    for claim in ("madani2026-8", "a1rooflines-3", "daugherty-1a", "hw1part2-3"):
        ruling = ruled(claim)
        assert ruling.mark == UNDECIDED
        assert "`python -m measure" in ruling.text


def test_a_claim_without_a_rule_is_undecided():
    assert ruled("nobody-1").mark == UNDECIDED


def test_costs_of_steps():
    # 2 x 64 x (3 x 4.089 - 0.118) G = 1555 G
    for claim, step in (("pham2024-1", "1.555"), ("pham2024-2", "1.678"), ("pham2024-3", "82.48")):
        assert ruled(claim).mark == REFUTED
        assert f"A step takes {step}" in ruled(claim).text


def test_sides_of_the_ridge_by_counters():
    # ViT on the L4: 5992 / 79.67 = 75.2 FLOP/B, below 30.3 T / 300 G = 101
    ruling = ruled("pham2024-4b")
    assert ruling.mark == REFUTED
    assert "75.2" in ruling.text
    rows = printed().training_steps
    faster = rows.assign(flop_per_s=rows.flop_per_s.where(rows.model != "vit", rows.flop_per_s * 2))
    assert ruled("pham2024-4b", replace(printed(), training_steps=faster)).mark == CONFIRMED
    # MobileNet: 3.71, 12.4 and 5.28 are all below 25.3, 101 and 17.4
    assert ruled("pham2024-4a").mark == CONFIRMED


def test_orders_of_printed_rates():
    # the V100 has the highest rate of both
    assert ruled("pham2024-5a").mark == ruled("pham2024-5b").mark == REFUTED
    assert ruled("pham2024-6a").mark == REFUTED  # MobileNet: 2224 on the L4, 2094 on the V100
    assert ruled("pham2024-6b").mark == CONFIRMED  # ViT: 2336, 5992, 10113
    rows = printed().training_steps
    rising = rows.assign(flop_per_s=rows.flop_per_s.where(rows.gpu != "NVIDIA V100", 20e12))
    assert ruled("pham2024-6a", replace(printed(), training_steps=rising)).mark == CONFIRMED


def test_a_misprint_decides_nothing():
    assert ruled("pham2024-7").mark == UNDECIDED
    rows = printed().training_steps
    mended = rows.assign(flop_per_s=rows.flop_per_s.where(rows.flop_per_s != 204.8e9, 1290e9))
    assert ruled("pham2024-7", replace(printed(), training_steps=mended)).mark == CONFIRMED


def test_memory_of_the_backward_pass():
    # linear: 234 MB of gradients; convolution: 10 MB and 1 MB an image, so 74 MB at batch size 64
    ruling = ruled("madani2026-10")
    assert ruling.mark == CONFIRMED
    assert f"linear (234{SPACE}MB of 245{SPACE}MB) at batch size 1" in ruling.text


def test_a_backward_pass_that_was_measured():
    # backward over forward on the CPU: 24/10, 1000/400, 98/50: 2.4 in the median; of the GPU's one model 1.7
    paper = with_claims(trained())
    assert "2.4 in the median" in ruled("hw1part2-1", paper).text
    assert ruled("hw1part2-1", paper).mark == UNDECIDED  # the CPU's is from 2 to 3, of the GPU's there are too few


def on_cpu(**frames):
    """The tiny paper's CPU alone, with other cells or steps, and the claims."""
    cpu = tiny().machine("cpu")
    frames = {name: pd.DataFrame(rows).assign(precision="fp32", status="ok") for name, rows in frames.items()}
    return with_claims(replace(tiny(), machines=(replace(cpu, **frames),)))


def step(model, ratio, low, high):
    return {"model": model, "batch": 64, "time_ratio": ratio, "time_ratio_low": low, "time_ratio_high": high}


def test_named_models_are_judged_by_themselves():
    # madani2026 prints the passes of alexnet and resnet18; another's median is no matter
    others = [step(f"other{index}", 4.0, 3.9, 4.1) for index in range(24)]
    alexnet, resnet = step("alexnet", 2.1, 2.0, 2.2), step("resnet18", 2.6, 2.4, 2.8)
    ruling = ruled("madani2026-8", on_cpu(steps=[alexnet, resnet, *others]))
    assert ruling.mark == CONFIRMED  # twice is from 1.5 to 2.5
    assert "the ratio is 2.10 (2.00 to 2.20) of alexnet (batch size 64) and 2.60" in ruling.text
    slower = step("resnet18", 3.0, 2.9, 3.1)
    assert ruled("madani2026-8", on_cpu(steps=[alexnet, slower, *others])).mark == REFUTED
    # it printed them at batch size 64: another counts only where that was not measured
    elsewhere = [slower | {"batch": 32}, resnet]
    assert ruled("madani2026-8", on_cpu(steps=[alexnet, *elsewhere])).mark == CONFIRMED
    assert ruled("madani2026-8", on_cpu(steps=[alexnet, elsewhere[0]])).mark == REFUTED
    gap = ruled("madani2026-8", on_cpu(steps=[alexnet, *others]))
    assert gap.mark == UNDECIDED
    assert gap.text.endswith("; resnet18 was not measured.")
    assert "no step of the study's models" in ruled("madani2026-8", on_cpu(steps=others)).text


def cell(model, batch, latency_s, low, high, **columns):
    times = {"latency_s": latency_s, "latency_low_s": low, "latency_high_s": high}
    return {"model": model, "batch": batch, "forward_flop": 1.0, **times, **columns}


@pytest.mark.parametrize(
    ("least", "most", "mark"),
    [
        (4.9, 11.2, UNDECIDED),
        # 7.63 / 8.04 = 0.949, at most exp(hypot(ln(8 / 7.63), ln(8.04 / 7.9))) = 1.052 times that: 0.998
        (7.9, 8.2, REFUTED),
    ],
)
def test_a_trend_needs_its_interval(least, most, mark):
    first = cell("wav2vec2_base", 1, 1 / 8.04, 1 / most, 1 / least)  # 8.04 inputs/s
    last = cell("wav2vec2_base", 256, 256 / 7.63, 256 / 8.0, 256 / 7.3)
    ruling = ruled("madani2026-7a", on_cpu(cells=[last, first]))
    assert ruling.mark == mark
    assert "is 0.9" in ruling.text
    vgg = [{**row, "model": "vgg16"} for row in (first, last)]
    falls = {REFUTED: CONFIRMED, UNDECIDED: UNDECIDED}[mark]
    assert ruled("madani2026-6a", on_cpu(cells=vgg)).mark == falls


@pytest.mark.parametrize(
    ("share", "low", "high", "mark"),
    [(0.62, 0.58, 0.67, UNDECIDED), (0.40, 0.38, 0.42, CONFIRMED), (0.90, 0.85, 0.95, REFUTED)],
)
def test_nearest_to_the_peak(share, low, high, mark):
    def reaches(model, share, low, high):  # a call of one second, more or less
        return cell(model, 64, 1.0, share / high, share / low, peak_share=share)

    found = [reaches("vgg16", 0.61, 0.55, 0.66), reaches("resnet18", share, low, high), reaches("other", 0.99, 0.9, 1)]
    ruling = ruled("a1rooflines-4", on_cpu(cells=found))
    assert ruling.mark == mark
    assert f"VGG16 reaches 61{SPACE}% (55{SPACE}to{SPACE}66{SPACE}%) of peak" in ruling.text
    assert "resnet18 comes nearest" in ruling.text


@pytest.mark.parametrize(("backward", "mark"), [(0.7003, CONFIRMED), (0.76, REFUTED)])
def test_a_share_within_a_range(monkeypatch, backward, mark):
    # 62.6 % and 70.03 % of passes that take 1 s; 76 % of 0.99 to 1.01 s are 75.2 % at least, beyond 70.7
    ends = {f"{stage}{end}_s": value for stage in ("forward", "backward") for end, value in
            (("", 1.0), ("_low", 0.99), ("_high", 1.01))}  # fmt: skip
    paper = on_cpu(steps=[step("alexnet", 1.0, 0.9, 1.1) | ends | {"backward_flop": 1.0}])
    rows = pd.DataFrame({"stage": ["forward", "backward"], "time_s": [0.626, backward]})
    rows = rows.assign(model="alexnet", batch=64, layer_kind="convolution")
    monkeypatch.setattr(layer_costs, "of_shown", lambda paper, part: (paper.machine("cpu"), rows))
    ruling = ruled("madani2026-9", paper)
    assert ruling.mark == mark
    assert f"63{SPACE}% (62{SPACE}to{SPACE}63{SPACE}%) of the forward pass" in ruling.text


def test_to_dominate_is_not_asked_of_every_model():
    # one of twelve has 40 %: the median is 90 %, between the third and the tenth
    kinds = [(f"net{index}", kind, share) for index in range(12) for kind, share in
             (("convolution", 0.4 if index == 0 else 0.9), ("pooling", 0.6 if index == 0 else 0.1))]  # fmt: skip
    rows = pd.DataFrame(kinds, columns=["model", "layer_kind", "time_s"])
    ruling = coursework._dominant(rows, "time_s", "time")
    assert ruling.mark == CONFIRMED
    assert ruling.text.endswith("more than half in 11.")
    # of six the interval is from the least to the most
    assert coursework._dominant(rows[rows.model < "net14"].head(12), "time_s", "time").mark == UNDECIDED


def test_a_claim_about_the_limits_of_a_plot_is_not_comparable():
    assert ruled("daugherty-3").mark == NOT_COMPARABLE


def test_a_ridge_point_that_was_measured_leaves_some_models_on_either_side():
    ridge = Ridge("X", Measured(10, (8, 12)))
    assert ridge.holds(5, "memory-bound") is True
    assert ridge.holds(9, "memory-bound") is None
    assert ridge.holds(13, "memory-bound") is False
    assert ridge.holds(13, "compute-bound") is True


@pytest.mark.parametrize(
    ("stated", "interval", "mark"),
    [(0.36, (0.1, 0.6), CONFIRMED), (0.5, (0.1, 0.6), UNDECIDED), (0.9, (0.1, 0.6), REFUTED)],
)
def test_a_stated_correlation(stated, interval, mark):
    found = Correlation(0.362, interval, 9, 9)
    assert madani._correlated("this with that", found, stated).mark == mark


@pytest.mark.parametrize(
    ("interval", "low", "none"),
    [((-0.3, 0.4), True, True), ((0.1, 0.4), True, True), ((0.2, 0.9), None, False), ((-0.3, 0.9), None, None),
     ((0.6, 0.9), False, False)],
)  # fmt: skip
def test_a_low_correlation(interval, low, none):
    found = Correlation(sum(interval) / 2, interval, 9, 9)
    assert coursework._low(found) is low
    assert coursework.uncorrelated(found) is none


def test_machines_that_contradict_leave_a_claim_open():
    def on(*kinds):
        return lambda machine: Ruling(machine.chip_kind in kinds, "It is so.")

    assert anywhere(tiny(), on("cpu", "gpu")).mark == CONFIRMED
    assert anywhere(tiny(), on()).mark == REFUTED
    assert anywhere(tiny(), on("cpu")).mark == UNDECIDED


def test_batch_sizes_that_contradict_leave_a_claim_open():
    assert at_batches({1: True, 64: True}, "So.").mark == CONFIRMED
    assert at_batches({1: False, 64: False}, "So.").mark == REFUTED
    ruling = at_batches({1: True, 64: False}, "So.")
    assert ruling.mark == UNDECIDED
    assert ruling.text.endswith("It holds at batch size 1 and does not hold at batch size 64; the claim names none.")
    assert at_batches({1: None, 64: None}, "So.") == Ruling(None, "So.")
    ruling = at_batches({1: True, 64: True, 256: None}, "So.")
    assert ruling.text.endswith("It holds at batch size 1 and 64 and is open at batch size 256; the claim names none.")


def test_summary():
    text = claims.summary(printed())
    marks = [claims.ruling(printed(), claim).mark for claim in printed().published.claims.id]
    assert text.startswith(f"Of 44{SPACE}claims the cache confirms {marks.count(CONFIRMED)} and")
    assert text.endswith("and 1 it has nothing to hold against.")
