"""Every claim has a rule; the rules of those that arithmetic decides, by hand."""

from dataclasses import replace

import pytest
from helpers.papers import empty, many, tiny
from helpers.published_papers import printed
from helpers.training_papers import trained

from report.published import claims
from report.published.claims.ruling import CONFIRMED, REFUTED, UNDECIDED, Ruling, anywhere, at_batches, whole
from report.text.quantities import SPACE


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
    for claim in ("madani2026-8", "a1rooflines-3", "daugherty-1", "hw1part2-3"):
        ruling = ruled(claim)
        assert ruling.mark == UNDECIDED
        assert "python -m measure" in ruling.text


def test_a_claim_without_a_rule_is_undecided():
    assert ruled("nobody-1").mark == UNDECIDED


def test_costs_of_steps():
    # 2 x 64 x (3 x 4.089 - 0.118) G = 1555 G
    for claim, step in (("pham2024-1", "1.555"), ("pham2024-2", "1.678"), ("pham2024-3", "82.48")):
        assert ruled(claim).mark == REFUTED
        assert f"A step takes {step}" in ruled(claim).text


def test_sides_of_the_ridge_by_counters():
    # ViT on the L4: 5992 / 79.67 = 75.2 FLOP/B, below 30.3 T / 300 G = 101
    ruling = ruled("pham2024-4")
    assert ruling.mark == REFUTED
    assert "75.2" in ruling.text
    # MobileNet alone would be confirmed: 3.71, 12.4 and 5.28 are all below 25.3, 101 and 17.4
    rows = printed().training_steps
    faster = rows.assign(flop_per_s=rows.flop_per_s.where(rows.model != "vit", rows.flop_per_s * 2))
    assert ruled("pham2024-4", replace(printed(), training_steps=faster)).mark == CONFIRMED


def test_orders_of_printed_rates():
    assert ruled("pham2024-5").mark == REFUTED  # the V100 has the highest rate of both
    assert ruled("pham2024-6").mark == REFUTED  # MobileNet: 2224 on the L4, 2094 on the V100
    rows = printed().training_steps
    rising = rows.assign(flop_per_s=rows.flop_per_s.where(rows.gpu != "NVIDIA V100", 20e12))
    assert ruled("pham2024-6", replace(printed(), training_steps=rising)).mark == CONFIRMED


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
    # backward over forward on the CPU: 24/10, 1000/400, 98/50: 2.4 in the median; of the GPU's 1.7
    paper = with_claims(trained())
    assert "2.40 in the median" in ruled("madani2026-8", paper).text
    assert ruled("madani2026-8", paper).mark == REFUTED  # neither from 1.8 to 2.2
    assert ruled("hw1part2-1", paper).mark == UNDECIDED  # the CPU's is from 2 to 3, the GPU's is not


def test_parts_of_a_claim():
    def part(holds):
        return lambda: Ruling(holds, "It is so.")

    assert whole([part(True), part(True)]).mark == CONFIRMED
    assert whole([part(True), part(None)]).mark == UNDECIDED
    assert whole([part(None), part(False)]).mark == REFUTED


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
    assert ruling.text.endswith("It holds at batch size 1, not at 64; the claim names none.")


def test_summary():
    # Of pham2024 four are refuted by arithmetic, two by order; others need what this paper lacks.
    text = claims.summary(printed())
    marks = [claims.ruling(printed(), claim).mark for claim in printed().published.claims.id]
    assert text.startswith(f"Of 32{SPACE}claims the cache confirms {marks.count(CONFIRMED) or 'none'} and")
