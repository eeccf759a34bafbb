import dataclasses

import pytest
from helpers import counting
from helpers.counting import Own, meta, nn, rows, torch

from measure.cache.schema import TABLES
from measure.cache.workload_records import Layer, Operator
from measure.counting import count
from measure.models import catalog

pytest.importorskip("torchvision", reason="the models are torchvision's")

ALEXNET, SQUEEZENET, MOBILENET, VIT = catalog.find(["alexnet", "squeezenet1_0", "mobilenet_v2", "vit_b_32"])


def count_network(network, *shape):
    columns, layers, _ = count.count_network(network.to("meta"), (meta(*shape),))
    return columns, {layer["path"]: layer for layer in layers}


def test_alexnet_by_hand():
    row, layers, _ = count.count(ALEXNET, 2)
    assert (row.status, row.reason, row.uncounted) == ("ok", None, None)
    assert row.parameter_byte == 4 * 61_100_840
    assert row.input_byte == 2 * 3 * 224 * 224 * 4
    assert row.output_byte == 2 * 1000 * 4
    assert row.input_shape == "3x224x224"
    # Outputs of leaf modules for one image, ReLU in place: convolutions 64*55*55, 192*27*27, 384*13*13, 256*13*13,
    # 256*13*13; pools 64*27*27, 192*13*13, 256*6*6; adaptive pool 256*6*6; dropout returns its input in eval mode;
    # linear 4096, 4096, 1000.
    convolutions = 64 * 55 * 55 + 192 * 27 * 27 + (384 + 256 + 256) * 13 * 13
    pools = 64 * 27 * 27 + 192 * 13 * 13 + 256 * 6 * 6
    linears = 4096 + 4096 + 1000
    own_pool = 256 * 6 * 6
    assert row.activation_byte == 2 * 4 * (convolutions + pools + own_pool + linears)
    # Multiply-adds: outputs times inputs of the window, layer by layer.
    first = 64 * 55 * 55 * 3 * 11 * 11
    others = 192 * 27 * 27 * 64 * 25 + 13 * 13 * 9 * (384 * 192 + 256 * 384 + 256 * 256)
    dense = 9216 * 4096 + 4096 * 4096 + 4096 * 1000
    assert row.forward_flop == 2 * 2 * (first + others + dense)
    # Both gradients of every layer; the first one's input, the image, gets none.
    assert row.backward_flop == 2 * 2 * (first + 2 * (others + dense))
    # Biases and ReLU an operation each; 3 x 3 windows are 8 comparisons; the adaptive pool divides each of its inputs.
    biases = convolutions + linears
    relus = convolutions + 4096 + 4096
    assert row.forward_other_flop == 2 * (biases + relus + 8 * pools + own_pool)
    assert [layer.path for layer in layers][:3] == ["features.0", "features.1", "features.2"]


def test_memory_by_hand():
    # 4 inputs of 10 through 20 hidden units to 5 outputs, in fp32: parameters 220 and 105, input 40.
    columns, layers = count_network(nn.Sequential(nn.Linear(10, 20), nn.Sigmoid(), nn.Linear(20, 5)), 4, 10)
    resident = 4 * (220 + 105 + 40)
    assert columns["parameter_byte"] == columns["gradient_byte"] == columns["momentum_byte"] == 4 * 325
    assert columns["adam_byte"] == 2 * 4 * 325 + 4 * 4  # two averages, and a step for each of four tensors
    # Inference: Sequential holds one output while the next is made: 80 and 80 elements, then 80 and 20.
    assert columns["inference_peak_byte"] == resident + 4 * (80 + 80)
    # Sigmoid keeps its output, which is also the last layer's input: once. The first layer's input is the model's.
    assert columns["saved_byte"] == layers["1"]["saved_byte"] == 4 * 80


def test_training_peak_by_hand():
    # One weight of 3 x 100, no bias: input 200, output 6 elements. Backward makes the output's gradient (6) and the
    # weight's (300) besides the output (6), and the loss of one element; momentum is 300.
    columns, _ = count_network(nn.Linear(100, 3, bias=False), 2, 100)
    resident = 4 * (300 + 200 + 300)
    assert columns["training_peak_byte"] == pytest.approx(resident + 4 * (6 + 6 + 300), abs=16)


def test_work_grows_with_the_batch_and_parameters_do_not():
    (one, *_), (eight, *_) = count.count_all(SQUEEZENET, [1, 8], "fp32", None)
    for name in ("forward_flop", "backward_flop", "forward_other_flop", "activation_byte", "input_byte"):
        assert getattr(eight, name) == 8 * getattr(one, name)
    assert eight.parameter_byte == one.parameter_byte == eight.gradient_byte
    assert one.training_peak_byte < eight.training_peak_byte < 8 * one.training_peak_byte


