"""Kernels and servers of language models: what a token waits for at least, by arithmetic that can be done by hand."""

from dataclasses import replace
from math import isclose

import pandas as pd
import pytest
from helpers.world import nothing, world

from measure.published.aside import ASIDE_DEVICE, ASIDE_MODELS
from measure.serving import kernels, step
from measure.serving.kernels import distinct_experts
from measure.serving.plan import Plan
from report.paper.frames import matching
from report.paper.served import _operations, _time_of, collective_times, decoder_of, taken_apart, token_step, work_of

LLAMA, QWEN, DEEPSEEK = "meta-llama/Llama-3.1-70B", "Qwen/Qwen3-235B-A22B-FP8", "deepseek-ai/DeepSeek-R1"
LAYER = 8192 * 10240 + 8192 * 8192 + 8192 * 57344 + 28672 * 8192  # weights of a layer of Llama
HEAD = 8192 * 128256
CACHE = 80 * 2 * 8 * 128  # numbers of a token: keys and values of 8 heads in 80 layers, at 8 bits


@pytest.fixture(scope="module")
def servers():
    return taken_apart(world().served)


def of(servers, **values):
    (_, row), *more = matching(servers, **values).iterrows()
    assert not more
    return row


def test_a_token_on_one_gpu_waits_for_all_weights_and_the_caches(servers):
    """Of 1,000 tokens in and 3,000 out, 2,501 are seen half-way, and one is written; 800 GB/s."""
    row = of(servers, row="row 2")  # 8 requests
    assert isclose(row.weights_s, (80 * LAYER + 2 * HEAD) / 800e9)
    assert isclose(row.cache_s, 8 * 2502 * CACHE / 800e9)
    # 8 requests with a third of a prompt's token each: 8 x 4 / 3 x 2 FLOP a weight at 1.28 PFLOP/s take 1.2 ms
    assert (row.products_s, row.communication_s) == (0, 0)
    assert isclose(row.share, (row.weights_s + row.cache_s) / 0.18)


def test_eight_gpus_divide_bytes_and_talk(servers):
    """Two all-reduces a layer, one of the embedding, and the scores of the vocabulary: 162 calls of 10 us."""
    alone, shared = of(servers, row="row 2"), of(servers, row="row 3")
    assert isclose(shared.weights_s, alone.weights_s / 8)
    assert isclose(shared.cache_s, alone.cache_s / 8)
    assert isclose(shared.communication_s, 162 * 10e-6)
    assert isclose(shared.rest_s, 0.09 - shared.bound_s - 162 * 10e-6)


def test_a_batch_reads_the_experts_that_its_tokens_meet(servers):
    """On each of four GPUs are 32 of 128 experts in each of 94 layers, and a quarter of all else but the router."""
    stored = 1 + 4 / 128**2  # a byte, and a scale of four for 128 x 128
    expert, dense = 3 * 4096 * 1536, 4096 * (64 + 2 * 4) * 128 + 64 * 128 * 4096
    met = 128 * (1 - (1 - 8 / 128) ** 8) / 128
    byte = 94 * (32 * expert * met * stored + dense / 4 * stored + 2 * 4096 * 128)
    row = of(servers, row="row 18")  # 8 requests
    assert isclose(row.weights_s, (byte + 2 * 4096 * 151936 / 4) / 800e9)


def test_reasons_why_a_server_has_no_bound(servers):
    reasons = servers.set_index("row").left_out
    assert reasons["row 22"] == reasons["row 26"] == "a format or a batch that is not stated, or work in progress"
    assert reasons["row 23"] == "a plan of more GPUs than such a machine has"
    assert reasons["row 24"] == "a plan that the model does not take"
    assert (reasons == "").sum() == len(reasons) - 4
    assert list(servers.row[servers.is_beaten]) == ["row 25"]


def test_requests_that_do_not_fit_have_no_bound():
    """Weights of 72 GB and eight caches of 0.4 GB do not fit into 90 % of 80 GB."""
    small = replace(world().served, memory={"NVIDIA D4 (SXM)": 80e9})
    assert of(taken_apart(small), row="row 2").left_out == "more requests than its memory holds"
    assert of(taken_apart(small), row="row 3").left_out == ""


def test_one_measurement_under_two_names_counts_once():
    served = world().served
    twice = pd.concat([served.servers, served.servers.head(1).assign(row="again", model=DEEPSEEK)], ignore_index=True)
    assert len(taken_apart(replace(served, servers=twice))) == len(taken_apart(served))


