import json
from typing import Any, NamedTuple

import pytest

from measure.counting.count import count
from measure.domain.model_work import beyond_weights, layer_work
from measure.domain.roofs import machine_roof
from measure.errors import UserError
from measure.models import catalog
from measure.models.tensors import held_tensors

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
    # The token; keys and values of 6 layers for the tokens decoded, with this one, and read; the output of the encoder.
    # Nothing reads that output, nor the encoder, nor the weights of keys and values of cross attention.
    assert t5.input_byte == BATCH * (8 + 6 * 2 * (65 + 64) * 512 * 4 + 64 * 512 * 4)
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
ROUTED = 16 * 4 + 2 * GATED  # a router to 4 experts; each token takes 2


class Decoder(NamedTuple):
    settings: dict[str, Any]  # besides ``SIZES``
    weights: int  # of a layer
    width: int = 16  # of attention
    windows: tuple[int, int] = (64, 64)  # the most tokens that a token sees, by layer
    again: int = 0  # weights of a layer that every token in the cache passes again


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
    mask. A decoded token attends to the cache, or to the part within a sliding window.
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


# Keys, or values, of a position: texts, 2 heads, 4 wide, 4 bytes
POSITION = BATCH * 2 * 4 * 4


@pytest.mark.parametrize(
    ("kind", "settings", "seen", "mask", "window"),
    [
        ("llama", {}, (8, 9), 0, 0),
        # a window of 4: a number for each text and position hides none, and each layer's cache holds the 4 as an int64
        ("mistral", WINDOW, (4, 4), BATCH * 4 * 4, 2 * 8),
    ],
)
def test_a_decode_reads_its_cache_once_and_writes_one_position(tmp_path, kind, settings, seen, mask, window):
    """As a server does; with concatenation it would read and write all of it besides. 7 and 8 tokens come before."""
    found = []
    for length, positions in zip((7, 8), seen, strict=True):
        (model,) = catalog.find([f"{write(tmp_path, kind, {**SIZES, **settings})}_decode_{length}"])
        counted = count(model, BATCH)
        attention = {each.operator: each for each in counted.operators if each.layer_kind == "attention"}
        written = attention["copy_"]
        assert (written.byte, written.calls) == (2 * POSITION, 2 * 2)  # key and value in 2 layers, each from and to
        # In each layer: the query, keys and values, the output, and the logarithm of each head's sum
        (read,) = (each for name, each in attention.items() if "attention" in name)
        heads = BATCH * 4
        assert (read.byte, read.calls) == (2 * heads * 4 * 4 + 2 * positions * POSITION + heads * 4 + mask, 2)
        assert counted.workload.input_byte == BATCH * 8 + 2 * 2 * positions * POSITION + window
        found.append(counted.workload.traffic_byte)
    assert found[1] - found[0] == 2 * 2 * (seen[1] - seen[0]) * POSITION


TINY_T5 = {
    "d_model": 16, "d_kv": 4, "d_ff": 24, "num_layers": 2, "num_heads": 4, "vocab_size": 50, "pad_token_id": 0,
    "decoder_start_token_id": 0,
}  # fmt: skip
CACHED = {kind: {**SIZES, **DECODERS[kind].settings} for kind in ("llama", "gemma2", "deepseek_v3")} | {
    "mistral": {**SIZES, **WINDOW}, "t5": TINY_T5,
    # sparse attention, whose index has keys in the cache as well; it names all 8 tokens, since of fewer some may tie
    "deepseek_v32": {
        **SIZES, **LATENT, "first_k_dense_replace": 2, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 8,
    },
    # convolutions, whose state is no key, and one layer of attention
    "lfm2": {**SIZES, "layer_types": ["conv", "full_attention"], "block_multiple_of": 1},
}  # fmt: skip


