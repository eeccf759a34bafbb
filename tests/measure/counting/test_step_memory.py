"""The memory of a step by hand, and plans of checkpoints against steps with ``torch.utils.checkpoint``."""

from itertools import pairwise, product

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from measure.counting.blocks import part_of_modules
from measure.counting.checkpoints import Chain
from measure.counting.count import count
from measure.counting.recording import record_training, record_training_by
from measure.counting.step_memory import memory_of_call, step_memory
from measure.counting.step_recorder import StepRecorder
from measure.counting.step_trace import StepTrace
from measure.models import catalog
from measure.models.call import Call, copy_to_meta


def counted(network, inputs, optimizer="sgd", device_kind="cpu"):
    call = Call(network, (inputs,))
    return memory_of_call(
        copy_to_meta(call), lambda: copy_to_meta(call, keep_constants=True), None, optimizer, device_kind
    )


def perceptron():
    return nn.Sequential(nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Linear(5, 2, bias=False))


def test_a_step_by_hand():
    found = counted(perceptron(), torch.ones(4, 3))
    # 15 + 10 weights with gradients and momentum; 4 rows of 3. All of 4 bytes.
    assert (found.parameter_byte, found.gradient_byte, found.state_byte, found.input_byte) == (100, 100, 100, 48)
    assert found.target_byte == 4 * 8  # a label of 8 bytes for each row
    resident = 100 + 100 + 48 + 32
    # Hidden 4 x 5 of the first layer; of ReLU, when both are alive; the first is gone when there are 4 x 2 scores.
    # Cross entropy makes as many logarithms of probabilities, then the loss and the sum of the labels' weights.
    forward = [moment for moment in found.timeline if moment.phase == "forward"]
    assert [(moment.operator, moment.byte - resident) for moment in forward] == [
        ("mm", 80), ("relu", 80 + 80), ("mm", 80 + 32),
        ("_log_softmax", 80 + 2 * 32), ("nll_loss_forward", 80 + 2 * 32 + 4 + 4),
    ]  # fmt: skip
    # ReLU's result is kept by ReLU and by the layer after it: it counts once, for ReLU.
    assert [(each.operator, each.calls, each.saved_byte) for each in found.operators] == [("relu", 1, 80)]
    assert [block.saved_byte for block in found.blocks] == [0, 80, 0]
    assert [block.output_byte for block in found.blocks[:3]] == [80, 80, 32]
    # Backward: scores, loss and its gradient stay; the scores' gradient (32), of the second weight (40), of ReLU's
    # result (80), of its input (80), of the first weight (60). What an operator has used up is freed after it.
    held = 32 + 4 + 4
    backward = [moment for moment in found.timeline if moment.phase == "backward"][-4:]
    assert [(moment.operator, moment.byte - resident, moment.gradient_byte) for moment in backward] == [
        ("mm", held + 80 + 32 + 40, 40), ("mm", held + 80 + 32 + 40 + 80, 40),
        ("threshold_backward", held + 80 + 40 + 80 + 80, 40), ("mm", held + 40 + 80 + 60, 100),
    ]  # fmt: skip
    assert found.peak == backward[2]
    assert found.timeline[-1].byte == resident + 100


@pytest.mark.parametrize(
    ("unit", "saved"),
    [
        (nn.Sigmoid(), {"sigmoid": 80}),  # its result, which the layer after it keeps as well
        (nn.SiLU(), {"silu": 80, "mm": 80}),  # its input, and the layer after it its result
        (nn.ReLU(inplace=True), {"relu_": 80}),
        (nn.Softmax(-1), {"_softmax": 80}),
        # Two statistics of 4 rows; its input; and its result, by the layer after it
        (nn.LayerNorm(5, elementwise_affine=False), {"native_layer_norm": 80 + 2 * 16, "mm": 80}),
    ],
)  # fmt: skip
def test_the_first_operator_that_keeps_a_storage_saves_it(unit, saved):
    network = nn.Sequential(nn.Linear(3, 5, bias=False), unit, nn.Linear(5, 2, bias=False))
    assert {each.operator: each.saved_byte for each in counted(network, torch.ones(4, 3)).operators} == saved


