"""Layouts that a number of GPUs allows, and one sentence with the nearest for those that it does not."""

import re

import pytest

from measure.errors import UserError
from measure.planning.decoders import TrainedDecoder
from measure.planning.fabric import Fabric
from measure.planning.layout import FLAGS, Layout, choose, layouts, most_gpus
from measure.planning.search import best_schedule
from measure.planning.states import state_bytes
from measure.planning.training import Accelerator, TrainingSetup
from measure.serving import configuration


def llama(tokens=4096):
    return TrainedDecoder(configuration.find("Meta-Llama-3.1-70B"), tokens, 2)


def test_all_products_of_a_number_of_gpus():
    found = set(layouts(llama(), 4, 64))
    # Data groups of 4 and 2 with four stages of ZeRO each; 2 = data 2 with tensor 2 or pipeline 2; and no data groups
    expected = {Layout(4, zero) for zero in range(4)}
    expected |= {Layout(2, zero, *sizes) for zero in range(4) for sizes in ((2, 1), (1, 2))}
    expected |= {Layout(tensor=4), Layout(tensor=2, pipeline=2), Layout(pipeline=4)}
    assert found == expected


def test_the_most_gpus_are_those_of_the_largest_layout():
    for batch in (1, 6):
        able = [gpus for gpus in range(1, 400) if any(layouts(llama(16384), gpus, batch, 8))]
        for gpus in (1, 127, 131, 399):
            assert most_gpus(llama(16384), gpus, batch, 8) == max(each for each in able if each <= gpus)


def test_long_sequences_are_split():
    # Two GPUs: data groups or parts of a sequence with four stages of ZeRO each, tensor, pipeline
    expected = {Layout(2, zero) for zero in range(4)} | {Layout(zero=zero, context=2) for zero in range(4)}
    assert set(layouts(llama(16384), 2, 64)) == expected | {Layout(tensor=2), Layout(pipeline=2)}
    # 16,384 tokens are two parts of 8,192. --cp splits shorter ones
    assert {each.context for each in layouts(llama(16384), 8, 64)} == {1, 2}
    assert {each.context for each in layouts(llama(16383), 8, 64)} == {1}
    assert {each.context for each in choose(llama(), 8, 64, {"cp": 4}, 8)} == {4}
    # One sequence leaves seven of eight GPUs no other data: they split it, share matrices, or have other layers
    assert {each.context for each in layouts(llama(131072), 8, 1)} == {1, 2, 4, 8}


def test_experts_join_data_groups():
    network = TrainedDecoder(configuration.find("Mixtral-8x7B-v0.1"), 4096, 2)
    assert {each.expert for each in layouts(network, 16, 16) if each.data == 16} == {1, 2, 4, 8}


@pytest.mark.parametrize(
    ("gpus", "batch", "fixed", "sentence"),
    [
        (8, 64, {"tp": 3}, "--tp 3 does not divide the heads and matrices of a layer .* is --dp 2 --tp 4 --pp 1"),
        (128, 64, {"pp": 128}, "--pp 128 is more stages than .* has blocks (80); .* is --dp 2 --tp 1 --pp 64"),
        (128, 64, {"dp": 128}, "--batch 64 has fewer sequences than --dp 128 has groups; .* is --dp 64 --tp 1 --pp 2"),
        (6, 64, {"dp": 6}, "--dp 6 does not divide --batch 64; .* is --dp 2 --tp 1 --pp 3"),
        (64, 64, {"dp": 4, "tp": 4, "pp": 2}, "makes 32 GPUs, not --gpus 64; .* is --dp 4 --tp 4 --pp 4"),
        (64, 64, {"tp": 8, "pp": 16}, "makes 128 GPUs, which do not divide --gpus 64; .* is --dp 1 --tp 4 --pp 16"),
        (64, 64, {"tp": 16}, "--tp 16 crosses nodes of 8 GPUs, and .* need --network GB/s; .* --tp 8"),
        (8, 64, {"zero": 3, "tp": 8}, "--zero 3 shards the states of data groups, and there is one; .* --tp 4"),
        (6, 64, {"zero": 1, "tp": 4}, "do not divide --gpus 6; .* is --dp 2 --zero 1 --tp "),
        (6, 64, {"cp": 3}, "--cp 3 does not cut 4096 tokens into 6 parts, two for each GPU (--cp 2 or 4 does); "
         ".* is --dp 1 --tp 1 --cp 2 --pp 3"),
        (8, 64, {"cp": 16}, "--cp 16 makes 16 GPUs, which do not divide --gpus 8; .* is --dp 1 --tp 1 --cp 8 --pp 1"),
        (8, 64, {"ep": 2}, "--ep 2 spreads experts, and the layers have none; the nearest that works is"),
        (97, 64, {}, "97 GPUs cannot share .*; use --gpus 96, or --batch 97 or a multiple"),
        # 80 stages of the 8 GPUs of a node, for each of 8 sequences
        (10**9 - 1, 8, {}, f"{10**9 - 1} GPUs cannot share .*; use --gpus 5120, or --batch {10**9 - 1} or a multiple"),
    ],
)  # fmt: skip
def test_a_wrong_layout_gets_the_nearest_that_works(gpus, batch, fixed, sentence):
    pattern = ".*".join(re.escape(part) for part in sentence.split(".*"))
    with pytest.raises(UserError, match=pattern) as raised:
        choose(llama(), gpus, batch, fixed, 8)
    flags = re.findall(r"--(dp|zero|tp|cp|pp|ep) (\d+)", str(raised.value).rpartition("works is")[2])
    if flags:  # what it names does work
        assert choose(llama(), gpus, batch, {flag: int(size) for flag, size in flags}, 8)


def test_fixed_sizes_choose_among_all():
    found = choose(llama(), 8, 64, {"tp": 2, "zero": 3}, 8)
    assert {(each.data, each.pipeline) for each in found} == {(4, 1), (2, 2)}
    assert all(each.tensor == 2 and each.zero == 3 for each in found)
    assert set(FLAGS.values()) == set(vars(Layout()))


def test_a_micro_batch_divides_the_inputs_of_a_group():
    setup = TrainingSetup(llama(), Accelerator("x", 1e15, 1e12, None), Fabric(1e11, 8), state_bytes("bf16", "sgd"), 64)
    with pytest.raises(UserError, match="--micro-batch: 3 does not divide the 8 sequences of a data group; use 2 or 4"):
        best_schedule(setup, Layout(data=8), micro_batch=3)
    assert best_schedule(setup, Layout(data=8), micro_batch=2).micro_batches == 4