@pytest.mark.parametrize("kind", CACHED)
def test_decoding_a_token_equals_reading_the_whole_text(tmp_path, kind):
    """A prefill fills the cache. The new token's place is empty, and a second call writes it again."""
    import torch
    from torch.nn import functional

    (model,) = catalog.find([f"{write(tmp_path, kind, CACHED[kind])}_decode_7"])
    torch.manual_seed(0)
    decoding = catalog.build(model)
    network, past = decoding.network, decoding.past
    text, source = torch.randint(1, 50, (BATCH, 8)), torch.randint(1, 50, (BATCH, 7))
    token = "decoder_input_ids" if kind == "t5" else "input_ids"
    others = {"input_ids": source} if kind == "t5" else {}
    with torch.no_grad():
        whole = network(**others, **{token: text}).logits[:, -1]
        before = network(**others, **{token: text[:, :-1]}, use_cache=True)
        state = {}
        for slot, tensor in zip(past.slots, held_tensors(getattr(before, past.keyword)), strict=True):
            has_room = slot.has_batch and slot.shape != tensor.shape[1:]
            state[slot.name] = functional.pad(tensor, (0, 0, 0, 1), value=torch.nan) if has_room else tensor
            assert tuple(state[slot.name].shape[slot.has_batch :]) == slot.shape
        if kind == "t5":
            state["encoded"] = before.encoder_last_hidden_state
        for _ in range(1 if kind == "lfm2" else 2):  # a state moves on with each call
            assert torch.allclose(decoding(**{token: text[:, -1:]}, **state)[:, 0], whole, atol=1e-6)


def test_most_of_a_decode_may_not_come_from_its_weights(tmp_path):
    """Latent attention projects its cache anew: 33 tokens instead of one, in each of 2 layers."""
    settings = DECODERS["deepseek_v3"].settings
    (model,) = catalog.find([f"{write(tmp_path, 'deepseek_v3', {**SIZES, **settings})}_decode_32"])
    layers = layer_work(count(model, BATCH).layers, "fp32", machine_roof([]), [])
    again, attention = 2 * BATCH * 32 * 8 * 4 * 8, 4 * BATCH * 33 * 4 * (6 + 4) // 2
    assert beyond_weights(layers, BATCH) == 2 * (again + attention)
    (tied,) = catalog.find(["hf:gpt2_decode_7"])  # its head has the weights of the embedding
    layers = layer_work(count(tied, BATCH).layers, "fp32", machine_roof([]), [])
    assert beyond_weights(layers, BATCH) == 12 * 4 * BATCH * 8 * 768


def quantised(tmp_path, kind, settings, scheme):
    """The workload of a network at 16 bits, plain and quantised, and the name of the latter."""
    plain = workload(f"{write(tmp_path, kind, {**SIZES, **settings})}_prefill_7", precision="bf16")
    folder = tmp_path / "quantised"
    folder.mkdir()
    name = write(folder, kind, {**SIZES, **settings, "quantization_config": scheme})
    return plain, workload(f"{name}_prefill_7", precision="bf16"), name


SCHEMES = {
    "awq": ({"bits": 4, "group_size": 8}, 4 + 20 / 8),
    "fp8": ({"weight_block_size": [8, 8]}, 8 + 32 / 64),
    "bitsandbytes": ({"load_in_4bit": True}, 4 + 32 / 64),
}


@pytest.mark.parametrize("method", SCHEMES)
def test_quantised_weights_count_as_stored(tmp_path, method):
    """All matrices of the layers but head and embedding: 2 (GROUPED + GATED) weights, each read once."""
    settings, bit = SCHEMES[method]
    plain, row, name = quantised(tmp_path, "llama", {}, {"quant_method": method, **settings})
    assert (row.forward_flop, row.parameter_count) == (plain.forward_flop, plain.parameter_count)
    saved = 2 * (GROUPED + GATED) * (16 - bit) / 8
    for column in ("parameter_byte", "traffic_byte", "read_byte", "inference_peak_byte"):
        assert getattr(plain, column) - getattr(row, column) == saved
    assert plain.untouched_byte == row.untouched_byte
    model = catalog.find([name])[0]
    layers = count(model, BATCH, "bf16").layers
    assert sum(layer.parameter_byte for layer in layers) == plain.parameter_byte - saved
    with pytest.raises(NotImplementedError, match=r"quantised, and torch alone .* leave out its quantization_config"):
        catalog.refuse_quantised(model)
    catalog.refuse_quantised(catalog.find(["hf:gpt2"])[0])


def test_quantised_experts_count_as_stored(tmp_path):
    """mxfp4 stores the experts alone, at 4 + 8 / 32 bits: 4 experts of 3 matrices, 16 by 24, in each of 2 layers."""
    settings = {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 4}
    plain, row, _ = quantised(tmp_path, "gpt_oss", settings, {"quant_method": "mxfp4"})
    assert row.forward_flop == plain.forward_flop
    assert plain.parameter_byte - row.parameter_byte == 2 * 4 * GATED * (16 - 4.25) / 8


