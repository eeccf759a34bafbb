from functools import partial

import pytest
import torchvision
from helpers.counting import Own, counted, linear, meta, nn, on, rows, torch
from torch.ao.quantization import quantize_dynamic
from torch.distributed._composable.replicate import replicate
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils.flop_counter import FlopCounterMode, register_flop_formula

from measure.counting import count
from measure.domain.schema import TABLES
from measure.domain.words import least_byte
from measure.domain.workload_records import Operator
from measure.models import catalog

ALEXNET, SQUEEZENET, VIT = catalog.find(["alexnet", "squeezenet1_0", "vit_b_32"])


def count_network(network, *shape):
    columns, layers, _ = count.count_network(network.to("meta"), (meta(*shape),))
    return columns, {layer["path"]: layer for layer in layers}


def test_alexnet_by_hand():
    row, layers, _ = count.count(ALEXNET, 2)
    assert (row.status, row.reason, row.uncounted, row.input_shape) == ("ok", None, None, "3x224x224")
    assert (row.parameter_byte, row.input_byte, row.output_byte) == (4 * 61_100_840, 2 * 3 * 224**2 * 4, 2 * 1000 * 4)
    # Outputs of leaf modules for one image, ReLU in place; dropout returns its input in eval mode.
    convolutions = 64 * 55 * 55 + 192 * 27 * 27 + (384 + 256 + 256) * 13 * 13
    pools, adaptive_pool = 64 * 27 * 27 + 192 * 13 * 13 + 256 * 6 * 6, 256 * 6 * 6
    linears = 4096 + 4096 + 1000
    assert row.activation_byte == 2 * 4 * (convolutions + pools + adaptive_pool + linears)
    # Multiply-adds: outputs times inputs of the window, layer by layer.
    first = 64 * 55 * 55 * 3 * 11 * 11
    others = 192 * 27 * 27 * 64 * 25 + 13 * 13 * 9 * (384 * 192 + 256 * 384 + 256 * 256)
    dense = 9216 * 4096 + 4096 * 4096 + 4096 * 1000
    assert row.forward_flop == 2 * 2 * (first + others + dense)
    # Both gradients of every layer; the first one's input, the image, gets none.
    assert row.backward_flop == 2 * 2 * (first + 2 * (others + dense))
    # Biases and ReLU an operation each; 3 x 3 windows are 8 comparisons; the adaptive pool divides each of its inputs.
    biases, relus = convolutions + linears, convolutions + 4096 + 4096
    assert row.forward_other_flop == 2 * (biases + relus + 8 * pools + adaptive_pool)
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


SUMS = {
    "inference": ("forward_flop", "forward_other_flop", None, "traffic_byte"),
    "backward": ("backward_flop", "backward_other_flop", "recompute_flop", "backward_traffic_byte"),
}
"""The workload's columns that the calls of a stage sum to: FLOP, other FLOP, recomputed FLOP, bytes."""


@pytest.mark.parametrize("model", [SQUEEZENET, VIT], ids=lambda model: model.name)
def test_layers_and_operators_sum_to_the_model(model):
    row, layers, operators = count.count(model, 3)
    columns = {name for name in vars(row).keys() & vars(layers[0]) if name.endswith(("_flop", "_byte", "_count"))}
    assert len(columns) == 11
    for name in columns:
        assert sum(getattr(layer, name) for layer in layers) == getattr(row, name), name
    assert [layer.position for layer in layers] == list(range(len(layers)))
    for stage, wholes in SUMS.items():
        for name, whole in zip(("flop", "other_flop", "recompute_flop", "byte"), wholes, strict=True):
            for kind in {layer.layer_kind for layer in layers}:
                calls = [each for each in operators if (each.stage, each.layer_kind) == (stage, kind)]
                of_layers = [getattr(layer, whole) for layer in layers if whole and layer.layer_kind == kind]
                assert sum(getattr(each, name) * each.calls for each in calls) == sum(of_layers), (stage, name, kind)
    keys = [tuple(getattr(each, name) for name in TABLES[Operator].key) for each in operators]
    assert len(set(keys)) == len(keys)