SUMS = {
    "inference": ("forward_flop", "forward_other_flop", None, "traffic_byte"),
    "backward": ("backward_flop", "backward_other_flop", "recompute_flop", "backward_traffic_byte"),
}
"""The workload's columns that the calls of a stage sum to: FLOP, other FLOP, what is computed again, bytes."""


@pytest.mark.parametrize("model", [SQUEEZENET, MOBILENET, VIT], ids=lambda model: model.name)
def test_layers_and_operators_sum_to_the_model(model):
    row, layers, operators = count.count(model, 3)
    counted = {field.name for field in dataclasses.fields(row) if field.name.endswith(("_flop", "_byte", "_count"))}
    columns = counted & {field.name for field in dataclasses.fields(Layer)}
    assert len(columns) == 11
    for name in columns:
        assert sum(getattr(layer, name) for layer in layers) == getattr(row, name), name
    assert [layer.position for layer in layers] == list(range(len(layers)))
    for stage, names in SUMS.items():
        for name, whole in zip(("flop", "other_flop", "recompute_flop", "byte"), names, strict=True):

            def sums(kind=None, stage=stage, name=name):
                own = (each for each in operators if each.stage == stage and kind in (None, each.layer_kind))
                return sum(getattr(each, name) * each.calls for each in own)

            assert sums() == (getattr(row, whole) if whole else 0), (stage, name)
            for kind in {layer.layer_kind for layer in layers} if whole else ():
                own_layers = [getattr(layer, whole) for layer in layers if layer.layer_kind == kind]
                assert sums(kind) == sum(own_layers), (stage, name, kind)
    keys = [tuple(getattr(each, name) for name in TABLES[Operator].key) for each in operators]
    assert len(set(keys)) == len(keys)


def test_a_backward_pass_that_fails_leaves_the_forward_counts_and_the_reason():
    class Inference(nn.BatchNorm2d):
        def forward(self, images):
            if self.training:
                raise ValueError("only for inference")
            return super().forward(images)

    columns, layers = count_network(nn.Sequential(nn.AdaptiveAvgPool2d(1), Inference(3)), 1, 3, 4, 4)
    assert columns["reason"] == "backward not counted: 1 (Inference): ValueError: only for inference"
    assert columns["forward_other_flop"] > 0
    assert columns["backward_flop"] is columns.get("training_peak_byte") is layers["1"]["backward_traffic_byte"] is None


def test_a_model_without_counts_has_a_row_with_the_reason():
    row, layers, operators = count.not_counted(ALEXNET, 4, "fp32", None, "unsupported", "no shape")
    assert (row.model, row.batch, row.status, row.reason) == ("alexnet", 4, "unsupported", "no shape")
    assert row.forward_flop is None
    assert layers == operators == []


def test_operators_without_a_formula_are_listed_with_calls_and_share():
    powers = Own(lambda _self, values: torch.linalg.matrix_exp(values) + torch.linalg.matrix_exp(values))
    columns, _ = count_network(powers, 2, 10, 10)
    # Each exponential reads 800 bytes and writes 800, two of them; the addition 2400: 3200 of 5600. Backward is without
    # parameters, so nothing runs.
    assert columns["uncounted"] == "linalg_matrix_exp:2:0.57"


def test_arguments_with_names_are_counted_as_those_without():
    network = Own(lambda self, rows, *, offset: self.layer(rows) + offset, layer=nn.Linear(3, 5, device="meta"))
    columns, *_ = count.count_network(network, (), {"rows": meta(4, 3), "offset": meta(4, 5)})
    assert columns["forward_flop"] == 2 * 4 * 3 * 5
    assert columns["input_byte"] == 4 * (4 * 3 + 4 * 5)
    # The product and its sum with the offset are alive at once, besides 20 parameters and the inputs.
    assert columns["inference_peak_byte"] == 4 * (20 + 32) + 4 * (20 + 20)


@pytest.mark.parametrize(
    ("precision", "autocast", "parameter", "activation"),
    # The normalisation keeps the type of its inputs under autocast; the linear layer runs in bf16.
    [("fp32", None, 4, 4 + 4), ("bf16", None, 2, 2 + 2), ("fp16", None, 2, 2 + 2), ("bf16", "cpu", 4, 4 + 2)],
)
def test_precisions(precision, autocast, parameter, activation):
    counting.network = lambda batch: (nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 8)), rows(batch, 8))
    (model,) = catalog.find([f"{counting.__name__}:network"])
    row = count.count(model, 2, precision, autocast).workload
    assert (row.precision, row.autocast) == (precision, autocast)
    assert (row.parameter_byte, row.activation_byte) == (parameter * (16 + 72), activation * 16)
    assert row.forward_flop == 2 * 2 * 8 * 8
