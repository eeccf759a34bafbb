"""Parallel plans: what each GPU holds, how many requests fit, and plans, contexts and chips that do not."""

import pytest

from measure.errors import UserError
from measure.serving import configuration
from measure.serving.decoder import GroupedAttention, StateSpace
from measure.serving.plan import Plan, check_context, check_precisions, memories, most_requests
from measure.serving.step import decode, prefill

H100 = 80e9  # bytes


def test_gpus_share_weights_and_cache():
    """Llama-3.1-70B at fp8 on 8 GPUs: 68,451,041,280 weights at a byte and two tables at two, an eighth each; norms,

    161 · 8192 numbers at two bytes, on each. A request of 1024 tokens: 80 layers, one head, 2 · 128 B a token.
    """
    (held,) = memories(configuration.find("Llama-3.1-70B-Instruct-FP8"), Plan(tensor=8), 1024)
    assert held.weight_byte == (80 * 855_638_016 + 2 * 2 * 8192 * 128256) / 8 + 2 * 161 * 8192
    assert held.request_byte == 1024 * 80 * 2 * 128


def test_how_many_requests_fit():
    """Llama-3.1-8B on 80 GB: 80e9 - 16,060,522,496 over 131,072 B a token and 4096 tokens: 119.1."""
    decoder = configuration.find("Meta-Llama-3.1-8B")
    assert most_requests(decoder, Plan(), 4096, H100) == 119
    assert most_requests(decoder, Plan(data=2), 4096, H100) == 238


def test_stages_and_groups_hold_parts():
    decoder = configuration.find("DeepSeek-V3")
    (whole,) = memories(decoder, Plan(), 1)
    assert whole.weight_byte == pytest.approx(decoder.weight_byte)
    staged = memories(decoder, Plan(pipeline=4), 1)
    norms = 3 * 7168 * 2  # the last norm counts on each stage
    assert sum(each.weight_byte for each in staged) == pytest.approx(whole.weight_byte + norms)
    (spread,) = memories(decoder, Plan(data=8, expert=8), 1)
    # A GPU has all but 7/8 of the experts: 58 layers, 256 experts, 3 · 7168 · 2048 weights of 8 + 32 / 128² bits
    experts = 58 * 256 * 3 * 7168 * 2048 * (8 + 32 / 128**2) / 8
    assert spread.weight_byte == pytest.approx(whole.weight_byte - 7 / 8 * experts)
    assert spread.request_byte == whole.request_byte


def test_a_tied_table_is_held_once():
    """GPT-2's table of 96 · 64 at 2 B serves both ends, unless they are on two stages."""
    values = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 64, "vocab_size": 96}
    decoder = configuration.read(values)
    (whole,) = memories(decoder, Plan(), 1)
    assert whole.weight_byte == decoder.weight_byte == 2 * decoder.parameters
    first, last = memories(decoder, Plan(pipeline=2), 1)
    assert first.weight_byte == last.weight_byte
    assert first.weight_byte + last.weight_byte == whole.weight_byte + 2 * (96 * 64 + (64 + 2) * 64)


@pytest.mark.parametrize(
    ("groups", "gpus", "can_divide"),
    [(4, 2, True), (2, 4, True), (4, 3, False), (3, 2, False), (1, 12, True)],  # a part of a group is no GPU's
)
def test_heads_of_a_state_space_and_their_groups_are_shared(groups, gpus, can_divide):
    assert StateSpace(12, 8, groups, 16, 4, 64).can_divide(gpus) == can_divide


def test_a_bias_of_attentions_output_is_a_parameter():
    # 4 heads of 8 from 16 numbers and back: 3 x 16 x 32 + 32 x 16 weights, and one bias for each of 16 outputs
    plain, biased = (GroupedAttention(4, 4, 8, has_output_bias=has_bias) for has_bias in (False, True))
    counts = [sum(each.count + each.copies * each.bias for each in of.weights(16)) for of in (plain, biased)]
    assert counts == [2048, 2064]


REFUSED = {
    "tensor=3 does not divide the heads and matrices of a layer; use tensor=2 or tensor=4": Plan(tensor=3),
    "tensor=0 does not divide": Plan(tensor=0),
    "expert=3 cannot share 128 experts among the 8 GPUs of a stage; use expert=2 or expert=4": Plan(8, 3),
    "expert=16 cannot share 128 experts among the 8 GPUs of a stage; use expert=8": Plan(8, 16),
    "94 layers cannot make pipeline=95 stages; use pipeline=94": Plan(pipeline=95),
    "data=0 is no number of groups; use data=1": Plan(data=0),
}