def test_operators_without_a_formula_have_calls_and_share():
    powers = Own(lambda _self, values: torch.linalg.matrix_exp(values) + torch.linalg.matrix_exp(values))
    columns, _ = count_network(powers, 2, 10, 10)
    # Each exponential reads 800 bytes and writes 800, two of them; the addition 2400: 3200 of 5600. Backward is without
    # parameters, so nothing runs.
    assert columns["uncounted"] == "linalg_matrix_exp:2:0.57"


def test_a_backward_pass_that_fails_keeps_the_forward_counts():
    class Inference(nn.BatchNorm2d):
        def forward(self, images):
            if self.training:
                raise ValueError("only for inference")
            return super().forward(images)

    columns, layers = count_network(nn.Sequential(nn.AdaptiveAvgPool2d(1), Inference(3)), 1, 3, 4, 4)
    assert columns["reason"] == "backward not counted: 1 (Inference): ValueError: only for inference"
    assert columns["forward_other_flop"] > 0
    assert columns["backward_flop"] is columns.get("training_peak_byte") is layers["1"]["backward_traffic_byte"] is None


# Models of libraries, against torch's own counter and the numbers that torchvision publishes: the smallest of each
# kind, as others have more or wider layers of that kind. data/workload/counting_programs.csv compares all of them.
FAST = ("alexnet", "resnet18", "shufflenet_v2_x0_5", "squeezenet1_1", "swin_t", "vit_b_32")
SLOW = (
    "convnext_tiny", "densenet121", "efficientnet_b0", "efficientnet_v2_s", "googlenet", "inception_v3", "maxvit_t",
    "mnasnet0_5", "mobilenet_v2", "mobilenet_v3_small", "regnet_x_400mf", "regnet_y_400mf", "resnet50",
    "resnext50_32x4d", "squeezenet1_0", "swin_v2_t", "vgg11", "vgg11_bn", "vit_h_14", "wide_resnet50_2",
)  # fmt: skip


