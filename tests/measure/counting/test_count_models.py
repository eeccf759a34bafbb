"""Our counts of models of libraries, against those of ``closed_forms`` and what torchvision publishes."""

import pytest
from helpers import closed_forms

from measure.counting import count
from measure.domain.words import least_byte
from measure.models import catalog

torchvision = pytest.importorskip("torchvision", reason="counting needs torchvision")

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
def test_counts_are_those_of_closed_forms_and_closed_forms_those_that_torchvision_publishes(name):
    network, inputs = catalog.build_on_meta(MODELS[name]), catalog.make_inputs(MODELS[name], 1, "meta")
    forward, backward = closed_forms.forward_and_backward_flop(network, *inputs)
    published = torchvision.models.get_model_weights(name).DEFAULT.meta["_ops"]  # in units of 1e9 MAC
    assert forward / 2e9 == pytest.approx(published, abs=0.0006)
    columns, *_ = count.count_network(network, inputs)
    assert (columns["forward_flop"], columns["backward_flop"]) == (forward, backward)
    check_footprint(columns)


@pytest.mark.slow
@pytest.mark.parametrize("model", OTHERS, ids=lambda model: model.name)
def test_a_footprint_is_at_most_what_the_operators_touch(model):
    check_footprint(count.count_network(catalog.build_on_meta(model), catalog.make_inputs(model, 1, "meta"))[0])