@pytest.mark.parametrize("words", REFUSED)
def test_plans_that_do_not_divide_are_refused_with_the_nearest(words):
    with pytest.raises(UserError, match=words):
        decode(configuration.find("Qwen3-235B-A22B"), REFUSED[words], 8, 100)


def test_networks_without_experts_share_none():
    with pytest.raises(UserError, match=r"expert=2 cannot share layers without experts .* use expert=1"):
        prefill(configuration.find("Qwen3-32B"), Plan(2, 2), 1, 100)


def test_a_context_beyond_the_configuration_is_refused():
    decoder = configuration.find("Qwen3-32B")  # 40,960 positions
    decode(decoder, Plan(), 1, 40_959)
    with pytest.raises(UserError, match="takes 40960 tokens at most, not 40961; use a context of 40960 or less"):
        prefill(decoder, Plan(), 1, 40_961)
    with pytest.raises(UserError, match="use a --context of 40959 or less"):  # a token more is scored
        decode(decoder, Plan(), 1, 40_960)


@pytest.mark.parametrize(
    ("context", "output", "remedy"),
    [
        (40_960, 1024, "use a --context of 39936 or less"),  # 40,960 - 1,024
        (4096, 1_000_000, "use an --output of 36864 or less"),  # 40,960 - 4,096
        (40_000, 1024, "use a --context of 39936 or less or an --output of 960 or less"),
        (40_960, 40_960, "use less of both"),
    ],
)
def test_the_room_of_context_and_output_is_told(context, output, remedy):
    decoder = configuration.find("Qwen3-32B")  # 40,960 positions
    with pytest.raises(UserError, match=remedy) as refused:
        check_context(decoder, context + output, output)
    assert str(refused.value).endswith(remedy)
    check_context(decoder, 39_936 + 1024, 1024)
    check_context(decoder, 4096 + 36_864, 36_864)


def test_weights_that_do_not_fit_are_told_by_how_much():
    """Llama-3.1-70B at 16 bits: 141.1 GB, 61.1 more than 80. On two GPUs 70.6 GB each fit."""
    decoder = configuration.find("Meta-Llama-3.1-70B")
    with pytest.raises(UserError, match=r"take 61\.1 GB more than it has .*; use 2 GPUs \(--tp 2\) or weights of"):
        most_requests(decoder, Plan(), 4096, H100)
    with pytest.raises(UserError, match="use a GPU with more memory or weights of fewer bits"):
        most_requests(configuration.find("DeepSeek-V3"), Plan(), 4096, 1e9)
    # 80 layers of 8 heads at 2 · 256 B: 42.9 GB for 131,072 tokens, of which a GPU has 21.5 GB next to 70.6 of weights
    with pytest.raises(
        UserError, match=r"one request of 131072 tokens takes 12.0 GB more than the weights leave of 80"
    ):
        most_requests(decoder, Plan(tensor=2), 131_072, H100)


def test_a_bf16_network_needs_units_for_bf16():
    """Turing multiplies fp16 alone at 16 bits: its white paper names no bf16, which Ampere brought."""
    decoder, t4 = configuration.find("Meta-Llama-3.1-8B"), {"fp32": 8.1e12, "fp16": 65e12, "int8": 130e12}
    for weights in (None, "int8"):  # the head stays at 16 bits
        with pytest.raises(UserError, match=r"has no units for bf16, .*; use --weights fp16 or another chip"):
            check_precisions(configuration.stored(decoder, weights), "NVIDIA T4", t4)
    check_precisions(configuration.stored(decoder, "fp16"), "NVIDIA T4", t4)
    with pytest.raises(UserError, match="has no units for bf16, in which the network is computed; use another chip"):
        check_precisions(decoder, "A", {"fp32": 8.1e12})


def test_a_precision_that_a_chip_lacks_is_refused():
    """An A100 has no units for fp8 or fp4; it unpacks mxfp4."""
    a100 = {"fp32": 19.5e12, "fp16": 312e12, "bf16": 312e12, "int8": 624e12}
    check_precisions(configuration.find("gpt-oss-120b"), "NVIDIA A100", a100)
    words = (
        "NVIDIA A100 has no units for fp8, in which fp8_block weights are multiplied; use another chip or weights in"
    )
    with pytest.raises(UserError, match=f"{words} fp32, fp16, bf16, int8, int4, mxfp4"):
        check_precisions(configuration.find("DeepSeek-V3"), "NVIDIA A100", a100)