@pytest.mark.parametrize("name", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_counts_are_those_of_torch_and_of_torchvision(name):
    (model,) = catalog.find([f"torchvision:{name}"], native_size=True)
    network, inputs = catalog.build_on_meta(model), catalog.make_inputs(model, 1, "meta")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(*inputs)
    columns, layers, _ = count.count_network(network, inputs)
    forward, backward = columns["forward_flop"], columns["backward_flop"]
    published = torchvision.models.get_model_weights(name).DEFAULT.meta["_ops"]  # in units of 1e9 MAC
    assert forward / 2e9 == pytest.approx(published, abs=0.0006)
    assert forward == counter.get_total_flops()
    # Each product has two gradients, except for the images and the coordinates of Swin's position bias.
    first = next(layer for layer in layers if layer["forward_flop"])
    biases = [layer for layer in layers if layer["path"].endswith("cpb_mlp.0")]
    assert backward == 2 * forward - sum(layer["forward_flop"] for layer in (first, *biases))
    # Each parameter, input and activation counts once in the footprint, and at least once in the traffic.
    once = least_byte(*(columns[f"{part}_byte"] for part in ("parameter", "input", "activation", "untouched")))
    assert 0 < once <= columns["traffic_byte"]
    assert columns["untouched_byte"] <= columns["parameter_byte"] + columns["input_byte"]


def test_batch_normalisation_of_one_value():
    network = on(lambda self, x: self.layers(x), 3, layers=nn.Sequential(linear(3, 4), nn.BatchNorm1d(4), linear(4, 2)))
    one, two = counted(network, 1), counted(network, 2)
    assert (two.reason, "batch normalisation" in one.reason) == (None, True)
    assert one.backward_flop == 2 * (3 * 4 + 2 * 4 * 2) == two.backward_flop // 2
    assert one.gradient_byte == two.gradient_byte


def test_an_operator_without_a_shape_is_refused_with_the_remedy():
    @torch.library.custom_op("roofwright_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    own = on(lambda self, x: twice(self.linear(x)), 4, linear=linear(4, 4))
    with pytest.raises(NotImplementedError, match=r"^Own, operator roofwright_tests\.twice: .*register_fake"):
        counted(own)
    twice.register_fake(torch.empty_like)
    assert counted(own).uncounted.startswith("roofwright_tests.twice:1:")


def test_a_custom_operator_has_the_formula_that_torch_knows():
    @torch.library.custom_op("roofwright_tests::product", mutates_args=())
    def product(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x @ weight

    @register_flop_formula(torch.ops.roofwright_tests.product)
    def flop(left, right, *_args, **_kwargs):
        return 2 * left[0] * left[1] * right[1]

    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return product(gradient, weight.t()) if ctx.needs_input_grad[0] else None, product(x.t(), gradient)

    product.register_fake(lambda x, weight: x.new_empty(len(x), weight.shape[1]))
    product.register_autograd(backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))
    parts = {"up": nn.Parameter(torch.ones(8, 4)), "out": nn.Parameter(torch.ones(4, 4))}
    row = counted(on(lambda self, x: product(product(x, self.up), self.out), 8, **parts))
    # 2 rows of 8 to 4 to 4; backward both weights, and the input of the second
    assert (row.forward_flop, row.backward_flop) == (2 * 2 * (32 + 16), 2 * 2 * (32 + 2 * 16)) == (192, 256)
    assert row.uncounted is None


def test_weights_that_processes_share_are_refused_in_a_sentence(tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    try:
        mesh = init_device_mesh("cpu", (1,))
        plan = {"0": ColwiseParallel(), "1": RowwiseParallel()}
        in_parallel = partial(parallelize_module, device_mesh=mesh, parallelize_plan=plan)
        for share in (partial(fully_shard, mesh=mesh), in_parallel, replicate):
            sharded = on(lambda self, x: self.layers(x), 8, layers=share(nn.Sequential(linear(8, 16), linear(16, 4))))
            with pytest.raises(NotImplementedError, match="processes share its weights"):
                counted(sharded)
        # One that each process holds whole: 8 to 16 to 4.
        layers = nn.parallel.DistributedDataParallel(nn.Sequential(linear(8, 16), linear(16, 4)))
        row = counted(on(lambda self, x: self.layers(x), 8, layers=layers), 1)
        assert (row.forward_flop, row.backward_flop, row.parameter_count) == (384, 512, 192)
    finally:
        torch.distributed.destroy_process_group()


def no_driver(_self, _x):
    raise RuntimeError("0 active drivers ([]). There should only be one.")


def whole(make):
    return lambda batch: (make(nn.Linear(3, 2)), rows(batch, 3))


def in_own(forward):
    return on(forward, 4, a=nn.Linear(4, 3))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        # The network's own exceptions, once
        (in_own(lambda self, x: self.a(x[:, :3])), r"^a \(Linear\), operator addmm: (?!RuntimeError)"),
        (in_own(lambda self, x: {}[self.a(x).shape]), r"^Own: KeyError: "),
        # Without a driver of a GPU, as Triton says it
        (in_own(no_driver), r"^Own: a Triton kernel .*triton_op"),
        # Modules that do not show
        (whole(lambda net: torch.export.export(net, (torch.ones(2, 3),)).module()), "exported program"),
        (whole(lambda net: quantize_dynamic(nn.Sequential(net), {nn.Linear})), "^0 hides"),
        (whole(torch.jit.script), r"TorchScript.*torch\.nn\.Module"),
        # Inputs without a single block of memory
        (lambda batch: (nn.Linear(4, 3), rows(batch, 4).to_sparse()), "an input is a sparse .*convert"),
    ],
)
def test_a_refusal_names_module_and_operator(make, named):
    with pytest.raises((NotImplementedError, RuntimeError), match=named) as caught:
        counted(make)
    assert "\n" not in str(caught.value)
    assert "0x" not in str(caught.value)
