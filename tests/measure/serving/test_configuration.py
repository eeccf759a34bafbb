"""Decoders from configurations: parameters as published and as transformers builds them, stored bits, bad input."""

import json
from typing import NamedTuple

import pytest

from measure.errors import UserError
from measure.serving import configuration
from measure.serving.decoder import Experts, GroupedAttention


class Published(NamedTuple):
    """Parameters as published, in units of the last digit that is printed (exact: 1)."""

    total: float
    active: float | None
    unit: float
    counts: str = "head"  # what "active" counts of the vocabulary: its table (which is looked up), head, or neither


BILLION = 1e9
PUBLISHED = {
    # Number of elements in the published checkpoints (Hugging Face, metadata of model.safetensors.index.json)
    "meta-llama/Meta-Llama-3.1-8B": Published(8_030_261_248, None, 1),
    "meta-llama/Meta-Llama-3.1-70B": Published(70_553_706_496, None, 1),
    "Qwen/Qwen3-32B": Published(32_762_123_264, None, 1),
    # Qwen Team 2025, Qwen3 Technical Report, arXiv:2505.09388, table 2, and the name
    "Qwen/Qwen3-235B-A22B": Published(235 * BILLION, 22 * BILLION, BILLION),
    # The model's name and card: 397B in total and 17B activated; with its encoder of pictures
    "Qwen/Qwen3.5-397B-A17B": Published(397 * BILLION, 17 * BILLION, BILLION, "table"),
    # DeepSeek-AI 2024, DeepSeek-V3 Technical Report, arXiv:2412.19437, abstract; R1 has the same network
    "deepseek-ai/DeepSeek-V3": Published(671 * BILLION, 37 * BILLION, BILLION),
    "deepseek-ai/DeepSeek-R1": Published(671 * BILLION, 37 * BILLION, BILLION),
    # OpenAI 2025, gpt-oss-120b & gpt-oss-20b Model Card, arXiv:2508.10925, table 1
    "openai/gpt-oss-120b": Published(116.83 * BILLION, 5.13 * BILLION, BILLION / 100),
    # The model's card: 10 billion activated; Hugging Face prints 229B
    "MiniMaxAI/MiniMax-M2.5": Published(229 * BILLION, 10 * BILLION, BILLION),
    # The model's card: 1T in total and 32B activated
    "moonshotai/Kimi-K2.5": Published(1000 * BILLION, 32 * BILLION, BILLION),
    # The model's card: 744B in total and 40B active
    "zai-org/GLM-5": Published(744 * BILLION, 40 * BILLION, BILLION, "neither"),
    # Jiang et al. 2024, Mixtral of Experts, arXiv:2401.04088: 47B, 13B active; mistral.ai: 46.7B and 12.9B
    "mistralai/Mixtral-8x7B-v0.1": Published(46.7 * BILLION, 12.9 * BILLION, BILLION / 10, "table"),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name):
    """Each differs by less than half a unit of the last printed digit; 1T is printed to 50 billion at best."""
    decoder, published = configuration.find(name), PUBLISHED[name]
    half = 50 * BILLION if name == "moonshotai/Kimi-K2.5" else published.unit / 2
    pictures = 0.45 * BILLION if name.startswith("Qwen/Qwen3.5") else 0  # an encoder of 27 layers, 1152 wide
    assert decoder.parameters + pictures == pytest.approx(published.total, abs=half, rel=0)
    if published.active is not None:
        active = decoder.active_parameters + {"table": 1, "head": 0, "neither": -1}[published.counts] * decoder.head
        assert active == pytest.approx(published.active, abs=published.unit / 2, rel=0)