def test_a_result_that_is_viewed_before_its_next_use_counts_for_its_operator():
    network = nn.Sequential(nn.Linear(3, 5, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(10, 2, bias=False))
    found = counted(network, torch.ones(4, 2, 3))
    # ReLU keeps its result of 4 x 2 x 5; the rows of the first layer's product are views of its input.
    assert {each.operator: each.saved_byte for each in found.operators} == {"relu": 160}
    assert [block.saved_byte for block in found.blocks if block.saved_byte] == [160]


def test_the_loss_of_many_classes_by_hand():
    rows, classes = 6, 8000
    found = counted(nn.Linear(4, classes, bias=False), torch.ones(rows, 4))
    weight, scores = 4 * 4 * classes, 4 * rows * classes
    # Weight, momentum, inputs, labels. Scores, logarithms of probabilities, the gradients of both; loss, its gradient.
    assert found.peak.byte == 2 * weight + 4 * rows * 4 + 8 * rows + 4 * scores + 4 + 4
    assert (found.peak.phase, found.peak.part, found.peak.operator) == (
        "backward", "loss", "_log_softmax_backward_data",
    )  # fmt: skip
    assert found.saved_byte == 0  # of the network: its product keeps inputs and weight, which are resident
    assert [block.path for block in found.blocks] == ["."]


def test_the_loss_of_numbers_by_hand():
    call = Call(nn.Linear(4, 8, bias=False), (torch.ones(6, 4),))
    found = memory_of_call(copy_to_meta(call), lambda: copy_to_meta(call), None, "sgd", "cpu", "audio")
    # Outputs are fitted to 6 x 8 numbers. At the end: outputs, their gradient, that of the weight; loss, its gradient.
    assert found.target_byte == 4 * 48
    assert found.timeline[-2].byte - found.resident_byte == 4 * (48 + 48 + 32 + 2)


def test_an_output_that_the_loss_does_not_take_has_a_given_gradient():
    class Complex(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(10))

        def forward(self, inputs):
            return torch.complex(self.weight * inputs, inputs)

    found = counted(Complex(), torch.ones(10))
    assert (found.target_byte, found.gradient_byte) == (0, 40)


def test_an_update_under_adam_by_hand():
    # Two averages of 25 weights and two numbers of steps; root and quotient of the 15 weights, or the root of all.
    for kind, work in (("cpu", 2 * 60), ("cuda", 100)):
        found = counted(perceptron(), torch.ones(4, 3), "adam", kind)
        assert found.state_byte == 2 * 100 + 2 * 4
        assert found.timeline[-1].byte == 100 + 100 + 208 + 48 + 32 + work
        assert sum(block.state_byte for block in found.blocks) == 208


@pytest.mark.parametrize("name", ["torchvision:shufflenet_v2_x0_5", "language:gpt2_prefill_16"])
def test_the_blocks_sum_to_the_counted_workload(name):
    (model,) = catalog.find([name])
    found, row = step_memory(model, 2), count(model, 2).workload
    assert max(moment.byte for moment in found.timeline[:-1]) == row.training_peak_byte
    assert found.saved_byte == row.saved_byte == sum(each.saved_byte for each in found.operators)
    for column, total in (("parameter_byte", row.parameter_byte), ("gradient_byte", row.gradient_byte)):
        assert sum(getattr(block, column) for block in found.blocks) == getattr(found, column) == total
    assert sum(block.forward_flop for block in found.blocks) == row.forward_flop
    assert sum(block.backward_flop for block in found.blocks) == row.backward_flop


class Blocks(nn.Module):
    """Blocks between a first and a last layer, with these segments under a checkpoint each."""

    def __init__(self, first, blocks, last, segments):
        super().__init__()
        self.first, self.blocks, self.last, self.segments = first, nn.ModuleList(blocks), last, dict(segments)

    def run(self, hidden, numbers):
        for number in numbers:
            hidden = self.blocks[number](hidden)
        return hidden

    def forward(self, inputs):
        hidden, number = self.first(inputs), 0
        while number < len(self.blocks):
            after = self.segments.get(number, number) + 1
            numbers = range(number, after)
            if number in self.segments:
                hidden = checkpoint(self.run, hidden, numbers, use_reentrant=False)
            else:
                hidden = self.run(hidden, numbers)
            number = after
        return self.last(hidden)


def transformer(segments=(), depth=9, norm_first=True):
    options = {"dropout": 0.0, "batch_first": True, "activation": "gelu", "norm_first": norm_first}
    blocks = [nn.TransformerEncoderLayer(64, 4, 128, **options) for _ in range(depth)]
    return Blocks(nn.Linear(8, 64), blocks, nn.Linear(64, 10), segments), torch.randn(16, 48, 8)


def post_norm(segments=()):
    return transformer(segments, norm_first=False)


class Convolution(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        stride = 1 if inputs == outputs else 2
        self.product = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm, self.unit = nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)

    def forward(self, image):
        return self.unit(self.norm(self.product(image)))


def convolutions(segments=(), channels=(8, 8, 8, 16, 16, 16, 32, 32, 32, 32)):
    blocks = [Convolution(*pair) for pair in pairwise(channels)]
    last = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], 10))
    return Blocks(nn.Conv2d(3, channels[0], 3, padding=1), blocks, last, segments), torch.randn(16, 3, 32, 32)