def test_modules_left_out_keep_their_bits(tmp_path):
    scheme = {"quant_method": "fp8", "modules_to_not_convert": ["model.layers.1.self_attn", "lm_head"]}
    plain, row, _ = quantised(tmp_path, "llama", {}, scheme)
    assert plain.parameter_byte - row.parameter_byte == GROUPED + 2 * GATED


def test_unknown_quantisations_are_refused(tmp_path):
    name = write(tmp_path, "llama", {**SIZES, "quantization_config": {"quant_method": "gptqq", "bits": 4}})
    with pytest.raises(UserError, match=r"--models: .*config.json: quant_method: 'gptqq' is not one of .*mean gptq\?"):
        catalog.find([name])


def test_decodes_without_cache_are_refused(tmp_path):
    settings = {**SIZES, "num_hidden_layers": 3, "lru_width": 16, "attention_window_size": 8}
    name = write(tmp_path, "recurrent_gemma", settings)
    with pytest.raises(NotImplementedError, match=r"^recurrent_gemma .* prefill"):
        workload(f"{name}_decode_7")


# The sizes that the configurations publish, in the configuration itself or in a part of it
IMAGES = {
    "vit": (3, 224, 224), "yolos": (3, 512, 864), "clip": (3, 224, 224), "align": (3, 600, 600),
    "owlvit": (3, 768, 768),
    "sam": (3, 1024, 1024), "maskformer": (3, 384, 384), "zoedepth": (3, 384, 384), "depth_anything": (3, 518, 518),
    "vitpose": (3, 256, 192), "chmv2": (3, 416, 416), "tipsv2_dpt": (3, 448, 448), "sam2": (3, 1024, 1024),
    "depth_pro": (3, 1536, 1536), "sam3": (3, 1008, 1008), "detr": (3, 224, 224),
}  # fmt: skip


@pytest.mark.parametrize("kind", IMAGES)
def test_images_have_the_configured_size_or_a_part_of_it(kind):
    (model,) = catalog.find([f"hf:{kind}"])
    images = catalog.make_inputs(model, BATCH, "meta")["pixel_values"]
    assert tuple(images.shape) == (BATCH, *IMAGES[kind])


def test_a_depth_network_counts_its_image():
    """FlopCounterMode of torch counts 80,672,513,280 FLOP on a real run on a CPU, without attention.

    Attention: 12 layers, 384 wide, of 37 x 37 patches and a class token.
    """
    assert workload("hf:depth_anything", 1).forward_flop == 80_672_513_280 + 12 * 4 * (37 * 37 + 1) ** 2 * 384


def test_a_series_is_read_in_patches(tmp_path):
    """3 channels of 8 values in 4 patches of 2, embedded 8 wide; one layer with an inner width of 16."""
    settings = {
        "num_input_channels": 3, "context_length": 8, "patch_length": 2, "patch_stride": 2, "d_model": 8,
        "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 16,
    }  # fmt: skip
    row = workload(write(tmp_path, "patchtst", settings))
    patches = BATCH * 3 * 4
    assert row.forward_flop == 2 * patches * (2 * 8 + 4 * 8 * 8 + 2 * 8 * 16) + 4 * patches * 4 * 8
    assert row.input_byte == BATCH * 8 * 3 * 4


# A vision tower, and a text of 50 words
VISION = {
    "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2, "image_size": 28,
    "patch_size": 14,
}  # fmt: skip
TEXT = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "vocab_size": 50, "pad_token_id": 1}


