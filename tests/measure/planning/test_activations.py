"""What a layer saves: Megatron's formula, and the counter's own bytes of the same networks."""

import json
from dataclasses import replace

import pytest

from measure.counting.count import count_all
from measure.models import catalog
from measure.planning.activations import head_byte, layer_byte, loss_byte
from measure.planning.decoders import TrainedDecoder
from measure.planning.layout import Layout
from measure.serving import configuration

SMALL = {"hidden_size": 256, "intermediate_size": 704, "num_attention_heads": 8, "num_hidden_layers": 3}
SMALL |= {"vocab_size": 1000, "max_position_embeddings": 1024, "num_key_value_heads": 4}
NETWORKS = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 64},
    "mixtral": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "qwen3_moe": {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 192, "head_dim": 32},
}
TOKENS, SEQUENCES = 512, 2


@pytest.mark.parametrize(("kind", "precision"), [("llama", "fp32"), *((kind, "bf16") for kind in NETWORKS)])
def test_the_closed_form_is_what_the_counter_sees(kind, precision, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(SMALL | NETWORKS[kind] | {"model_type": kind}), "utf-8")
    (model,) = catalog.find([f"hf:{path}_prefill_{TOKENS}"])
    (counted,) = count_all(model, [SEQUENCES], precision, None)
    decoder, byte = configuration.read_file(path), {"bf16": 2, "fp32": 4}[precision]
    saved = sum(layer_byte(decoder, layer, byte) for layer in decoder.layers) + head_byte(decoder, byte)
    assert saved * TOKENS * SEQUENCES == pytest.approx(counted.workload.saved_byte, rel=0.01)


def test_gpt_as_megatron_counts_it():
    """Korthikanti et al. 2022, arXiv:2205.05198, section 4: s b h (34 + 5 a s / h) bytes of a layer at 16 bits.

    Here there is no dropout, so its two masks (2 s b h) and that of scores are missing; attention keeps no scores
    (5 a s / h) but a sum at fp32 for each head; GPT-2 in transformers writes the tangent of its activation out and
    keeps three more tensors of 4 h numbers; each of two norms keeps a mean and a deviation at fp32.
    """
    heads, hidden = 96, 12288  # of GPT-3
    settings = {"model_type": "gpt2", "n_embd": hidden, "n_head": heads, "n_layer": 2, "vocab_size": 51200}
    decoder = configuration.read({**settings, "n_positions": 2048})
    expected = hidden * (34 - 2 + 3 * 2 * 4) + 4 * heads + 2 * 2 * 4
    assert layer_byte(decoder, decoder.layers[0], 2) == expected
    # Section 4.2.2: with sequence parallelism, every term is divided by the GPUs that share a layer
    whole, eighth = (TrainedDecoder(decoder, 2048, 2).stages(Layout(tensor=size))[0] for size in (1, 8))
    assert eighth.block_byte == pytest.approx(2048 * expected / 8)
    assert eighth.saved_byte == pytest.approx(whole.saved_byte / 8)


def test_parts_of_a_sequence_save_their_tokens():
    decoder = configuration.find("Meta-Llama-3.1-8B")
    whole, eighth = (TrainedDecoder(decoder, 65536, 2).stages(Layout(context=size))[0] for size in (1, 8))
    for part in ("saved_byte", "input_byte", "block_byte", "loss_byte", "forward_flop", "attention_flop"):
        assert getattr(eighth, part) == pytest.approx(getattr(whole, part) / 8)
    assert eighth.parameters == whole.parameters
    # Expanded keys and values of DeepSeek-V3: 128 heads of 128 + 64 and of 128 numbers at 2 B, and their gradients
    latent = TrainedDecoder(configuration.find("DeepSeek-V3"), 65536, 2).stages(Layout(context=8))[0]
    assert latent.context_byte == 2 * 65536 * 128 * (128 + 64 + 128) * 2


def test_the_loss_holds_scores_and_twice_fp32():
    # 128,256 scores of Llama 3 at bf16, the logarithms of probabilities and their gradient at fp32: 2 + 4 + 4 B each
    assert loss_byte(128_256, 2) == 1_282_560


def test_latent_vectors_are_saved_and_recurrences_refused():
    decoder = configuration.find("DeepSeek-V3")
    # hidden 7168, query rank 1536, rank 512, 128 heads of 128 + 64 numbers of a key and 128 of a value; at bf16:
    # input 2 h; norms of the latent vectors 6 B and 4 B of scale, and what follows 2 B; queries and keys
    # 2 x 192, keys and values before the split 256, results 128; a sum of 4 B a head
    mixer = 2 * 7168 + (6 + 2) * (1536 + 512) + 2 * 4 + 128 * (2 * (384 + 256 + 128) + 4)
    norm = 6 * 7168 + 4
    dense = 2 * 7168 + 2 * 4 * 18432
    assert layer_byte(decoder, decoder.layers[0], 2) == mixer + 2 * norm + dense
    recurrent = configuration.find("Qwen3.5-397B-A17B")
    with pytest.raises(configuration.UserError, match=r"recurrent layers have no closed form here; use --inference"):
        layer_byte(replace(recurrent, name="x"), recurrent.layers[0], 2)
