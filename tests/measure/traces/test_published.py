"""The committed tables of published traces against the FLOP of their networks, from shapes alone.

A product of m x k and k x n is 2 m k n; attention multiplies t x t scores of each head twice. Both chips ran the same.
"""

import pytest
from helpers.places import ROOT

from measure.cache import table
from measure.domain.trace_records import TraceOperator


def attention(sequences, tokens, width):
    """Of all heads together."""
    return 4 * sequences * tokens**2 * width


def vit_base():
    """4 images; 196 patches of 16 x 16 x 3, 197 tokens of 768, 12 layers, 3072 between; a pooler on the first token."""
    layer = 2 * 197 * 768 * (4 * 768 + 2 * 3072) + attention(1, 197, 768)
    return 4 * (2 * 196 * 768 * 768 + 12 * layer + 2 * 768 * 768)


def qwen():
    """16 prompts of 559 tokens of 1024, 24 layers: 4 products of 1024 x 1024, 3 of 1024 x 2816. The angles of rotary
    positions are an outer product of 32 x 559. The head is not in the trace.
    """
    layer = 2 * 16 * 559 * 1024 * (4 * 1024 + 3 * 2816) + attention(16, 559, 1024)
    return 24 * layer + 2 * 32 * 559


def timesformer():
    """128 frames as 16 clips of 8: 196 patches a frame, which attend over time, then over space, with a class token."""
    over_time = 2 * 196 * 128 * 768 * (4 * 768 + 768) + attention(196 * 16, 8, 768)
    over_space = 2 * 8 * 3137 * 768 * 4 * 768 + attention(8, 3137, 768)
    between = 2 * 25089 * 768 * 2 * 3072
    return 2 * 128 * 196 * 768 * 768 + 12 * (over_time + over_space + between) + 2 * 768 * 400


def operators(trace):
    return table.read(ROOT / "data" / "traces" / trace / "operators.csv", TraceOperator)


@pytest.mark.parametrize("chip", ["nvidia-h100-sxm", "amd-instinct-mi300x"])
@pytest.mark.parametrize(
    ("network", "flop"),
    [("vit-base", vit_base()), ("qwen1.5-0.5b-prefill", qwen()), ("timesformer-base", timesformer())],
)
def test_the_flop_of_a_step_are_those_of_the_network(chip, network, flop):
    rows = operators(f"{chip}-{network}")
    assert sum(row.flop or 0 for row in rows) == flop
    assert sum(row.recompute_flop or 0 for row in rows) == 0
    assert all(row.reason for row in rows if row.flop is None)


def test_a_training_step_recomputes_between_its_checkpoints():
    rows = operators(RESNET)
    steps = sorted({row.step for row in rows if row.step is not None})
    forward, backward, again = (
        [sum(getattr(row, column) or 0 for row in rows if (row.step, row.stage) == (step, stage)) for step in steps]
        for stage, column in (("forward", "flop"), ("backward", "flop"), ("backward", "recompute_flop"))
    )
    # The first convolution needs no gradient of its input: 10 images, 64 channels of 112 x 112, of 7 x 7 x 3.
    assert backward == [2 * each - 2 * 10 * 64 * 112**2 * 7 * 7 * 3 for each in forward]
    assert all(0 < each < whole for each, whole in zip(again, forward, strict=True))


# FLOP of a call as TraceLens prints them (GFLOPS_first in the tables of operators below its tests/traces): trace,
# operator, its first shapes, TraceLens's count, and ours as a multiple of it.
QWEN, TIMESFORMER = "nvidia-h100-sxm-qwen1.5-0.5b-prefill", "nvidia-h100-sxm-timesformer-base"
VIT, RESNET = "nvidia-h100-sxm-vit-base", "amd-instinct-mi300x-resnet-training"
FLASH = "_scaled_dot_product_flash_attention"
PEERS = [
    (QWEN, "mm", "8944x1024 1024x2816", 51.581550592, 1),
    (TIMESFORMER, "bmm", "96x3137x64 96x64x3137", 120.923369472, 1),
    (TIMESFORMER, "bmm", "37632x8x8 37632x8x64", 0.308281344, 1),
    (VIT, "convolution", "4x3x224x224 768x3x16x16 768", 0.924844032, 1),
    (VIT, FLASH, " ".join(["4x12x197x64"] * 3), 0.476884992, 1),
    # With a causal mask TraceLens counts half of the scores, and this project all, as for models.
    (QWEN, FLASH, " ".join(["16x16x559x64"] * 3), 10.239377408, 2),
    # It adds the bias to the products: 1 FLOP for each result, at most 0.2 %. We count that as other arithmetic.
    (QWEN, "addmm", "1024 8944x1024 1024x1024", 18.766086144, 1),
    (VIT, "addmm", "3072 788x768 768x3072", 3.720671232, 1),
    (RESNET, "convolution_backward", "10x64x56x56 10x64x56x56 64x64x3x3", 4.62422016, 1),
    # Of the first layer it counts the gradient of the images too, which torch was not asked for.
    (RESNET, "convolution_backward", "10x64x112x112 10x3x224x224 64x3x7x7", 4.72055808, 0.5),
]


@pytest.mark.parametrize(("trace", "operator", "shape", "gflop", "factor"), PEERS)
def test_products_convolutions_and_attention_against_tracelens(trace, operator, shape, gflop, factor):
    row = next(row for row in operators(trace) if (row.operator, row.shape) == (operator, shape))
    bias = row.other_flop if operator == "addmm" else 0
    assert row.flop + bias == round(gflop * 1e9) * factor * row.calls
    if (trace, operator) == (QWEN, "addmm"):
        assert row.byte == 36.939453125 * 2**20 * row.calls  # as TraceLens prints it
