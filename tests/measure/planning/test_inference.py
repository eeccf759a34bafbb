"""Plans of a server by hand: weights over bandwidth, and the nearest plan that works."""

import pytest

from measure.errors import UserError
from measure.planning.fabric import Fabric
from measure.planning.inference import serving_plans
from measure.predicting.kernels import ServedChip
from measure.predicting.links import Link
from measure.serving import configuration

RATES = {"bf16": 989e12, "fp16": 989e12}
LINK = Link(450e9, 8, "NVLink 4")
H100 = ServedChip("NVIDIA H100 SXM", RATES, 3.35e12, 80e9, 700, "NVIDIA, HBM, fp8", "NVIDIA", LINK)


def plans(gpus=4, requests=8, context=4096, model="Meta-Llama-3.1-70B", **fixed):
    decoder = configuration.find(model)
    return serving_plans(decoder, H100, Fabric(450e9, 8), gpus, requests, context, fixed)


def test_four_gpus_that_share_matrices():
    best = plans()[0]
    assert best.text == "tp 4"
    assert best.weight_byte == pytest.approx(141e9 / 4, rel=0.01)
    # A token of one request: 80 layers, keys and values of 8 heads of 128 numbers at 2 B, a quarter of them here
    assert best.request_byte == 4096 * 80 * 2 * 8 * 128 * 2 / 4
    assert best.most_requests == int((80e9 - best.weight_byte) / best.request_byte)
    # A step reads the weights but the embedding, and the cache of 8 requests
    read = best.weight_byte - 128256 * 8192 * 2 / 4 + 8 * best.request_byte
    assert best.decode.memory_s == pytest.approx(read / 3.35e12, rel=0.01)
    assert best.decode.bound == "memory"
    # Two all-reduces in each of 80 layers, one after the embedding: 8 requests x 8,192 numbers, 2 x 3 / 4 of them sent
    sums = [each for each in best.collectives if each.kind == "all_reduce"]
    assert sum(each.sent_byte for each in sums) == 161 * 8 * 8192 * 2 * 1.5


LAYER = 2 * (2 * 8192 * 8192 + 2 * 8192 * 1024 + 3 * 8192 * 28672)  # B: queries, results; keys, values; perceptron
HEAD = 2 * 128256 * 8192  # B
CACHE = 4096 * 2 * 8 * 128 * 2  # B of a request in a layer: keys and values of 8 heads of 128 numbers


@pytest.mark.parametrize(
    ("sizes", "micro_batches", "read"),
    [
        # The last of the stages is the slowest, as it has the head. It reads its weights for each of the micro-batches
        # in turn, and in each the cache of its requests: 64 / 4, 64 / 2 with half of the heads, 32 / 2 in a data group
        ({"pp": 4}, 4, 20 * LAYER + HEAD + 16 * 20 * CACHE),
        ({"tp": 2, "pp": 2}, 2, (40 * LAYER + HEAD + 32 * 40 * CACHE) / 2),
        ({"dp": 2, "pp": 2}, 2, 40 * LAYER + HEAD + 16 * 40 * CACHE),
    ],
)
def test_all_stages_of_a_pipeline_work_at_once(sizes, micro_batches, read):
    (found,) = plans(requests=64, **sizes)
    assert found.micro_batches == micro_batches
    assert found.decode.overlapped_s == pytest.approx(micro_batches * read / 3.35e12, rel=0.015)  # and activations
    # Cutting requests into micro-batches moves no cache: all of a group's stay on its GPUs
    assert found.held_byte == found.weight_byte + 64 / sizes.get("dp", 1) * found.request_byte
    # Each stage but the last one sends 8,192 numbers of each request once, however they are cut
    sends = [each for each in found.collectives if each.kind == "send"]
    assert sum(each.sent_byte for each in sends) == (sizes["pp"] - 1) * 64 / sizes.get("dp", 1) * 8192 * 2


def test_requests_are_cut_as_evenly_as_they_go():
    # Three stages run 22 + 21 + 21 requests. The 22 pass all stages in a longer time than a stage takes for all
    (found,) = plans(gpus=3, requests=64, pp=3)
    assert found.micro_batches == 3
    assert found.decode.overlapped_s == pytest.approx((80 * LAYER + HEAD + 22 * 80 * CACHE) / 3.35e12, rel=0.015)
    # Each of two stages sends 8,192 numbers of each request
    assert [(each.calls, each.message_byte / 8192 / 2) for each in found.collectives] == 2 * [(1, 22), (2, 21)]
    assert found.decode.sent_byte == 2 * 64 * 8192 * 2


def test_a_single_request_passes_all_stages_in_turn():
    (found,) = plans(requests=1, pp=4)
    assert found.micro_batches == 1
    assert found.decode.overlapped_s == pytest.approx((80 * LAYER + HEAD + 80 * CACHE) / 3.35e12, rel=0.01)


def test_the_context_leaves_room_for_a_token():
    with pytest.raises(UserError, match="use a --context of 131071 or less"):
        plans(context=131072)
    assert plans(context=131071)


def test_plans_that_fit_come_first_and_the_others_by_memory():
    found = plans(gpus=2, requests=2)
    assert [plan.fits for plan in found] == sorted((plan.fits for plan in found), reverse=True)
    assert found[-1].text == "dp 2"  # two copies of 141 GB


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ({"tp": 3}, "tensor=3 does not divide the heads and matrices of a layer; use tensor=2 or tensor=4"),
        ({"tp": 4, "dp": 3}, "the sizes make 12 GPUs, and --gpus is 4; the nearest that works is --dp 1 --tp 4 --pp 1"),
        ({"dp": 4, "requests": 2}, "--dp 4 has more groups than --batch 2 has requests; .* --dp 2"),
        # 80 stages of the 8 GPUs of a node, for each of 8 requests
        ({"gpus": 10**9 - 1}, "999999999 GPUs cannot share 8 requests and 80 layers; use --gpus 5120"),
        ({"tp": 16, "gpus": 16}, "--tp 16 crosses nodes of 8 GPUs, .* --network GB/s; .* --dp 2 --tp 8 --pp 1"),
    ],
)
def test_a_wrong_plan_gets_the_nearest_that_works(sizes, sentence):
    with pytest.raises(UserError, match=sentence):
        plans(**sizes)


def test_the_most_gpus_that_share_experts():
    # Mixtral has 32 layers and 8 experts of 14,336 = 2**11 x 7, so a stage may have 7 data groups, and not 9
    for requests, most in ((7, 7 * 8 * 32), (9, 8 * 8 * 32)):
        with pytest.raises(UserError, match=f"use --gpus {most}$"):
            plans(10**6, requests, model="Mixtral-8x7B-v0.1")
        assert plans(most, requests, model="Mixtral-8x7B-v0.1")