@pytest.mark.parametrize("make", [transformer, post_norm, convolutions])
def test_plans_hold_in_steps_with_checkpoints(make):
    found = counted(*make())
    numbers = {path: number for number, path in enumerate(block.path for block in found.blocks if block.is_block)}
    assert [plan.name for plan in found.plans][:3] == ["none", "3 segments", "every block"]
    for plan in found.plans:
        network, inputs = make([(numbers[first], numbers[last]) for first, last in plan.segments])
        real = record_training(network, [inputs])
        assert plan.peak_byte == pytest.approx(found.resident_byte + real.memory.peak_byte, rel=0.05), plan.name
    none, _, every, half, least = found.plans
    assert none.peak_byte == found.peak.byte
    assert least.peak_byte <= min(plan.peak_byte for plan in found.plans) * 1.001
    assert half.recompute_flop <= every.recompute_flop / 2


@pytest.mark.parametrize("share", [0.4, 1.0])
def test_no_other_segments_have_a_lower_peak(share):
    network, inputs = convolutions(channels=(8, 8, 16, 16, 8, 32))
    network, inputs = network.to("meta"), inputs.to("meta")
    parts = part_of_modules(network)
    trace = StepTrace(record_training_by(StepRecorder, network, [inputs]), parts, set())
    blocks = list(dict.fromkeys(part for part in trace.part_of_run if part.is_block))
    flop = [2, 2, 1, 3, 2]
    chain = Chain(trace, blocks, flop)
    found = chain.least_peak(share)
    assert chain.recompute_flop(found) <= share * sum(flop)
    peaks = []
    for cuts, chosen in product(product([False, True], repeat=4), product([False, True], repeat=5)):
        bounds = [0, *(place for place, is_cut in enumerate(cuts, 1) if is_cut), 5]
        pairs = list(pairwise(bounds))
        segments = [(first, after - 1) for (first, after), is_on in zip(pairs, chosen, strict=False) if is_on]
        if chain.recompute_flop(segments) <= share * sum(flop):
            peaks.append(chain.replay(segments).peak_byte)
    assert chain.replay(found).peak_byte <= min(peaks) * 1.001


def test_a_step_that_torch_refuses_is_refused():
    for network, reason in (
        (nn.Linear(3, 2).requires_grad_(False), "no output has a gradient|none of its parameters"),
        (nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5)), "train at batch 2"),
    ):
        with pytest.raises(NotImplementedError, match=reason):
            counted(network, torch.ones(1, 3))