def test_a_language_model_reads_a_text_about_an_image(tmp_path):
    """BLIP-2's own configuration names no token for an image, and has a decoder's argument without a decoder."""
    text = {"model_type": "opt", "ffn_dim": 24, "max_position_embeddings": 64, "word_embed_proj_dim": 16}
    settings = {
        "vision_config": VISION, "num_query_tokens": 4, "text_config": TEXT | text,
        "qformer_config": TEXT | {"intermediate_size": 24, "encoder_hidden_size": 16, "cross_attention_frequency": 1},
    }  # fmt: skip
    name = f"{write(tmp_path, 'blip-2', settings)}_prefill_6"
    (model,) = catalog.find([name])
    assert set(catalog.make_inputs(model, BATCH, "meta")) == {"pixel_values", "input_ids"}
    patches, weights = BATCH * 5, 4 * 16 * 16 + 2 * 16 * 24  # 2 x 2 and a class; of a layer
    vision = 2 * BATCH * 4 * 3 * 14 * 14 * 16 + 2 * patches * weights + 4 * patches * 5 * 16
    # 4 queries attend to each other, then to the projected keys and values of the patches
    queries = 2 * BATCH * 4 * (weights + 2 * 16 * 16) + 2 * patches * 2 * 16 * 16 + 4 * BATCH * 4 * (4 + 5) * 16
    projection = 2 * BATCH * 4 * 16 * 16
    opt = 2 * BATCH * 6 * (weights + 16 * 50) + 4 * BATCH * 6 * 6 * 16
    assert workload(name).forward_flop == vision + queries + projection + opt


def test_a_text_and_a_sound_are_compared():
    """CLAP folds 64 bands into an image of 256 x 256: 1,024 frames."""
    (model,) = catalog.find(["hf:clap"])
    inputs = catalog.make_inputs(model, BATCH, "meta")
    assert {name: tuple(tensor.shape) for name, tensor in inputs.items()} == {
        "input_ids": (BATCH, 128), "input_features": (BATCH, 1, 1024, 64),
    }  # fmt: skip


def test_a_configuration_is_read_as_transformers_saves_it(tmp_path):
    """Mamba2's longest time step is infinite, which JSON cannot write as a number.

    2 layers, 16 wide and 32 wide within: 4 heads of 8, one group of 8 states, a chunk of 8 tokens.
    """
    from transformers import Mamba2Config

    sizes = {"hidden_size": 16, "num_heads": 4, "head_dim": 8, "state_size": 8, "n_groups": 1, "vocab_size": 50}
    config = Mamba2Config(**sizes, num_hidden_layers=2, chunk_size=8)
    path = tmp_path / "config.json"
    config.to_json_file(path)
    assert "Infinity" in path.read_text()
    inner = 32 + 2 * 8  # the convolution takes the input of the states, B and C
    weights = 16 * (32 + inner + 4) + 32 * 16  # in, with the gate and a time step for each head, and out
    convolution = 2 * BATCH * (8 + 3) * 4 * inner  # 4 tokens, with 3 of padding; their outputs are cut
    # Of each head: tokens by tokens within the chunk and their mixture, tokens by states in and out, and the states
    # before and after the chunk
    scan = 2 * BATCH * 4 * (2 * 8 * 8 * 8 + 2 * 8 * 8 * 8 + 2 * 2 * 8 * 8)
    row = workload(f"hf:{path}_prefill_8")
    assert row.forward_flop == 2 * (2 * BATCH * 8 * weights + convolution + scan) + 2 * BATCH * 8 * HEAD


@pytest.mark.parametrize("kind", ["lw_detr", "diffusion_gemma"])
def test_settings_that_do_not_fit_together_are_a_reason(kind):
    """LW-DETR's type names no outputs of its backbone, DiffusionGemma's leaves a size empty."""
    with pytest.raises(NotImplementedError, match=r"transformers ships .* config\.json"):
        workload(f"hf:{kind}")


@pytest.mark.parametrize(("short", "name"), [("bert_encode", "bert_encode_128"), ("t5_decode", "t5_decode_128")])
def test_a_phase_without_a_length_has_128_tokens(short, name):
    models = [catalog.find([f"hf:{each}"])[0] for each in (short, name)]
    inputs = [catalog.make_inputs(model, 1, "meta").items() for model in models]
    first, second = ({key: value.shape for key, value in each} for each in inputs)
    assert first == second
    assert models[0].input_shape == models[1].input_shape


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('{"model_type": "gpt2",}', "line 1 column 23"),
        ("[1]", "no JSON object"),
        ('{"hidden_size": 3}', "names no model_type"),
        ('{"model_type": "lama"}', "'lama'.*llama"),
        ('{"model_type": "llama", "hidden_size": 10, "num_attention_heads": 3}', "not a multiple of"),
    ],
)
def test_a_wrong_configuration_is_named_with_its_reason(tmp_path, text, named):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(UserError, match=named) as caught:
        catalog.find([f"hf:{path}"])
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
