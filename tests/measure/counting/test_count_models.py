"""All classification models of torchvision at their own sizes: our counts beside those of ``closed_forms``."""

from functools import cache

import pytest
from helpers import closed_forms

from measure.counting import count
from measure.domain.words import least_byte
from measure.models import catalog

torchvision = pytest.importorskip("torchvision", reason="counting needs torchvision")

NAMES = set(torchvision.models.list_models(module=torchvision.models))
MODELS = [model for model in catalog.find(["torchvision:*"], native_size=True) if model.name in NAMES]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


@cache
def call_of(model):
    return catalog.build_on_meta(model), catalog.make_inputs(model, 1, "meta")


@cache
def columns_of(model):
    return count.count_network(*call_of(model))[0]


@cache
def closed_forms_flop(model):
    network, inputs = call_of(model)
    return closed_forms.forward_and_backward_flop(network, *inputs)


def test_all_80_are_compared():
    assert {model.name for model in MODELS} == NAMES
    assert len(MODELS) >= 80  # in torchvision 0.29


@every_model
def test_closed_forms_are_what_torchvision_publishes(model):
    published = torchvision.models.get_model_weights(model.name).DEFAULT.meta["_ops"]  # in units of 1e9 MAC
    forward, _ = closed_forms_flop(model)
    assert forward / 2e9 == pytest.approx(published, abs=0.0006)


@every_model
def test_forward_and_backward_are_those_of_closed_forms(model):
    expected = closed_forms_flop(model)
    columns = columns_of(model)
    assert (columns["forward_flop"], columns["backward_flop"]) == expected


OTHERS = [model for model in catalog.find(["*", "language:*"]) if model.name not in NAMES]


@pytest.mark.parametrize("model", [*MODELS, *OTHERS], ids=lambda model: model.name)
def test_a_footprint_is_at_most_what_the_operators_touch(model):
    """Each parameter, input and activation counts once in the footprint, and at least once in the traffic."""
    columns = columns_of(model)
    once = least_byte(*(columns[f"{part}_byte"] for part in ("parameter", "input", "activation", "untouched")))
    assert 0 < once <= columns["traffic_byte"]
    assert columns["untouched_byte"] <= columns["parameter_byte"] + columns["input_byte"]


@pytest.mark.parametrize(
    ("name", "first_layer", "ratio"),
    [
        # All products cost two gradients but the first layer, which has no input gradient: with its multiply-adds and
        # the published 0.301e9, 0.386e9, 4.456e9 and 4.089e9 of the whole, backward over forward is 2 - first / whole.
        ("mobilenet_v2", 112 * 112 * 32 * 3 * 9, 1.964),
        ("efficientnet_b0", 112 * 112 * 32 * 3 * 9, 1.972),
        ("convnext_tiny", 56 * 56 * 96 * 3 * 16, 1.997),
        ("resnet50", 112 * 112 * 64 * 3 * 49, 1.971),
    ],
)
def test_backward_is_twice_the_forward_but_for_the_first_layer(name, first_layer, ratio):
    (model,) = (model for model in MODELS if model.name == name)
    forward, backward = closed_forms_flop(model)
    assert backward == 2 * forward - 2 * first_layer
    assert backward / forward == pytest.approx(ratio, abs=0.0005)
