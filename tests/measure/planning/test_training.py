"""A training step of Llama-3.1-70B on H100 GPUs, and of small ones, by hand arithmetic."""

from dataclasses import replace

import pytest

from measure.domain.collectives import ALL_GATHER, ALL_REDUCE, ALL_TO_ALL, REDUCE_SCATTER, SEND
from measure.planning.decoders import TrainedDecoder
from measure.planning.fabric import Fabric
from measure.planning.layout import Layout
from measure.planning.limits import limits
from measure.planning.search import best_plans, best_schedule
from measure.planning.states import state_bytes
from measure.planning.training import FULL, Accelerator, TrainingSetup, plan_step
from measure.serving import configuration
from measure.serving.decoder import Decoder, DecoderLayer, Experts, GroupedAttention, Perceptron
from measure.serving.formats import FORMATS

H100 = Accelerator("NVIDIA H100 SXM", 989e12, 3.35e12, 80e9)
NODES = Fabric(450e9, 8, 50e9)
# Llama-3.1-70B: 80 layers of 8,192 numbers, 64 heads and 8 of keys with 128 numbers, 28,672 inner ones
LAYER = 8192 * (64 + 2 * 8) * 128 + 8192 * 8192 + 3 * 8192 * 28672 + 2 * 8192
HEAD = 128256 * 8192
PARAMETERS = 80 * LAYER + 2 * HEAD + 8192


def large(batch=64, tokens=4096, states=None):
    network = TrainedDecoder(configuration.find("Meta-Llama-3.1-70B"), tokens, 2)
    return TrainingSetup(network, H100, NODES, states or state_bytes("bf16", "adam"), batch)


def test_the_memory_of_70b_on_64_gpus_under_zero_3():
    plan = plan_step(large(), Layout(64, 3), 1, FULL)
    assert PARAMETERS == 70_553_706_496
    # 16 bytes a parameter, shared by 64: 17.6 GB, of which 1 / 8 are weights, 1 / 8 gradients, 3 / 4 the optimiser's
    states = 16 * PARAMETERS / 64
    memory = plan.memory
    assert (memory.weights, memory.gradients, memory.optimizer) == (states / 8, states / 8, states * 3 / 4)
    # Recomputing keeps the input of each layer (2 B a number), what the last norm and the head save, and one layer:
    # two norms of 6 h + 4, their outputs 2 h each, queries and results of 8,192 numbers, keys and values of 1,024,
    # a sum of 4 B for each of 64 heads, and four times the inner numbers
    layer = 2 * (6 * 8192 + 4 + 2 * 8192) + 2 * (2 * 8192 + 2 * 1024) + 4 * 64 + 2 * 4 * 28672
    kept = 4096 * (80 * 2 * 8192 + 6 * 8192 + 4 + 2 * 8192)
    assert memory.activations == kept + 4096 * layer
    assert memory.loss == 4096 * 128256 * 10
    # Gathered at 2 B: both tables with the last norm, and two layers. Gradients of the tables and of a layer are whole
    gathered, scattered = 2 * (2 * HEAD + 8192 + 2 * LAYER), 2 * (2 * HEAD + 8192 + LAYER)
    assert memory.gathered == gathered + scattered
    # One micro-batch: gradients come as activations go. The most is alive in the first layer of the backward pass
    assert memory.byte == states * 7 / 8 + memory.activations + gathered + scattered
    assert plan.fits


def test_what_zero_sends():
    setup = large()
    # Of 2 B for each parameter a GPU of 64 sends 63 / 64, for each all-gather and reduce-scatter; twice for all-reduce
    part = 2 * PARAMETERS * 63 / 64
    expected = {0: {ALL_REDUCE: 2}, 1: {REDUCE_SCATTER: 1, ALL_GATHER: 1}, 2: {REDUCE_SCATTER: 1, ALL_GATHER: 1}}
    expected[3] = {REDUCE_SCATTER: 1, ALL_GATHER: 2}
    for zero, parts in expected.items():
        sent = {each.kind: each.sent_byte for each in plan_step(setup, Layout(64, zero), 1).collectives}
        assert sent == pytest.approx({kind: times * part for kind, times in parts.items()})
    # Two micro-batches: stages 2 and 3 scatter gradients twice, and stage 3 gathers four times
    twice = plan_step(large(batch=128), Layout(64, 3), 1)
    assert [each.calls for each in twice.collectives] == [2, 4]
    assert [each.calls for each in plan_step(large(batch=128), Layout(64, 1), 1).collectives] == [1, 1]