SIZES = {
    "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 24, "intermediate_size": 48, "max_position_embeddings": 128, "tie_word_embeddings": False,
}  # fmt: skip
SPARSE = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
LATENT = {
    "kv_lora_rank": 8, "q_lora_rank": 12, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 10,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 16,
    "first_k_dense_replace": 1, "num_key_value_heads": 4, "n_group": 1, "topk_group": 1,
}  # fmt: skip
DELTA = {
    "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
    "linear_conv_kernel_dim": 4, "shared_expert_intermediate_size": 32,
}  # fmt: skip
KINDS = {
    "llama": {},
    "mistral": {"sliding_window": 8},
    "qwen2": {"head_dim": 16},
    "qwen3": {},
    "gpt2": {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 32, "vocab_size": 96},
    "mixtral": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "minimax_m2": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "qwen3_moe": {**SPARSE, "mlp_only_layers": [1]},
    "qwen3_next": {**SPARSE, **DELTA},
    "qwen3_5_moe_text": {**SPARSE, **DELTA},
    "qwen3_5_text": DELTA,
    "gpt_oss": {"num_local_experts": 8, "num_experts_per_tok": 2},
    "glm4_moe": {
        "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 16,
        "first_k_dense_replace": 1, "use_qk_norm": True, "attention_bias": True,
    },
    "deepseek_v2": {**LATENT, "head_dim": 4},
    "deepseek_v3": LATENT,
    "deepseek_v32": {**LATENT, "index_topk": 8, "index_n_heads": 4, "index_head_dim": 16},
    "glm_moe_dsa": {**LATENT, "index_topk": 8, "index_n_heads": 4, "index_head_dim": 16},
    "mamba2": {"num_heads": 8, "head_dim": 16, "state_size": 8, "n_groups": 2, "expand": 2},
    "falcon_h1": {
        "mamba_n_heads": 8, "mamba_d_head": 16, "mamba_d_ssm": 128, "mamba_d_state": 8, "mamba_n_groups": 2,
        "mamba_rms_norm": True,
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_parameters_are_those_that_transformers_builds(kind):
    transformers = pytest.importorskip("transformers")
    import torch

    values = {**({} if kind == "gpt2" else SIZES), **KINDS[kind], "model_type": kind}
    config = transformers.AutoConfig.for_model(**values)
    with torch.device("meta"):
        network = transformers.AutoModelForCausalLM.from_config(config)
    assert configuration.read(values).parameters == network.num_parameters()


def test_a_text_part_and_defaults_of_a_network_that_sees_pictures():
    text = {**SIZES, **SPARSE, **DELTA, "model_type": "qwen3_5_moe_text", "num_hidden_layers": 8}
    decoder = configuration.read({"model_type": "qwen3_5_moe", "text_config": text, "vision_config": {}})
    attentions = [isinstance(layer.mixers[0], GroupedAttention) for layer in decoder.layers]
    assert attentions == [False, False, False, True] * 2


def test_windows_and_dense_layers_alternate_as_configured():
    oss = configuration.find("gpt-oss-120b")
    assert [layer.mixers[0].window for layer in oss.layers] == [128, None] * 18
    dense = [not isinstance(layer.feed_forward, Experts) for layer in configuration.find("DeepSeek-V3").layers]
    assert dense == [True] * 3 + [False] * 58


def bits(name: str) -> dict[str, set[float]]:
    """The stored bits of each weight of a decoder, by name."""
    found: dict[str, set[float]] = {}
    for weight, form, _ in configuration.find(name).weights:
        found.setdefault(weight.name, set()).add(form.bit)
    return found


def test_weights_have_their_stored_bits():
    """Scales: 32 bits for a block of 128 x 128, 16 for 32 of int4, 8 for 32 of mxfp4, 8 for 16 of nvfp4."""
    block, int4, mxfp4, nvfp4 = 8 + 32 / 16384, 4 + 16 / 32, 4 + 8 / 32, 4 + 8 / 16
    deepseek = bits("DeepSeek-V3")
    assert deepseek.pop("router") == {16}
    assert set(map(frozenset, deepseek.values())) == {frozenset({block})}
    kimi = bits("Kimi-K2.5")
    assert kimi.pop("experts wide") == kimi.pop("experts narrow") == {int4}
    assert set(map(frozenset, kimi.values())) == {frozenset({16})}
    oss = bits("gpt-oss-120b")
    assert oss["experts wide"] == oss["experts narrow"] == {mxfp4}
    assert oss["qkv"] == oss["output"] == oss["router"] == {16}
    r1 = bits("DeepSeek-V3.1-NVFP4")  # hf_quant_config.json leaves out all of attention but its last product
    assert r1["latent"] == r1["query"] == r1["key value"] == {16}
    assert r1["output"] == r1["wide"] == r1["experts narrow"] == r1["shared wide"] == {nvfp4}
    qwen = bits("Qwen3.5-397B-A17B-NVFP4")
    assert qwen["experts wide"] == {nvfp4}  # mtp.layers.0* is left out: a layer that guesses, not layer 0
    assert qwen["shared wide"] == qwen["qkv"] == qwen["input"] == {16}
    glm = bits("GLM-5-NVFP4")
    assert glm["output"] == glm["index query"] == {16}
    assert bits("Llama-3.1-70B-Instruct-FP8")["qkv"] == {8}


def test_checkpoints_are_as_large_as_published():
    """gpt-oss: "Checkpoint size 60.8 GiB" (model card, table 1). DeepSeek-V3: 671 GB of weights at a byte each."""
    assert configuration.find("gpt-oss-120b").weight_byte / 2**30 == pytest.approx(60.8, rel=0.002)
    assert configuration.find("DeepSeek-V3").weight_byte == pytest.approx(671e9, rel=0.005)


def test_a_cache_has_the_published_size():
    """Llama-3.1-8B: 2 · 32 layers · 8 heads · 128 · 2 B = 131,072 B a token. DeepSeek-V3: 61 · 576 · 2 B = 70,272 B.

    gpt-oss: half of its 36 layers keep 128 tokens: (18 · 1000 + 18 · 128) · 2 · 8 · 64 · 2 B.
    """
    assert configuration.find("Meta-Llama-3.1-8B").cache_byte(1) == 131_072
    assert configuration.find("DeepSeek-V3").cache_byte(1) == 70_272
    assert configuration.find("gpt-oss-120b").cache_byte(1000) == 20_304 * 2048
    assert configuration.find("Llama-3.1-70B-Instruct-FP8").cache_byte(1) == 2 * 80 * 8 * 128  # at 8 bits


def test_a_cache_of_states_does_not_grow():
    """A layer of tiny GPUs: 4 · 8 · 12 numbers of state at 4 B, and 3 · 80 of the convolution at 2 B: 2,016 B."""
    values = {**SIZES, **SPARSE, **DELTA, "model_type": "qwen3_next", "layer_types": ["linear_attention"] * 4}
    decoder = configuration.read(values)
    assert decoder.cache_byte(1) == decoder.cache_byte(100) == 4 * (4 * 8 * 12 * 4 + 3 * (2 * 16 + 48) * 2)


METHODS = {
    "awq": ({"bits": 4, "group_size": 128}, 4 + 20 / 128),
    "gptq": ({"bits": 8, "group_size": -1}, 8),
    "bitsandbytes": ({"load_in_4bit": True, "bnb_4bit_use_double_quant": True}, 4 + (8 + 32 / 256) / 64),
    "fp8": ({"weight_block_size": None}, 8),
    "fbgemm_fp8": ({}, 8),
    "modelopt": ({"quant_algo": "FP8"}, 8),
    "compressed-tensors": ({"config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}}}, 8),
}


@pytest.mark.parametrize("method", METHODS)
def test_methods_store_their_bits(method):
    settings, bit = METHODS[method]
    scheme = {"quant_method": method, **settings}
    decoder = configuration.read({**SIZES, "model_type": "llama", "quantization_config": scheme})
    assert {form.bit for _, form, _ in decoder.weights} == {bit}
    # 4 layers: (4 + 2 · 2) · 24 · 64 + 4 · 24 · 64 + 3 · 64 · 48 weights; two tables of 96 · 64 and 9 norms at 16 bits
    weights, others = 4 * (8 * 24 * 64 + 4 * 24 * 64 + 3 * 64 * 48), 2 * 96 * 64 + 9 * 64
    assert decoder.weight_byte == pytest.approx((weights * bit + others * 16) / 8)


def test_weights_and_cache_can_be_stored_otherwise():
    decoder = configuration.stored(configuration.find("DeepSeek-V3"), "nvfp4", "fp8")
    stored = {weight.name: form.name for weight, form, _ in decoder.weights}
    assert stored["experts wide"] == stored["wide"] == "nvfp4"
    assert stored["query"] == stored["router"] == "bf16"
    assert decoder.cache_byte(1) == 61 * 576


def test_the_other_sixteen_bits_are_of_the_whole_network():
    decoder = configuration.find("Meta-Llama-3.1-8B")
    half = configuration.stored(decoder, "fp16")
    assert {half.base.name, half.cache.name, *(form.name for _, form, _ in half.weights)} == {"fp16"}
    assert half.weight_byte == decoder.weight_byte
    kept = configuration.stored(decoder, "fp16", "fp8")
    assert (kept.base.name, kept.cache.name) == ("fp16", "fp8")
    assert configuration.stored(decoder, "fp8").base.name == "bf16"


def test_bad_configurations_are_refused_in_a_sentence(tmp_path):
    def refused(values: object, words: str) -> None:
        path = tmp_path / "config.json"
        path.write_text(values if isinstance(values, str) else json.dumps(values), "utf-8")
        with pytest.raises(UserError, match=words):
            configuration.find(str(path))

    refused({**SIZES, "model_type": "lama"}, "model_type: 'lama' is not one of .*the nearest are llama")
    refused(SIZES, "config.json: lacks model_type; give the config.json as")
    for scheme in ([1], "fp8", False):
        refused({**SIZES, "model_type": "llama", "quantization_config": scheme}, "quantization_config is .* not an obj")
    refused({**SIZES, "model_type": "llama", "text_config": {"quantization_config": [1]}}, "is '.1.', not an object")
    refused({"model_type": "llama"}, "config.json: lacks intermediate_size; give the config.json as")
    refused({**SIZES, "model_type": "llama", "num_hidden_layers": "4"}, "num_hidden_layers is '4', not a whole number")
    refused({**SIZES, "model_type": "llama", "num_key_value_heads": 3}, "4 heads cannot share 3 heads of keys")
    refused({**SIZES, "model_type": "llama", "torch_dtype": "float8"}, "torch_dtype: 'float8' is not one of")
    scheme = {"quant_method": "aqlm"}
    refused({**SIZES, "model_type": "llama", "quantization_config": scheme}, "quant_method: 'aqlm' is not one of")
    scheme = {"quant_method": "modelopt", "quant_algo": "W4A8"}
    refused({**SIZES, "model_type": "llama", "quantization_config": scheme}, "quant_algo: 'W4A8' is not one of")
    scheme = {"quant_method": "awq", "bits": "four"}
    refused({**SIZES, "model_type": "llama", "quantization_config": scheme}, "of awq has a value of another kind; give")
    oss = {**SIZES, "model_type": "gpt_oss", "num_local_experts": 8, "num_experts_per_tok": 2}
    refused({**oss, "layer_types": ["full_attention"]}, "layer_types has 1 layers, and num_hidden_layers is 4")
    refused({**oss, "layer_types": ["full"] * 4}, "layer_types: 'full' is not one of sliding_attention, full_attention")
    refused("{", "is not valid JSON")
    refused("[]", "holds no JSON object")
    with pytest.raises(UserError, match="cannot be read"):
        configuration.find(str(tmp_path / "none.json"))
    with pytest.raises(UserError, match=r"MODEL: 'llama-3.1-9b' is not one of .*Meta-Llama-3.1-8B"):
        configuration.find("llama-3.1-9b")
    with pytest.raises(UserError, match="--weights: 'fp7' is not one of"):
        configuration.stored(configuration.find("DeepSeek-V3"), "fp7")
