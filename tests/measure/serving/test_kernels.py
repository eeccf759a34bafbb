"""FLOP and bytes of served kernels by hand, by published figures, and by torch's counter."""

import random
from statistics import mean

import pytest

from measure.serving import kernels
from measure.serving.formats import FORMATS
from measure.serving.kernels import KernelWork

BF16, FP8, NVFP4 = FORMATS["bf16"], FORMATS["fp8"], FORMATS["nvfp4"]


def test_a_product_reads_its_weights_as_stored():
    """2 · 2 · 3 · 4 FLOP. fp8: 12 weights, 8 inputs of a byte and 6 outputs of two. nvfp4: weights, inputs 4.5 bits."""
    assert kernels.product(2, 3, 4, FP8) == KernelWork(48, 12, 0, 8 + 12)
    assert kernels.product(2, 3, 4, NVFP4) == KernelWork(48, 12 * 4.5 / 8, 0, 8 * 4.5 / 8 + 12)
    assert kernels.product(2, 3, 4, FORMATS["mxfp4"]) == KernelWork(48, 12 * 4.25 / 8, 0, 16 + 12)  # inputs at 16 bits
    assert kernels.product(2, 3, 4, BF16, copies=5) == kernels.product(2, 3, 4, BF16) * 5


def test_a_mask_and_a_window_hide_scores():
    assert kernels.visible(3, 0) == 1 + 2 + 3
    assert kernels.visible(1, 7) == 8
    assert kernels.visible(5, 0, most=2) == 1 + 2 + 2 + 2 + 2
    assert kernels.visible(3, 2, most=4) == 3 + 4 + 4
    assert kernels.visible(2, 9, most=4) == 4 + 4
    assert kernels.visible(3, 1, most=4) == 2 + 3 + 4


def test_decode_attention_reads_its_cache_once_for_a_group():
    """2 requests, 7 tokens before, 4 heads on 2 of keys, 8 wide: 2 · 2 · 4 · 8 scores, 2 products of 2 · 8 FLOP each.

    Keys and values of 8 tokens are read and those of one written: 2 · 2 · 2 · 8 · 9 numbers of 2 B.
    """
    work = kernels.attention(2, 1, 7, heads=4, kv_heads=2, head_size=8, cache=BF16)
    assert work == KernelWork(2 * 4 * 8 * 2 * 16, 0, 2 * 2 * 2 * 8 * 9 * 2, 2 * 2 * 4 * 8 * 2)
    halved = kernels.attention(2, 1, 7, 4, 2, 8, FP8)
    assert halved.cache_byte == work.cache_byte / 2
    window = kernels.attention(2, 1, 7, 4, 2, 8, BF16, window=4)
    assert (window.flop, window.cache_byte) == (work.flop / 2, work.cache_byte * 5 / 9)


def test_prefill_attention_is_half_of_torchs_count():
    """Torch counts n² scores a head. A mask leaves n (n + 1) / 2."""
    torch = pytest.importorskip("torch")
    from torch.utils.flop_counter import FlopCounterMode

    query = torch.empty(2, 4, 16, 8, device="meta")
    with FlopCounterMode(display=False) as counter:
        torch.ops.aten._scaled_dot_product_flash_attention(query, query, query)
    work = kernels.attention(2, 16, 0, 4, 4, 8, BF16)
    assert work.flop * 2 * 16 / 17 == counter.get_total_flops()
    assert work.cache_byte == 2 * 2 * 4 * 8 * (16 + 16) * 2  # written, and read