def test_the_flop_of_a_step():
    plan = plan_step(large(), Layout(64, 3), 1)
    tokens = 64 * 4096
    # Six for each weight that a token meets: no embedding, no norms. A token sees 4,097 / 2 others on average:
    # 4 x 8,192 numbers of scores and sums, three times
    weights = 6 * (80 * (LAYER - 2 * 8192) + HEAD) * tokens
    scores = 3 * 80 * 4 * 8192 * 4097 / 2 * tokens
    assert plan.model_flop == pytest.approx(weights + scores)
    # The backward pass of attention scores once more: half of its forward pass
    assert plan.flop == pytest.approx((weights + scores + 0.5 * scores / 3) / 64)
    recomputed = plan_step(large(), Layout(64, 3), 1, FULL)
    assert recomputed.model_flop == plan.model_flop
    again = 2 * 80 * (LAYER - 2 * 8192) * tokens + scores / 3
    assert recomputed.flop - plan.flop == pytest.approx(again / 64)
    assert plan.overlapped_mfu == pytest.approx(plan.model_flop / (64 * 989e12 * plan.overlapped_s))


def test_tensor_groups_gather_and_scatter_the_stream():
    plan = plan_step(large(batch=8), Layout(tensor=8), 8)
    gathers, scatters = plan.collectives
    # 2 pairs of products in 80 layers. Forward: a gather and a scatter each, one gather before the head, one scatter
    # after the embedding. Backward: the reverse, and the inputs of the 160 pairs and of the head gathered once more
    assert gathers.calls == (160 + 1) + (160 + 1) + (160 + 1)
    assert scatters.calls == (160 + 1) + (160 + 1)
    assert gathers.message_byte == 8 * 4096 * 8192 * 2
    assert gathers.sent_byte == gathers.calls * gathers.message_byte * 7 / 8


def test_gpus_that_split_sequences_gather_keys_and_values():
    tokens = 131_072
    plan = plan_step(large(batch=8, tokens=tokens), Layout(4, 3, context=16), 1, FULL)
    # Keys and values of a sequence in a layer: 8 heads of 128 numbers each, at 2 B
    message = tokens * 2 * 8 * 128 * 2
    gathers, scatters, gradients, weights = plan.collectives
    # Two micro-batches of 80 layers: gathered forward, once more to recompute, once backward; gradients scattered
    assert (gathers.kind, gathers.gpus, gathers.calls, gathers.message_byte) == (ALL_GATHER, 16, 2 * 80 * 3, message)
    assert (scatters.kind, scatters.calls, scatters.message_byte) == (REDUCE_SCATTER, 2 * 80, message)
    assert gathers.sent_byte == 480 * message * 15 / 16
    kept = plan_step(large(batch=8, tokens=tokens), Layout(4, 3, context=16), 1)
    assert kept.collectives[0].calls == 2 * 80 * 2
    # All 64 GPUs have the same weights: ZeRO shards 16 B of each, and gradients are added among all
    assert (gradients.gpus, weights.gpus) == (64, 64)
    memory = plan.memory
    assert memory.weights + memory.gradients + memory.optimizer == 16 * PARAMETERS / 64
    # Activations are those of 8,192 tokens, a 16th
    whole = plan_step(large(batch=8, tokens=tokens), Layout(4, 3), 1, FULL)
    assert memory.activations == pytest.approx(whole.memory.activations / 16)
    assert memory.loss == 8192 * 128256 * 10
    # A layer's keys and values of the whole sequence are there, and in the backward pass their gradients
    assert memory.gathered - whole.memory.gathered == 2 * message
    # 64 GPUs do the work of 4 that have whole sequences, each a 16th
    assert plan.flop == pytest.approx(whole.flop / 16)
    assert plan.model_flop == whole.model_flop


