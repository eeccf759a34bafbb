"""The work of language models: the memory of their cache, and the experts that a call reads."""

import json

import pytest

from measure.cache.folders import Workloads
from measure.counting.count import count
from measure.domain.words import LAYER_KINDS
from measure.models import catalog
from measure.predicting import timings
from measure.predicting.prediction_terms import PLACE

LLAMA = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096, "intermediate_size": 14336,
    "num_hidden_layers": 4, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "tie_word_embeddings": False,
}  # fmt: skip
"""The sizes of Llama 3 8B (A. Grattafiori et al., 2024, table 3), with 4 of its 32 layers."""

QWEN = {
    "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "hidden_size": 64, "intermediate_size": 64,
    "moe_intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 32, "num_experts": 128, "num_experts_per_tok": 8, "vocab_size": 100, "decoder_sparse_step": 1,
}  # fmt: skip
"""A small network with the routing of Qwen3-30B-A3B: 8 of 128 experts."""


@pytest.fixture
def works(tmp_path):
    def counted(batch, *names, **config):
        """Count models at bf16; ``{}`` in a name is the file of the configuration."""
        path = tmp_path / "config.json"
        path.write_text(json.dumps(config))
        models = catalog.find([name.format(path) for name in names])
        homes = [Workloads(tmp_path, place) for place in ("one", "other")]  # a cache may be counted elsewhere
        for model, home in zip(models, homes, strict=False):
            home.put([count(model, batch, "bf16")])
        found = timings.counted(*homes)
        return [next(found[key] for key in found if key.model == model.name and key.batch == batch) for model in models]

    return counted


def test_a_decodes_memory_has_the_cache_once(works):
    (found,) = works(64, "hf:{}_decode_2048", **LLAMA)
    # A layer: 2 * 4096^2 + 2 * 4096 * 1024 of attention, 3 * 4096 * 14336 after it, 2 * 4096 of norms: 218,112,000.
    # Besides 4 of them: embedding and scores of 128256 * 4096 each, and a norm, all of 2 bytes.
    parameter_byte = 2 * (4 * 218_112_000 + 2 * 128256 * 4096 + 4096)
    # 64 caches of 2048 tokens, each with keys and values of 8 heads of 128 in 4 layers
    cache_byte = 64 * 2048 * 2 * 8 * 128 * 4 * 2
    # Alive besides: one token's results, mostly scores, and a token in each cache
    assert 0 < found.peak_byte - parameter_byte - cache_byte < 64 * (2 * 128256 * 2 + 2 * 8 * 128 * 4 * 2)


def test_a_cache_that_is_written_in_place_counts_once_as_well(works):
    (found,) = works(8, "llama_1b_decode_512")
    # 1.236e9 parameters; 8 caches of 513 tokens, with keys and values of 8 heads of 64 in 16 layers
    parameter_byte, cache_byte = 2 * 1_235_814_400, 8 * 513 * 2 * 8 * 64 * 16 * 2
    assert 0 < found.peak_byte - parameter_byte - cache_byte < 8 * 2 * 128256 * 2


def test_a_prefills_memory_has_its_cache_and_its_scores(works):
    prefill, _ = works(64, "hf:{}_prefill_512", "hf:{}_decode_512", model_type="gpt2", n_layer=2)
    # 10 of GPT-2's 12 layers go, with 7,087,872 of its 124,439,808 parameters each. Keys and values of 768 in 2 layers
    # for each of 64 * 512 tokens, and 50257 scores
    parameter_byte, cache_byte = 2 * (124_439_808 - 10 * 7_087_872), 64 * 512 * 2 * 768 * 2 * 2
    score_byte, hidden_byte = 64 * 512 * 50257 * 2, 64 * 512 * 768 * 2
    assert prefill.output_byte == score_byte
    assert 0 < prefill.peak_byte - parameter_byte - cache_byte - score_byte < 3 * hidden_byte


def test_a_call_reads_the_experts_that_random_routing_names(works):
    (found,) = works(8, "hf:{}_decode_16", **QWEN)
    # 128 experts of three matrices, 64 by 32, in 2 layers
    parameter_byte = 2 * 128 * 3 * 64 * 32 * 2
    # 8 tokens name 8 experts if they agree, 64 if they share none; at random 128 * (1 - (1 - 8/128)^8) = 51.6
    for byte, experts in ((found.experts.least, 8), (found.experts.expected, 51.6), (found.experts.most, 64)):
        assert byte / parameter_byte == pytest.approx(experts / 128, rel=1e-3)
    # 64 rows go through an expert's three matrices: 2 * 64 * 3 * 64 * 32 FLOP in each of 2 layers
    assert found.flop[PLACE["experts"]] == 2 * 2 * 64 * 3 * 64 * 32
    # Rows of 64 and 32 numbers go in and out: 64 rows of (64 + 2 * 32) + (32 + 64) at 2 bytes. Some more is activations
    moved_byte = 2 * 64 * (64 + 2 * 32 + 32 + 64) * 2
    assert 0 <= found.byte[PLACE["experts"]] - found.experts.expected - moved_byte < 10 * moved_byte
    assert LAYER_KINDS[PLACE["experts"]] == "experts"


def test_the_least_bytes_are_of_the_fewest_experts(works):
    one, two = (works(batch, "hf:{}_decode_16", **QWEN)[0] for batch in (1, 2))
    # Only the cache and the results of a token grow with the batch: far less than the experts that a second adds
    assert two.footprint_byte - one.footprint_byte < 0.1 * (two.experts.most - one.experts.most)
    assert one.experts.least == one.experts.expected == one.experts.most == two.experts.least