def test_latent_attention_in_both_forms():
    """2 heads, rank 8, rotary 4, plain 6, value 10; 5 tokens seen by one new one of one request.

    Absorbed: 2 · 2 · 5 · (8 + 4 + 8) FLOP; cache 12 · (5 + 1) · 2 B; queries of 12 and results of 8 numbers a head.
    Expanded, 3 new tokens: 6 scores a head, 2 · (6 + 4 + 10) FLOP each; 12 · 3 · 2 B written; queries and results,
    keys and values of 3 tokens: 2 · 20 numbers a head each.
    """
    sizes = {"heads": 2, "rank": 8, "rotary": 4, "plain": 6, "value": 10, "cache": BF16}
    absorbed = kernels.latent_attention(1, 1, 4, **sizes, is_absorbed=True)
    assert absorbed == KernelWork(400, 0, 144, 2 * 20 * 2)
    expanded = kernels.latent_attention(1, 3, 0, **sizes, is_absorbed=False)
    assert expanded == KernelWork(2 * 6 * 40, 0, 72, 2 * 3 * 2 * 20 * 2)
    selected = kernels.latent_attention(1, 1, 99, **sizes, is_absorbed=True, most=5)
    assert selected == absorbed


def test_an_indexer_scores_all_tokens():
    """4 heads of 16, 10 scores: 2 · 4 · (16 + 1) · 10 FLOP. Keys of 16 + 4 B: 10 read, one written."""
    work = kernels.index_scores(1, 1, 9, heads=4, size=16)
    assert (work.flop, work.cache_byte) == (1360, 11 * 20)


def test_random_routing_meets_experts():
    """Two tokens on 2 of 8 experts: 8 · (1 - 0.75²) = 3.5. One token of DeepSeek-V3 meets 8."""
    assert kernels.distinct_experts(2, 8, 2) == 3.5
    assert kernels.distinct_experts(1, 256, 8) == pytest.approx(8)
    draw = random.Random(1)
    met = [len({one for _ in range(30) for one in draw.sample(range(64), 6)}) for _ in range(2000)]
    assert kernels.distinct_experts(30, 64, 6) == pytest.approx(mean(met), rel=0.003)


def test_power_law_routing_by_hand():
    """Alpha = 2 inverts: shares 1 / (1 - 7/8 p) of 1 to 8 at p = 3/4, 1/4: 2.909 and 1.28, so 6.94 and 3.06 of 10.

    With fewer calls than experts, 0.01 to 2: 1 / (100 - 99.5 p): 0.0773, 0.0264, 0.0160, 0.0114; of 2 calls 1.18,
    0.40, 0.24 and 0.17. Rounded, one call is lost; the busiest gets it.
    """
    assert kernels.power_law_tokens(10, 2, 1, 2.0) == [7, 3]
    assert kernels.power_law_tokens(2, 4, 1, 2.0) == [2, 0, 0, 0]
    assert sum(kernels.power_law_tokens(77, 128, 8, 1.2)) == 77 * 8


def drawn(tokens: int, count: int, active: int, alpha: float, draw: random.Random) -> int:
    """Experts that get a token in one draw, written from aiconfigurator's description, with its own random shares."""
    low, high = (1, 0.8 * tokens) if tokens * active > count else (0.01, 2)
    places = [draw.random() for _ in range(count)]
    shares = [
        ((high ** (1 - alpha) - low ** (1 - alpha)) * u + low ** (1 - alpha)) ** (1 / (1 - alpha)) for u in places
    ]
    return sum(round(share / sum(shares) * tokens * active) > 0 for share in shares)


@pytest.mark.parametrize(("tokens", "alpha"), [(256, 1.01), (256, 1.2), (2048, 1.2)])
def test_power_law_routing_is_that_of_draws(tokens, alpha):
    draw = random.Random(1)
    met = mean(drawn(tokens, 128, 8, alpha, draw) for _ in range(300))
    assert sum(each > 0 for each in kernels.power_law_tokens(tokens, 128, 8, alpha)) == pytest.approx(met, rel=0.05)