def test_parts_of_a_sequence_are_neighbours():
    setup = large(batch=16, tokens=131_072)
    inside = plan_step(setup, Layout(8, context=4, tensor=2), 1)
    of_keys = [each for each in inside.collectives if each.group == "context"]
    # 2 GPUs share matrices, so 4 parts of a sequence fill a node of 8; each has half of the heads of keys
    assert [each.is_between for each in of_keys] == [False, False]
    assert of_keys[0].message_byte == 131_072 * 2 * 4 * 128 * 2
    (gradients,) = [each for each in inside.collectives if each.name == "gradients"]
    assert (gradients.gpus, gradients.is_between) == (32, True)
    across = plan_step(setup, Layout(4, context=8, tensor=2), 1)
    (gathers, _) = [each for each in across.collectives if each.group == "context"]
    # Of 8 parts 4 are in each of two nodes: half of the message crosses, by the networks of 4 GPUs; 7 / 8 by links
    assert gathers.is_between
    second = max(7 / 8 / 450e9, 1 / 2 / 4 / 50e9) * gathers.message_byte
    assert gathers.least_s == pytest.approx(gathers.calls * second)


def test_a_pipeline_holds_as_many_micro_batches_as_stages_and_idles():
    setup = large(batch=16)
    plan = plan_step(setup, Layout(tensor=8, pipeline=4), 1)
    assert plan.bubble == 3 / 16
    first = setup.network.stages(plan.layout)[0]
    assert plan.memory.activations == 4 * first.saved_byte
    sends = next(each for each in plan.collectives if each.kind == SEND)
    assert sends.message_byte == 4096 * 8192 * 2 / 8  # the tokens of a GPU
    assert sends.calls in (16, 32)  # the first and last stage have one neighbour


@pytest.mark.parametrize(
    ("layout", "is_between"),
    [
        (Layout(tensor=2, pipeline=4), False),  # a node of 8: stages are 2 GPUs apart
        (Layout(data=4, tensor=2, pipeline=2), True),  # 8 apart
        (Layout(data=2, tensor=2, pipeline=2), False),  # 4 apart
    ],
)
def test_stages_are_neighbours_as_far_apart_as_their_groups_are_wide(layout, is_between):
    sends = next(each for each in plan_step(large(), layout, 1).collectives if each.kind == SEND)
    assert (sends.gpus, sends.is_between) == (layout.pipeline, is_between)


@pytest.mark.parametrize(
    ("setup", "layout", "bound"),
    [
        # 8 sequences for each GPU: 6 x 70.6e9 x 32,768 FLOP take 14 s
        (large(batch=512), Layout(64), "arithmetic"),
        # 512 tokens: 0.22 s. Of twice 141 GB, 8 nodes send 7 / 8 by 8 networks of 50 GB/s each: 0.62 s
        (large(tokens=512), Layout(64, 1), "communication"),
        # One token: 28 bytes for each weight that the optimiser updates, 6 FLOP
        (large(batch=1, tokens=1), Layout(), "memory"),
        (large(batch=1), Layout(tensor=1, pipeline=8), "bubble"),  # one micro-batch: 7 of 8 stages wait
    ],
)
def test_the_longest_part_is_the_bound(setup, layout, bound):
    assert plan_step(setup, layout, 1).bound == bound


def test_the_best_plans_fit_and_come_first():
    plans = best_plans(large(), 64, {})
    assert [plan.rank for plan in plans] == sorted(plan.rank for plan in plans)
    assert plans[0].fits
    assert len({plan.layout for plan in plans}) == len(plans)
    tight = best_schedule(large(batch=4), Layout(2, 3))
    assert not tight.fits  # 16 x 70.6 GB / 2
    assert tight.recompute == FULL  # of what does not fit, the smallest


def test_the_limits_of_communication():
    setup = large(batch=1024)
    of_data, sharded, of_tensor = limits(setup)
    (stage,) = setup.network.stages(Layout())
    flop = 3 * 1024 * stage.forward_flop
    within = 1 + flop * 450e9 / (2 * 2 * PARAMETERS * 989e12)
    assert of_data.within == pytest.approx(within)
    nodes = 1 + flop * 50e9 / (2 * 2 * PARAMETERS * 989e12)
    assert of_data.gpus == int(min(within, int(nodes) * 8))
    assert sharded.within - 1 == pytest.approx((within - 1) * 4 / 6)  # 6 bytes a parameter instead of 4
    # At the limit, the time of the collectives is that of the arithmetic: 2 P g (N - 1) / N / W = C / (N F)
    assert 2 * 2 * PARAMETERS * (within - 1) / within / 450e9 == pytest.approx(flop / (within * 989e12))
    # A tensor group gathers the stream 483 times and scatters it 322 times, as above; the batch cancels
    stream = 4096 * 8192 * 2 * (483 + 322)
    assert of_tensor.within == pytest.approx(1 + 3 * stage.forward_flop * 450e9 / (stream * 989e12))
    assert limits(large(batch=8))[2].within == pytest.approx(of_tensor.within)


