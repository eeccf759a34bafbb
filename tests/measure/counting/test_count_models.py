"""Our counts of models of libraries, against those of torch's own counter and what torchvision publishes."""

import pytest

from measure.counting import count
from measure.domain.words import least_byte
from measure.models import catalog

torch = pytest.importorskip("torch", reason="counting needs torch")
torchvision = pytest.importorskip("torchvision", reason="counting needs torchvision")

from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

NAMES = set(torchvision.models.list_models(module=torchvision.models))
MODELS = {model.name: model for model in catalog.find(["torchvision:*"], native_size=True) if model.name in NAMES}
# One of each family, of those that are counted in a second
FAST = [
    "alexnet", "efficientnet_b0", "mobilenet_v3_small", "regnet_x_400mf", "resnet18", "shufflenet_v2_x0_5",
    "squeezenet1_1", "swin_t", "vit_b_32",
]  # fmt: skip
OTHERS = [model for model in catalog.find(["*", "language:*"]) if model.name not in NAMES]


def test_all_80_are_compared():
    assert set(MODELS) == NAMES > set(FAST)
    assert len(MODELS) >= 80  # in torchvision 0.29


def check_footprint(columns):
    """Each parameter, input and activation counts once in the footprint, and at least once in the traffic."""
    once = least_byte(*(columns[f"{part}_byte"] for part in ("parameter", "input", "activation", "untouched")))
    assert 0 < once <= columns["traffic_byte"]
    assert columns["untouched_byte"] <= columns["parameter_byte"] + columns["input_byte"]


@pytest.mark.parametrize(
    "name", [*FAST, *(pytest.param(name, marks=pytest.mark.slow) for name in MODELS if name not in FAST)]
)
def test_counts_are_those_of_torch_and_what_torchvision_publishes(name):
    network, inputs = catalog.build_on_meta(MODELS[name]), catalog.make_inputs(MODELS[name], 1, "meta")
    with FlopCounterMode(display=False) as counter:
        network(*inputs)
    columns, layers, _ = count.count_network(network, inputs)
    forward, backward = columns["forward_flop"], columns["backward_flop"]
    published = torchvision.models.get_model_weights(name).DEFAULT.meta["_ops"]  # in units of 1e9 MAC
    assert forward / 2e9 == pytest.approx(published, abs=0.0006)
    assert forward == counter.get_total_flops()
    # Each product has two gradients, but that of the images and of the coordinates of Swin's position bias.
    first = next(layer for layer in layers if layer["forward_flop"])
    biases = [layer for layer in layers if layer["path"].endswith("cpb_mlp.0")]
    assert backward == 2 * forward - sum(layer["forward_flop"] for layer in (first, *biases))
    check_footprint(columns)


@pytest.mark.slow
@pytest.mark.parametrize("model", OTHERS, ids=lambda model: model.name)
def test_a_footprint_is_at_most_what_the_operators_touch(model):
    check_footprint(count.count_network(catalog.build_on_meta(model), catalog.make_inputs(model, 1, "meta"))[0])
