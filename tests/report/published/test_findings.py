"""The findings on published results, against arithmetic by hand."""

import re
from dataclasses import replace

from helpers.published_papers import printed

from measure.domain.values import SPACE
from report.published import findings
from report.published.steps import MILLISECONDS
from report.published.verdict import by_cause, comparisons


def told(finding, paper=None):
    return finding(paper or printed()).replace(SPACE, " ")


def test_causes_are_counted_and_not_rows():
    text = told(findings.summary)
    found = comparisons(printed())
    assert f"The differences have {len(by_cause(found))} causes" in text
    # nine theoretical times are printed in milliseconds: one cause; 270 G stands for three GPUs: another one
    groups = list(by_cause(found).values())
    assert [len(rows) for rows in groups if rows[0].verdict.names(MILLISECONDS)] == [9]
    assert [len(rows) for rows in groups if (rows[0].quantity, rows[0].printed) == ("FLOP, estimate", 270e9)] == [3]
    counts = [int(word) for word in re.findall(r"(\d+) (?:agree|differ|are undecided|are not comparable)", text)]
    assert sum(counts) <= len(found) == int(re.match(r"Of (\d+)", text)[1])
    assert "none differ" in told(findings.summary, nothing())
    assert told(findings.summary, nothing()).endswith("No difference needs a cause.")


def nothing():
    """The printed paper with one figure alone, which agrees: the L4's roof."""
    paper = printed()
    empty = {name: getattr(paper.published, name).iloc[:0] for name in ("models", "training", "step_estimates")}
    chips = paper.published.chips[paper.published.chips.chip == "NVIDIA L4"]
    published = replace(paper.published, chips=chips, **empty)
    return replace(paper, published=published, training_steps=paper.training_steps.iloc[:0])


def test_theoretical_times():
    assert "A step of 270 GFLOP at 8.10 TFLOP/s takes 33.3 ms, where 33.33 s is printed: 9 of 9" in told(
        findings.theoretical_times
    )


def test_estimated_flop():
    text = told(findings.estimated_flop)
    # 270 / 1555 = 0.174; 270 / (64 x 4.089) = 1.032
    assert "The 270.0 GFLOP of resnet50 differs by a factor of 0.174" in text
    assert "the nearest is the multiply-adds of resnet50's forward pass alone, 3.2 % off" in text
    assert "The 280.0 GFLOP of vit is the multiply-adds of vit_b_32's forward pass alone" in text


def test_peaks():
    text = told(findings.peaks)
    assert "Of 17 printed peaks, 7 are not the dense one" in text
    assert "what Intel's announcement, at 1.75 GHz, lists: Intel Gaudi 3, bf16 (by 1.09)" in text  # 1835 / 1678
    assert "the peak with 2:4 sparsity: NVIDIA H100 SXM, bf16 (by 2.00), NVIDIA A100 SXM, bf16 (by 2.00) and" in text
    right = printed().published.chips.iloc[2:4]
    paper = replace(printed(), published=replace(printed().published, chips=right))
    assert told(findings.peaks, paper) == "No printed peak differs from the dense one of its datasheet."


def test_tensor_roof():
    # 8.1 T / 320 G = 25.3; 65 T / 320 G = 203; 65 / 8.1 = 8.02
    assert "from 25.3 to 203 FLOP/B, and every utilisation of arithmetic falls by 8.02" in told(findings.tensor_roof)


def test_own_arithmetic():
    # 4400 MT/s x 8 B x 2 = 70.4 GB/s
    assert "4 roofs; 3 are that product, but the bandwidth" in told(findings.roof_products)
    assert "printed as 76.8 GB/s, its product is 70.4 GB/s" in told(findings.roof_products)


def test_counter_table():
    text = told(findings.counter_table)
    # 204.8 * 0.9508 = 195, 6570 * 0.1867 = 1227 GFLOP
    assert "for resnet50 195 GFLOP (NVIDIA L4) to 1.23 TFLOP (NVIDIA V100)" in text
    assert "resnet50, NVIDIA L4 at 0.951 FLOP/B where 0.9235 is printed" in text
    right = printed().training_steps.iloc[:1]
    assert "in every row" in told(findings.counter_table, replace(printed(), training_steps=right))


def test_misprint():
    assert "215.4 GB/s × 0.9508 s = 204.8 GB, and 204.8 GFLOP/s is printed" in told(findings.misprint)
    right = printed().training_steps.iloc[:1]
    assert told(findings.misprint, replace(printed(), training_steps=right)).startswith("No printed rate")


def test_meant_models():
    # mobilenet_v3_large: 2 x 64 x (3 x 0.2166 - 0.00542) = 82.5 G, mobilenet_v2 114 G, nearer to 120, 261 and 128
    assert "none times mobilenet_v3_large and 3 times mobilenet_v2" in told(findings.meant_models)


def test_backward_flop():
    text = told(findings.backward_flop)
    assert "backward pass of alexnet, batch size 64 is that of the linear layers alone" in text


def test_roofs_kept():
    # ViT on the L4: 5992 G of 75.2 x 300 = 22563 G: 27 %; ResNet50 there 215.4 of 300 GB/s: 72 %
    text = told(findings.roofs_kept)
    assert "27 % (vit, NVIDIA L4) to 72 % (resnet50, NVIDIA L4); none lie above" in text