def test_a_limit_needs_a_network_only_beyond_its_node():
    setup = large(batch=64)
    alone = replace(setup, fabric=Fabric(450e9, 8))
    assert [each.gpus for each in limits(alone)] == [8, 8, 8]
    assert all(each.needs_network for each in limits(alone))
    assert not any(each.needs_network for each in limits(setup))
    # A hundredth of the link: 184, 123 and 16 of above become 2.8, 2.2 and 1.1
    slow = limits(replace(setup, fabric=Fabric(4.5e9, 8)))
    assert [each.gpus for each in slow] == [2, 2, 1]
    assert not any(each.needs_network for each in slow)


def test_the_optimiser_moves_its_shard():
    setup = large(batch=64)
    # Reading gradients, the optimiser's weights and two moments, writing these and the weights: 2 + 12 + 12 + 2 bytes
    whole, sharded = (plan_step(setup, Layout(64, zero), 1) for zero in (0, 1))
    assert whole.moved_byte - sharded.moved_byte == pytest.approx(28 * PARAMETERS * 63 / 64)


def tiny(experts=4):
    layer = DecoderLayer((GroupedAttention(8, 8, 16),), Experts(experts, 2, 64), 256)
    dense = DecoderLayer((GroupedAttention(8, 8, 16),), Perceptron(256), 256)
    return Decoder("tiny", "mixtral", 128, 1000, 512, False, (dense, layer), FORMATS["bf16"], FORMATS["bf16"], 128)


def test_experts_are_spread_over_data_groups():
    setup = TrainingSetup(TrainedDecoder(tiny(), 256, 2), H100, NODES, state_bytes("bf16", "adam"), 8)
    plan = plan_step(setup, Layout(data=4, expert=4), 2)
    experts = 4 * 3 * 128 * 64
    kinds = {each.name: each for each in plan.collectives}
    # Each GPU has one expert of four, and nobody else has it: its gradient stays
    assert plan.memory.weights == 2 * (tiny().parameters - experts * 3 / 4)
    assert kinds["gradients"].message_byte == 2 * (tiny().parameters - experts)
    assert "gradients of experts" not in kinds
    # A token goes to 4 (1 - C(3, 2) / C(4, 2)) = 2 GPUs on average, there and back, in both passes
    tokens = kinds["tokens of experts"]
    assert (tokens.kind, tokens.calls, tokens.message_byte) == (ALL_TO_ALL, 4, 2 * 256 * 128 * 2 * 2)
    # With two groups that have the same experts, half of each group's experts are added by the other
    half = plan_step(setup, Layout(data=4, expert=2), 2)
    added = next(each for each in half.collectives if each.name == "gradients of experts")
    assert (added.gpus, added.message_byte) == (2, 2 * experts / 2)
    # Shared matrices: the tokens of the attention and the perceptron, and apart those of the experts of another group
    shared = plan_step(setup, Layout(data=2, expert=2, tensor=2), 2)
    names = [(each.name, each.group) for each in shared.collectives if each.group in ("tensor", "expert")]
    assert sorted(names) == [
        ("inputs of experts", "tensor"), ("inputs of products", "tensor"), ("results of experts", "tensor"),
        ("results of products", "tensor"), ("tokens of experts", "expert"),
    ]  # fmt: skip
    # Two GPUs that split a sequence have the same experts, and send half of its tokens each: to
    # 2 (1 - C(2, 2) / C(4, 2)) = 5 / 3 groups on average
    split = {each.name: each for each in plan_step(setup, Layout(data=2, expert=2, context=2), 2).collectives}
    assert (split["gradients of experts"].gpus, split["gradients"].gpus) == (2, 4)
    assert split["tokens of experts"].message_byte == pytest.approx(2 * 128 * 128 * 2 * 5 / 3)