def test_what_was_set_aside_is_nowhere():
    served = world().served
    frames = (served.products, served.attention, served.experts, served.collectives, served.servers)
    assert all(ASIDE_DEVICE not in set(rows.device) for rows in frames)
    assert not set(ASIDE_MODELS) & set(served.servers.model)


def test_products_and_attention_have_their_rates():
    """512 x 16384 x 4096: 68.7 GFLOP in 200 us; 64 caches of 4,096 tokens with 8 x 128 numbers of 2 B in 1 ms."""
    served = world().served
    row = of(served.products, device="NVIDIA D4 (SXM)", weights="bf16", m=512)
    assert isclose(row.flop_per_s, 2 * 512 * 16384 * 4096 / 200e-6)
    assert isclose(row.peak_share, row.flop_per_s / 640e12)
    assert row.byte == 2 * (16384 * 4096 + 512 * 4096 + 512 * 16384)
    row = of(served.attention, device="NVIDIA D4 (SXM)", batch=64)
    assert isclose(row.bandwidth_share, 64 * 4096 * 8 * 128 * 2 / 1e-3 / 800e9)
    windowed = served.attention[served.attention.window == 128].iloc[0]
    assert windowed.cache_byte == 64 * 128 * 8 * 128 * 2


def test_a_collective_between_two_messages_takes_a_time_between_theirs():
    """A hundred times the message takes a hundred times as long: ten times in the middle of the logarithms."""
    rows = pd.DataFrame({
        "device": "a", "collective": "all_reduce", "gpus": 2, "message_byte": [100, 10000, 100],
        "latency_s": [1e-6, 1e-4, 5e-6],
    })  # fmt: skip
    curve = collective_times(rows)["a", "all_reduce", 2]
    assert isclose(_time_of(curve, 1000), 1e-5)
    assert _time_of(None, 1000) != _time_of(None, 1000)  # NaN


@pytest.mark.parametrize("model", [LLAMA, QWEN, DEEPSEEK, "Qwen/Qwen3.5-397B-A17B"])
@pytest.mark.parametrize("is_prompt", [True, False])
def test_equal_layers_counted_once_make_the_whole_step(model, is_prompt):
    decoder, plan = decoder_of(model, "fp8"), Plan()
    whole = (step.prefill if is_prompt else step.decode)(decoder, plan, 1, 100).works()[0]
    found = kernels.total(each.work * each.calls for each in _operations(decoder, plan, 100, is_prompt))
    assert all(isclose(getattr(found, name), value) for name, value in vars(whole).items())


def test_configurations_that_have_the_bits_keep_what_they_store_in_more():
    """Kimi-K2.5 stores its experts at 4 bits and all else at 16; Llama's are all stored at 4."""
    assert decoder_of("moonshotai/Kimi-K2.5", "int4").weight_byte > 1.02e12 * 4 / 8 * 1.1
    assert isclose(decoder_of(LLAMA, "nvfp4").weight_byte, 80 * LAYER * 4.5 / 8 + 4 * HEAD, rel_tol=1e-4)
    assert decoder_of("nobody/knows", "fp8") is None


def test_a_step_has_its_share_of_a_prompt():
    """Four tokens of a prompt for each of an answer: five tokens meet each weight."""
    found = token_step(LLAMA, "fp8", Plan(), 400, 100)
    layers = sum(flop for flop, byte, _ in found.products if byte < 80 * LAYER * 0.99)
    head = 2 * HEAD * (1 + 1 / 100)  # of a prompt, the last token alone
    assert isclose(layers, 5 * 2 * 80 * LAYER + head, rel_tol=1e-9)
    assert token_step(LLAMA, "fp8", Plan(tensor=3), 400, 100) is None
    assert distinct_experts(1, 128, 8) == 8


def test_the_work_of_a_prompt_and_of_a_token(servers):
    row = of(servers, row="row 4")  # 2 requests of 3,000 tokens in, 1,000 out
    scores = 3000 * 3001 // 2
    assert isclose(work_of(row, True).flop, 3000 * 2 * 80 * LAYER + 2 * HEAD + 4 * 64 * 128 * 80 * scores)
    assert isclose(work_of(row, False).flop, 2 * (2 * 80 * LAYER + 2 * HEAD + 4 * 64 * 128 * 80 * 3501))


def test_of_nothing_there_are_no_rows():
    assert taken_apart(nothing().served).empty
