import json
from typing import Any, NamedTuple

import pytest

from measure.counting.count import count
from measure.errors import UserError
from measure.models import catalog

pytest.importorskip("transformers", reason="the optional extra hf")
pytestmark = pytest.mark.slow

BATCH, LENGTH = 2, 128
TOKENS = BATCH * LENGTH
CONTEXT = 4 * TOKENS * LENGTH  # scores and their mixture: 2 products of 2 FLOP for each query, key and unit of width

# Sizes as published. d: width.
T5 = 4 * 512**2 + 2 * 512 * 2048
FORMULAS = {
    # 12 layers of 12 d² weights, and the tied head
    "gpt2": 2 * TOKENS * (12 * 12 * 768**2 + 768 * 50257) + 12 * CONTEXT * 768,
    # the pooler reads the first token alone
    "bert": 2 * TOKENS * 12 * 12 * 768**2 + 12 * CONTEXT * 768 + 2 * BATCH * 768**2,
    # 6 layers of each; the decoder's also attend to the encoder
    "t5": 2 * TOKENS * (6 * T5 + 6 * (T5 + 4 * 512**2) + 512 * 32128) + 18 * CONTEXT * 512,
}  # fmt: skip


def workload(name, batch=BATCH, precision="fp32"):
    (model,) = catalog.find([name])
    return count(model, batch, precision).workload


@pytest.mark.parametrize("name", FORMULAS)
def test_families_count_as_their_formula(name):
    row = workload(f"hf:{name}")
    assert row.forward_flop == FORMULAS[name]
    assert row.backward_flop is not None, row.reason
    assert row.uncounted is None


def test_an_encoder_decoder_decodes_a_token():
    """The encoder does not run: its keys and values are in the cache, so cross attention projects the query and the
    output alone.
    """
    t5 = workload("hf:t5_decode_64")
    assert t5.forward_flop == (
        2 * BATCH * (6 * (T5 + 2 * 512**2) + 512 * 32128) + 6 * 4 * BATCH * (65 + 64) * 512
    )  # 65 tokens decoded so far and 64 read
    # The token; keys and values of 6 layers for the tokens decoded and read; what the encoder returned, whose values
    # nothing reads: untouched are also the encoder and the keys and values of cross attention.
    assert t5.input_byte == BATCH * (8 + 6 * 2 * (64 + 64) * 512 * 4 + 64 * 512 * 4)
    assert t5.untouched_byte >= 4 * (6 * T5 + 6 * 2 * 512**2 + BATCH * 64 * 512)


# Small decoders of 2 layers. 16 wide, with 4 heads of 4, 2 of them for keys, 24 wide within, and 50 words.
SIZES = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
GATED = 3 * 16 * 24
HEAD = 16 * 50
# Projections of queries and outputs, and of keys and values
GROUPED = 2 * 16 * 16 + 2 * 16 * 8
ROUTED = 16 * 4 + 2 * GATED  # a router to 4 experts, of which each token takes 2


class Decoder(NamedTuple):
    """Settings other than ``SIZES``, weights of a layer, the width of attention, the most tokens that a token sees in
    each layer, and weights of a layer that every token in the cache passes again.
    """

    settings: dict[str, Any]
    weights: int
    width: int = 16
    windows: tuple[int, int] = (64, 64)
    again: int = 0


# Latent attention: queries of 4 heads of 4 + 2 from 8; keys and values of 4 + 4 from 8, and 2 that all heads share
LATENT = {
    "num_key_value_heads": 4, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_nope_head_dim": 4, "qk_rope_head_dim": 2,
    "v_head_dim": 4,
}  # fmt: skip
LATENT_WEIGHTS = 16 * 8 + 8 * 4 * 6 + 16 * (8 + 2) + 8 * 4 * 8 + 16 * 16
WINDOW = {"sliding_window": 4, "head_dim": 4}
DECODERS = {
    "llama": Decoder({}, GROUPED + GATED),
    "qwen3": Decoder({"head_dim": 8}, 2 * 16 * 32 + 2 * 16 * 16 + GATED, width=32),
    "gemma2": Decoder(WINDOW, GROUPED + GATED, windows=(4, 64)),
    "mixtral": Decoder({"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 4}, GROUPED + ROUTED),
    "deepseek_v3": Decoder(
        {**LATENT, "first_k_dense_replace": 2}, LATENT_WEIGHTS + GATED, width=4 * (6 + 4) // 2, again=8 * 4 * 8
    ),
}


def write(folder, kind, settings):
    path = folder / "config.json"
    path.write_text(json.dumps({"model_type": kind, **settings}))
    return f"hf:{path}"


@pytest.mark.parametrize("kind", DECODERS)
def test_decoders_count_as_one_formula(tmp_path, kind):
    """2 · weights · tokens + 4 · tokens · context · width a layer. Tokens read together attend to each other behind a
    mask; a decoded one to those in the cache, of which a sliding window keeps its own.
    """
    settings, weights, width, windows, again = DECODERS[kind]
    name = write(tmp_path, kind, {**SIZES, **settings})
    prefill = workload(f"{name}_prefill_7", 3)
    assert prefill.forward_flop == 2 * 3 * 7 * (2 * weights + HEAD) + 2 * 4 * 3 * 7 * 7 * width
    assert prefill.backward_flop == 2 * prefill.forward_flop
    seen = sum(min(most, 8) for most in windows)
    decode = workload(f"{name}_decode_7")
    assert decode.backward_flop is None
    assert decode.forward_flop == 2 * 2 * (2 * (weights + 7 * again) + HEAD) + 4 * 2 * seen * width


def test_a_quantised_configuration_and_decoding_without_a_cache_are_refused(tmp_path):
    name = write(tmp_path, "llama", {**SIZES, "quantization_config": {"quant_method": "awq", "bits": 4}})
    with pytest.raises(UserError, match="has a quantization_config"):
        catalog.find([name])
    settings = {**SIZES, "num_hidden_layers": 3, "lru_width": 16, "attention_window_size": 8}
    name = write(tmp_path, "recurrent_gemma", settings)
    with pytest.raises(NotImplementedError, match=r"^recurrent_gemma .* prefill"):
        workload(f"{name}_decode_7")
