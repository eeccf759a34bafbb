"""Steps of served decoders: closed forms by hand, torch's counter on small networks, what each GPU of a plan does."""

from collections import Counter

import pytest

from measure.serving import configuration
from measure.serving.plan import Plan
from measure.serving.step import Operation, Step, decode, prefill

ONE = Plan()


def flop(step: Step) -> float:
    return sum(work.flop for work in step.works())


def named(step: Step, name: str, stage: int = 0) -> Operation:
    (found,) = [each for each in step.stages[stage] if each.name == name]
    return found


def test_a_decode_is_two_flop_a_weight_and_attention():
    """Llama-3.1-8B: a layer has 4096 · (6144 + 4096) weights of attention and 3 · 4096 · 14336 of the perceptron.

    3 requests with 99 tokens and a new one each: 32 layers of 32 heads, 100 scores of 2 · 2 · 128 FLOP.
    """
    weights = 32 * (4096 * (6144 + 4096) + 3 * 4096 * 14336) + 4096 * 128256
    step = decode(configuration.find("Meta-Llama-3.1-8B"), ONE, 3, 99)
    assert flop(step) == 3 * (2 * weights + 32 * 32 * 100 * 512)
    (work,) = step.works()
    # Weights of 16 bits but the table, of which 3 rows are read; 32 layers write a token and read 100, at 4096 B each
    assert work.weight_byte == 2 * weights + 3 * 4096 * 2
    assert work.cache_byte == 3 * 101 * 32 * 4096
    assert work.sent_byte == 0


def test_the_example_of_the_documentation():
    """The table of docs/counting.md, Language models as they are served."""
    (work,) = decode(configuration.find("Meta-Llama-3.1-8B"), ONE, 32, 2047).works()
    weights, attention = 2 * 32 * 7_504_658_432, 32 * 32 * 32 * 2048 * 4 * 128
    assert work.flop == weights + attention
    assert (weights, attention) == (pytest.approx(480.3e9, rel=1e-3), pytest.approx(34.4e9, rel=2e-3))
    assert work.weight_byte == 2 * 7_504_658_432 + 32 * 4096 * 2  # with a row of the embedding for each request
    assert work.cache_byte == 32 * 2049 * 32 * 2 * 8 * 128 * 2 == pytest.approx(8.6e9, rel=2e-3)
    assert (work.weight_byte + work.cache_byte) / 3.35e12 == pytest.approx(7.0e-3, rel=0.01)
    assert work.flop / 989e12 == pytest.approx(0.5e-3, rel=0.05)


def test_a_prefill_scores_the_last_token_of_each_prompt():
    """2 prompts of 16 tokens, each of which sees those before it: 16 · 17 / 2 scores a head."""
    weights, head = 32 * (4096 * (6144 + 4096) + 3 * 4096 * 14336), 4096 * 128256
    step = prefill(configuration.find("Meta-Llama-3.1-8B"), ONE, 2, 16)
    assert flop(step) == 2 * (2 * 16 * weights + 2 * head + 32 * 32 * 136 * 512)


def test_experts_do_the_work_of_the_active_ones_and_read_all():
    """Mixtral 8x7B at batch 64: 64 · 2 rows on 3 · 4096 · 14336 weights a layer; all of 8 experts but 8 · 0.75⁶⁴."""
    step = decode(configuration.find("Mixtral-8x7B-v0.1"), ONE, 64, 0)
    expert = named(step, "experts")
    assert expert.work.flop == 2 * 128 * 3 * 4096 * 14336
    assert expert.work.weight_byte == pytest.approx(8 * (1 - 0.75**64) * 3 * 4096 * 14336 * 2)
    assert (expert.calls, expert.precision, expert.stored) == (32, "bf16", "bf16")
    router = named(step, "router")
    assert router.shape == {"m": 64, "n": 8, "k": 4096, "copies": 1}


