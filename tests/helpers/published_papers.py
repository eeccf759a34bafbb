"""The printed tables beside a workload of a few models whose counts are published, and no machine.

FLOP by hand, with torchvision's multiply-adds (G) of one image and of its first layer: resnet50 4.089 and 0.118,
vit_b_32 4.409 and 0.1156, mobilenet_v3_large 0.2166 and 0.00542, mobilenet_v2 0.3008 and 0.01084, alexnet 0.7142 and
0.0703. The backward pass has two gradients a layer, but one in the first.
"""

from dataclasses import replace
from functools import cache

from helpers.papers import REFERENCES, committed_chips, empty
from helpers.places import ROOT
from helpers.rows import layer, workload
from measure.cache.workload_records import Layer, Workload
from report.paper import Paper, frame, hand_tables, workloads

MACS = {
    "resnet50": (4.089e9, 0.118e9),
    "vit_b_32": (4.409e9, 0.1156e9),
    "mobilenet_v3_large": (0.2166e9, 0.00542e9),
    "mobilenet_v2": (0.3008e9, 0.01084e9),
    "alexnet": (0.714188480e9, 0.0702768e9),
}
"""Of one image: all multiply-adds, and those of the first layer."""

LINEAR_MAC = 9216 * 4096 + 4096 * 4096 + 4096 * 1000
"""AlexNet's three linear layers."""

ALEXNET_OUTPUT_BYTE = 4 * 1_084_904
"""2 x 193600 + 46656 + 2 x 139968 + 32448 + 2 x 64896 + 4 x 43264 + 2 x 9216 + 4 x 4096 + 1000 numbers an image."""


def _asked(model: str, batch: int) -> Workload:
    mac, first = MACS[model]
    forward, backward = round(2 * batch * mac), round(2 * batch * (2 * mac - first))
    counted = workload(
        model, batch, forward, forward_other_flop=batch * 10**6, backward_flop=backward, backward_other_flop=0,
        parameter_count=61_100_840, parameter_byte=244_403_360, input_byte=602_112 * batch, output_byte=4000 * batch,
        activation_byte=2_366_880 * batch, traffic_byte=254_387_264 * batch,
    )  # fmt: skip
    return replace(counted, input_shape="3x224x224")


def _layers(batch: int) -> list[Layer]:
    """AlexNet as two layers: one with all outputs, and the linear ones."""
    features = replace(
        layer("alexnet", batch, 0, 0), input_shape="3x224x224", layer_kind="convolution",
        activation_byte=ALEXNET_OUTPUT_BYTE * batch, backward_flop=10**9, saved_byte=10**6 * batch,
        parameter_byte=10**7,
    )  # fmt: skip
    linear = replace(
        layer("alexnet", batch, 1, 2 * batch * LINEAR_MAC), input_shape="3x224x224", activation_byte=0,
        traffic_byte=234 * 10**6,
        backward_flop=4 * batch * LINEAR_MAC, saved_byte=0, parameter_byte=234 * 10**6,
    )  # fmt: skip
    return [features, linear]


@cache
def printed() -> Paper:
    keys = hand_tables.read_keys(REFERENCES)
    folder = ROOT / "data" / "published"
    shown = workloads.shown(frame([_asked(model, batch) for model in MACS for batch in (1, 64)], Workload), {})
    layers = workloads.parts_of(frame([*_layers(1), *_layers(64)], Layer), shown)
    return replace(
        empty(),
        chips=committed_chips(),
        published=hand_tables.published(folder, keys),
        training_steps=hand_tables.training_steps(folder / "training_steps.csv", keys),
        workloads=shown,
        layers=layers,
    )
