import json

import pytest
from helpers.counting import torch

from measure.counting.count import count
from measure.domain.demands import uncounted_names
from measure.errors import UserError
from measure.models import catalog

pytest.importorskip("transformers", reason="the optional extra hf")
pytestmark = pytest.mark.long

BATCH, LENGTH = 2, 128
TOKENS = BATCH * LENGTH
CONTEXT = 4 * TOKENS * LENGTH  # scores and their mixture: 2 products of 2 FLOP for each query, key and unit of width

# Sizes as published, but for Qwen3, whose configuration in transformers is none of the published ones. d: width.
LLAMA = 4 * 4096**2 + 3 * 4096 * 11008  # Llama 7B, a layer: four projections, a gated perceptron
SHARED = 2 * 4096**2 + 2 * 4096 * 1024  # 32 heads on 8 of keys
T5 = 4 * 512**2 + 2 * 512 * 2048
FRAMES = BATCH * 1500  # Whisper's after the second convolution
WHISPER = 12 * 384**2
IMAGES = BATCH * 50  # CLIP's 49 patches of 32 x 32, and one for the class
FORMULAS = {
    # 12 layers of 12 d² weights, and the tied head
    "gpt2": 2 * TOKENS * (12 * 12 * 768**2 + 768 * 50257) + 12 * CONTEXT * 768,
    "llama": 2 * TOKENS * (32 * LLAMA + 4096 * 32000) + 32 * CONTEXT * 4096,
    "qwen3": 2 * TOKENS * (32 * (4 * 4096**2 + 3 * 4096 * 22016) + 4096 * 151936) + 32 * CONTEXT * 4096,
    "mistral": 2 * TOKENS * (32 * (SHARED + 3 * 4096 * 14336) + 4096 * 32000) + 32 * CONTEXT * 4096,
    # a router to 8 experts, of which each token takes 2
    "mixtral": 2 * TOKENS * (32 * (SHARED + 8 * 4096 + 2 * 3 * 4096 * 14336) + 4096 * 32000) + 32 * CONTEXT * 4096,
    # the pooler reads the first token alone
    "bert": 2 * TOKENS * 12 * 12 * 768**2 + 12 * CONTEXT * 768 + 2 * BATCH * 768**2,
    # 6 layers of each; the decoder's also attend to the encoder
    "t5": 2 * TOKENS * (6 * T5 + 6 * (T5 + 4 * 512**2) + 512 * 32128) + 18 * CONTEXT * 512,
    # Two convolutions of 3 taps over 3000 frames of 80 bands; 4 layers of each, whose cross attention makes keys and
    # values of all frames
    "whisper": (
        2 * (BATCH * 3000 * 80 * 3 * 384 + FRAMES * 384 * 3 * 384)
        + 4 * (2 * FRAMES * WHISPER + 4 * FRAMES * 1500 * 384)
        + 4 * (2 * TOKENS * (WHISPER + 2 * 384**2) + 2 * FRAMES * 2 * 384**2 + (CONTEXT + 4 * TOKENS * 1500) * 384)
        + 2 * TOKENS * 384 * 51865
    ),
    # Texts of 77 tokens; patches; both projected to 512, and each text by each image
    "clip": (
        12 * (2 * BATCH * 77 * 12 * 512**2 + 4 * BATCH * 77 * 77 * 512)
        + 2 * BATCH * 49 * 3 * 32 * 32 * 768
        + 12 * (2 * IMAGES * 12 * 768**2 + 4 * IMAGES * 50 * 768)
        + 2 * BATCH * (512 * 512 + 768 * 512) + 2 * BATCH * BATCH * 512
    ),
    # 196 patches of 16 x 16 and one for the class; 2 classes
    "vit": (
        2 * BATCH * 196 * 3 * 16 * 16 * 768
        + 12 * (2 * BATCH * 197 * 12 * 768**2 + 4 * BATCH * 197 * 197 * 768) + 2 * BATCH * 768 * 2
    ),
}  # fmt: skip


def workload(name, batch=BATCH, precision="fp32"):
    (model,) = catalog.find([name])
    return count(model, batch, precision).workload


@pytest.mark.parametrize("name", FORMULAS)
def test_families_count_as_their_formula(name):
    row = workload(f"hf:{name}")
    assert row.forward_flop == FORMULAS[name]
    assert row.backward_flop is not None, row.reason
    assert set(uncounted_names(row)) <= {"topk", "histc"}  # a router's choice


def test_length_and_batch_are_axes():
    # GPT-2 as above at 32 tokens and batch 3; a token decoded after 512 attends to 513
    assert workload("hf:gpt2_prefill_32", 3).forward_flop == (
        2 * 96 * (12 * 12 * 768**2 + 768 * 50257) + 12 * 4 * 96 * 32 * 768
    )
    row = workload("hf:gpt2_decode_512", 3)
    assert row.forward_flop == 2 * 3 * (12 * 12 * 768**2 + 768 * 50257) + 12 * 4 * 3 * 513 * 768
    assert row.input_byte == 3 * 8 + 12 * 2 * 3 * 512 * 768 * 4  # the token; keys and values of 12 layers
    assert "a token is decoded in inference alone" in row.reason


def test_a_token_reaches_two_of_the_experts():
    """One token at bf16: of 32 layers with 8 experts of 3 · 4096 · 14336 weights 6 stay untouched, and of 32,000 words
    all but one.
    """
    row = workload("hf:mixtral_decode_16", 1, "bf16")
    assert row.untouched_byte == 2 * (32 * 6 * 3 * 4096 * 14336 + 31999 * 4096)


TINY = {
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64, "vocab_size": 50},
    "llama": {
        "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 64,
    },
    "mixtral": {
        "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": 50, "max_position_embeddings": 64,
    },
    "bert": {
        "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 50,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "phase"), [("gpt2", "_decode_7"), ("llama", "_decode_7"), ("mixtral", "_prefill_7"), ("bert", "_encode_7")]
)
def test_a_given_configuration_is_counted_and_runs(tmp_path, kind, phase):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": kind, **TINY[kind]}))
    (model,) = catalog.find([f"hf:{path}{phase}"])
    assert model.input_shape == ((1,) if "decode" in phase else (7,))
    assert count(model, 2).workload.forward_flop > 0
    call = catalog.prepare(model, 2, "cpu", torch.float32)
    with torch.inference_mode():
        first, second = (call.run() for _ in range(2))  # a cache does not grow
    first, second = (each if isinstance(each, torch.Tensor) else next(iter(each.values())) for each in (first, second))
    assert torch.equal(first, second)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("hf:gpt5", "hf has no model 'gpt5'; the nearest are"),
        ("hf:bert_decode_4", "bert cannot decode; its networks encode"),
        ("hf:gpt2_prefill_2000", "gpt2 takes 1024 tokens at most, not the 2000 of gpt2_prefill_2000; name fewer"),
        ("hf:nowhere/config.json", "nowhere/config.json is no configuration of transformers"),
    ],
)
def test_wrong_names_are_one_sentence(name, sentence):
    with pytest.raises(UserError, match=sentence) as caught:
        catalog.find([name])
    assert "\n" not in str(caught.value)