SIZES = {
    "vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
    "head_dim": 16, "intermediate_size": 48, "max_position_embeddings": 64,
}  # fmt: skip
EXPERTS = {"num_experts_per_tok": 2, "num_local_experts": 8}
ROUTED = {"num_experts_per_tok": 2, "num_experts": 8, "moe_intermediate_size": 16}
LATENT = {
    "kv_lora_rank": 8, "q_lora_rank": 12, "qk_rope_head_dim": 4, "qk_nope_head_dim": 6, "v_head_dim": 10,
    "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 16,
    "first_k_dense_replace": 1, "num_key_value_heads": 4, "n_group": 1, "topk_group": 1, "head_dim": 4,
}  # fmt: skip
# Settings of small networks, and the FLOP of attention a score, all heads and layers: 2 a number of key and of value
NETWORKS = {
    "llama": ({}, 4 * 4 * 4 * 16),
    "qwen3": ({}, 4 * 4 * 4 * 16),
    "gpt2": ({"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 64, "vocab_size": 96}, 3 * 4 * 4 * 16),
    "mixtral": (EXPERTS, 4 * 4 * 4 * 16),
    "qwen3_moe": (ROUTED, 4 * 4 * 4 * 16),
    "minimax_m2": (EXPERTS, 4 * 4 * 4 * 16),
    "deepseek_v3": (LATENT, 4 * 4 * 2 * (4 + 6 + 10)),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", NETWORKS)
def test_a_prefill_is_what_torch_counts(kind):
    """Torch counts a network of transformers as it runs: scores of hidden tokens and the head of all tokens too.

    Of 3 prompts of 10 tokens these are 3 · (100 - 55) scores, and 3 · 9 heads of 2 · 64 · 96 FLOP.
    """
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    from torch.utils.flop_counter import FlopCounterMode

    settings, score = NETWORKS[kind]
    values = {**({} if kind == "gpt2" else SIZES), **settings, "model_type": kind}
    config = transformers.AutoConfig.for_model(**values)
    network = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    network.config._experts_implementation = "eager"
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network.eval()(torch.randint(96, (3, 10)), use_cache=False)
    step = prefill(configuration.read(values), ONE, 3, 10)
    assert flop(step) == counter.get_total_flops() - 3 * 45 * score - 3 * 9 * 2 * 64 * 96


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["llama", "gpt2", "mixtral"])
def test_a_decode_is_what_this_program_counts(kind, tmp_path):
    """A decode of transformers with a cache does what a server does."""
    pytest.importorskip("transformers")
    import json

    from measure.counting.count import count
    from measure.models import catalog

    settings, _ = NETWORKS[kind]
    values = {**({} if kind == "gpt2" else SIZES), **settings, "model_type": kind}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(values), "utf-8")
    (model,) = catalog.find([f"hf:{path}_decode_12"])
    counted = count(model, 3, "bf16").workload
    assert flop(decode(configuration.read(values), ONE, 3, 12)) == counted.forward_flop


def test_tensor_parallel_gpus_share_heads_and_columns():
    """Llama-3.1-70B on 8 GPUs: 8 heads and one of keys each; 2 · 80 + 1 all-reduces of 4 rows of 8192 numbers."""
    step = decode(configuration.find("Llama-3.1-70B-Instruct-FP8"), Plan(tensor=8), 4, 1023)
    shapes = {name: (named(step, name).shape["n"], named(step, name).shape["k"]) for name in ("qkv", "output", "wide")}
    assert shapes == {"qkv": ((8 + 2) * 128, 8192), "output": (8192, 8 * 128), "wide": (2 * 28672 // 8, 8192)}
    assert named(step, "qkv").precision == named(step, "qkv").stored == "fp8"
    assert named(step, "head").shape == {"m": 4, "n": 128256 // 8, "k": 8192, "copies": 1}
    assert (named(step, "head").precision, named(step, "attention").stored) == ("bf16", "fp8")
    reduces = Counter({each.name: each.calls for each in step.stages[0] if each.name.startswith("all_reduce")})
    assert reduces.total() == 161
    message = 4 * 8192 * 2
    gathered = 4 * 128256 * 2 * 7 / 8
    assert step.works()[0].sent_byte == 161 * 2 * 7 / 8 * message + gathered
    whole = decode(configuration.find("Llama-3.1-70B-Instruct-FP8"), ONE, 4, 1023)
    assert flop(step) == flop(whole) / 8  # nothing is done twice
    sixteen = decode(configuration.find("Llama-3.1-70B-Instruct-FP8"), Plan(tensor=16), 4, 1023)
    assert named(sixteen, "attention").shape["kv_heads"] == 1  # two GPUs each keep the same head of keys


def test_latent_attention_is_absorbed_in_decode_alone():
    """DeepSeek-V3: the product of latent vectors, 512 by 128 · (128 + 128), becomes two a head, of equal FLOP."""
    decoder = configuration.find("DeepSeek-V3")
    step = decode(decoder, ONE, 2, 4095)
    query, value = named(step, "absorb query"), named(step, "absorb value")
    assert query.shape == {"m": 2, "n": 512, "k": 128, "copies": 128}
    assert value.shape == {"m": 2, "n": 128, "k": 512, "copies": 128}
    assert query.work.flop + value.work.flop == 2 * 2 * 512 * 128 * 256
    assert named(step, "absorbed").work.flop == 2 * 128 * 4096 * 2 * (576 + 512)
    assert flop(step) == 2 * 2 * (decoder.multiplied + decoder.head) + 61 * named(step, "absorbed").work.flop
    read = prefill(decoder, ONE, 1, 100)
    assert named(read, "key value").shape == {"m": 100, "n": 128 * 256, "k": 512, "copies": 1}
    assert named(read, "expanded").work.flop == 128 * 5050 * 2 * (192 + 128)


def test_an_indexer_limits_what_attention_reads():
    """GLM-5: 2048 of 10,000 tokens, after 32 heads scored all of them."""
    step = decode(configuration.find("GLM-5"), ONE, 1, 9999)
    assert named(step, "absorbed").work.flop == 64 * 2048 * 2 * (576 + 512)
    assert named(step, "index scores").work.flop == 2 * 32 * 129 * 10_000
    short = prefill(configuration.find("GLM-5"), ONE, 1, 2048)
    assert "expanded" in {each.name for each in short.stages[0]}
    assert "absorbed" in {each.name for each in prefill(configuration.find("GLM-5"), ONE, 1, 2049).stages[0]}


def test_groups_with_different_requests_exchange_tokens():
    """DeepSeek-V3 on 8 GPUs with 4 requests each and 32 experts each. A token has one of its 8 experts on a GPU with

    probability 1 - C(224, 8) / C(256, 8) = 0.6618, so it goes to 5.295 GPUs, 7/8 of them others: at a byte a number
    there, and at two back.
    """
    step = decode(configuration.find("DeepSeek-V3"), Plan(data=8, expert=8), 32, 1000)
    assert named(step, "absorbed").shape["requests"] == 4
    assert named(step, "absorbed").shape["heads"] == 128
    shape = {"tokens": 32, "hidden": 7168, "inner": 2048, "count": 256, "active": 8, "tensor": 1, "expert": 8}
    assert named(step, "experts").shape == shape
    assert named(step, "experts").work.flop == 2 * 32 * 3 * 7168 * 2048  # 32 · 8 / 8 rows
    sent = named(step, "all_to_all of tokens").work.sent_byte
    assert sent == pytest.approx(4 * 5.2946 * 7 / 8 * 7168, rel=1e-3)
    assert named(step, "all_to_all of results").work.sent_byte == 2 * sent
    assert named(step, "shared wide").shape["m"] == 4
    same = decode(configuration.find("DeepSeek-V3"), Plan(data=8), 32, 1000)
    assert named(same, "all_gather of tokens").work.sent_byte == 32 * 7168 * 7 / 8
    assert named(same, "experts").shape["tensor"] == 8


def test_stages_have_whole_layers():
    """61 layers in 4 stages: 15, 15, 16, 15. A stage sends the hidden numbers of 2 tokens on."""
    decoder = configuration.find("DeepSeek-V3")
    step = decode(decoder, Plan(pipeline=4), 2, 100)
    layers = [sum(each.calls for each in stage if each.name == "absorbed") for stage in step.stages]
    assert layers == [15, 15, 16, 15]
    assert flop(step) == flop(decode(decoder, ONE, 2, 100))
    assert named(step, "send of next stage", 1).work.sent_byte == 2 * 7168 * 2
    assert [any(each.name == "head" for each in stage) for stage in step.stages] == [False, False, False, True]


def test_recurrent_layers_keep_states():
    """Qwen3.5-397B: 45 gated delta networks with 64 states of 128 by 128, 15 layers of gated attention."""
    step = decode(configuration.find("Qwen3.5-397B-A17B"), ONE, 2, 100_000)
    delta, attention = named(step, "gated delta"), named(step, "attention")
    assert (delta.calls, attention.calls) == (45, 15)
    assert delta.work.flop == 2 * 64 * 128 * 128 * 6
    assert (delta.stored, delta.work.cache_byte) == ("fp32", 2 * 2 * 64 * 128 * 128 * 4)
    convolution = named(step, "convolution")
    assert convolution.work.flop == 2 * 2 * 4 * (2 * 16 * 128 + 64 * 128)
    decoder = configuration.find("Qwen3.5-397B-A17B")
    others = 45 * (delta.work.flop + convolution.work.flop) + 15 * attention.work.flop
    assert flop(step) == 2 * 2 * (decoder.multiplied + decoder.head) + others


def test_two_mixers_of_a_layer_run_on_the_same_input():
    space = {"mamba_n_heads": 8, "mamba_d_ssm": 128, "mamba_d_state": 8, "mamba_n_groups": 1}
    values = {**SIZES, **space, "model_type": "falcon_h1"}
    step = decode(configuration.read(values), Plan(tensor=2), 1, 5)
    names = Counter({each.name: each.calls for each in step.stages[0]})
    assert names["attention"] == names["state space"] == names["all_reduce of mixer"] == 4
    assert names["norm"] == 2 * 4 + 1
    assert named(step, "state space").shape["heads"] == 4