def test_experts_read_each_distinct_one_once():
    """4 tokens, 16 wide, 8 inner, 2 of 8 experts, on 2 GPUs with different experts and 2 with parts of them.

    A GPU has 4 · 2 / 2 rows of 3 products of 16 by 4: 2 · 4 · 192 FLOP. It reads 8 (1 - 0.75⁴) / 2 = 2.734 of its 4
    experts, 192 weights each. A row: 16 + 4 + 4 inputs at one byte, 16 + 16 numbers at two.
    """
    work = kernels.experts(4, 16, 8, 8, 2, FP8, tensor=2, expert=2)
    assert work.flop == 2 * 4 * 192
    assert work.weight_byte == pytest.approx(8 * (1 - 0.75**4) / 2 * 192)
    assert work.activation_byte == 4 * ((16 + 8) + (16 + 16) * 2)
    known = kernels.experts(4, 16, 8, 8, 2, FP8, distinct=3)
    assert known.weight_byte == 3 * 3 * 16 * 8


def test_recurrences_of_one_token():
    """A state of 8 by 12: 6 FLOP a number for a gated delta rule, 4 for Mamba2; at 4 B it is read and written.

    Inputs and outputs: queries and keys of 2 · 2 · 8, values and results of 4 · 12 each; for Mamba2 8 · 16 each and
    B and C of 2 · 8 each.
    """
    delta = kernels.gated_delta(3, 1, key_heads=2, value_heads=4, key_size=8, value_size=12, state_bit=32)
    assert delta == KernelWork(3 * 4 * 96 * 6, 0, 3 * 4 * 96 * 4 * 2, 3 * (32 + 96) * 2)
    space = kernels.state_space(3, 1, heads=8, head_size=16, groups=2, state_size=8, state_bit=32)
    assert space == KernelWork(3 * 8 * 128 * 4, 0, 3 * 8 * 128 * 4 * 2, 3 * (256 + 32) * 2)
    assert kernels.convolution(3, 1, 10, 4) == KernelWork(3 * 80, 80, 2 * 3 * 30 * 2, 2 * 3 * 10 * 2)


def test_chunks_of_a_state_space_by_hand():
    """300 tokens are 2 chunks of 256. A token and head: 4 · 16 · 8 for the state, 2 · 256 · 16 for the scores times
    inputs; a token and group: 2 · 256 · 8.
    """
    work = kernels.state_space(1, 300, heads=8, head_size=16, groups=2, state_size=8, state_bit=32)
    assert work.flop == 512 * (8 * (512 + 8192) + 2 * 4096)


@pytest.mark.slow
def test_chunks_of_a_gated_delta_rule_are_those_of_transformers():
    """Its products are counted by torch. It solves triangles, where a kernel multiplies: 2 · 64 · (8 + 12) a token."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from torch.utils.flop_counter import FlopCounterMode
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule as rule

    keys, values, gates = torch.rand(2, 100, 2, 8), torch.rand(2, 100, 4, 12), torch.rand(2, 100, 4)
    with FlopCounterMode(display=False) as counter:
        rule(keys, keys, values, -gates, gates, chunk_size=64)
    work = kernels.gated_delta(2, 100, 2, 4, 8, 12, 32)
    assert work.flop == counter.get_total_flops() + 2 * 4 * 128 * 2 * 64 * (8 + 12)


def test_what_collectives_send():
    """nccl-tests: an all-reduce of S bytes on 4 GPUs sends 2 · 3/4 S each, gathering and exchanging S in all 3/4 S."""
    assert kernels.collective(kernels.ALL_REDUCE, 100, 4).sent_byte == 150
    assert kernels.collective(kernels.ALL_GATHER, 100, 4).sent_byte == 75
    assert kernels.collective(kernels.REDUCE_SCATTER, 100, 4).sent_byte == 75
    assert kernels.collective(kernels.ALL_TO_ALL, 100, 4).sent_byte == 75
    assert kernels.collective(kernels.SEND, 100, 2).sent_byte == 100


def test_norms_and_activations_move_bytes_alone():
    assert kernels.norm(3, 8) == KernelWork(activation_byte=4 * 3 * 8 * 2)
    assert kernels.activation(3, 8, is_gated=True) == KernelWork(activation_byte=3 * 3 * 8 * 2)
    assert kernels.activation(3, 8, is_gated=False) == KernelWork(activation_byte=2 * 3 * 8 * 2)
