"""Two networks whose kernels are recorded at two precisions, both timed at two batch sizes, one of them compiled."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.world import world

from measure.cache.traces import StoredTrace
from measure.domain.trace_records import TraceDevice, TraceOperator
from report.chapters.cause import interventions

FOLDER = "gpu-1"
KERNELS = {  # kind: s at fp32 and at bf16
    "Oak": {"linear": (4, 1), "activation": (2, 1), "copy": (1e-3, 1e-3)},  # the last too short to be seen
    "Elm": {"activation": (4, 2), "depthwise convolution": (3, 3)},
}
CONVERSION_S = 0.25  # of Oak's linear layer at bf16
LATENCY_S = {("fp32", 1): (1, 1), ("fp32", 8): (4, 6), ("bf16", 1): (1, 1), ("bf16", 8): (2, 4)}


def _trace(network, column) -> StoredTrace:
    precision = ("fp32", "bf16")[column]
    zero = dict.fromkeys(("rank", "device", "step", "copy_s", "gap_s", "flop", "other_flop", "recompute_flop"), 0)
    about = {"stage": "inference", "shape": "8x8", "precision": precision, "reason": None, "kernel": None}
    rows = [
        # Operators may have other names at a lower precision
        TraceOperator(
            **zero, **about, layer_kind=kind, operator=f"{kind}{column}", calls=2, kernels=3, byte=8, time_s=s[column]
        )
        for kind, s in KERNELS[network].items()
    ]
    empty = dict.fromkeys(TraceDevice.__dataclass_fields__) | {"rank": 0, "device": 0, "source": f"machines/{FOLDER}"}
    named = {"network": f"{network}, batch 8, {precision}, inference", "fingerprint": "", "world_size": 1}
    return StoredTrace(f"{network} {precision}", [TraceDevice(**empty | named)], [], rows)


def _profile():
    """Oak's linear layer at bf16 under the profiler, with two kernels, one of which converts its layout."""
    cell = {"environment_id": "gpu", "model": "Oak", "batch": 8, "precision": "bf16", "phase": "inference"}
    row = cell | {"variant": "eager", "stage": "inference", "path": "head", "operator": "linear", "calls": 1}
    kernels = [
        row | {"kernel": "cudnn::nchwToNhwcKernel", "time_s": CONVERSION_S},
        row | {"kernel": "gemm", "time_s": 1 - CONVERSION_S},
    ]
    return {"operators": pd.DataFrame([row | {"time_s": 1}]), "kernels": pd.DataFrame(kernels)}


def paper():
    gpu = world().machine("gpu")
    cells = [
        {"model": f"net{k}", "batch": batch, "precision": precision, "status": "ok", "latency_s": s, "flags": ""}
        for (precision, batch), times in LATENCY_S.items() for k, s in enumerate(times)
    ]  # fmt: skip
    compiled = [cells[-2] | {"latency_s": 0.5, "variant": "compile"}]  # net0 at bf16, 8 inputs
    machine = replace(gpu, folder=FOLDER, cells=pd.DataFrame(cells), variants=pd.DataFrame(compiled), **_profile())
    traces = tuple(_trace(network, column) for network in KERNELS for column in (0, 1))
    layers = pd.DataFrame([{"model": "Oak", "path": "head", "layer_kind": "linear"}])
    return replace(world(), machines=(machine,), traces=traces, layers=layers)


def test_each_cell_is_one_change_by_hand():
    shown = interventions.table(paper())
    assert (shown.gpu, shown.recorded) == (world().machine("gpu").name, "batch 8")
    kinds = [(one.what, one.change, one.gain, one.networks) for one in shown.kinds.itertuples()]
    assert kinds == [  # most gained first
        ("linear", "fp32 → bf16", 4 / 0.75, 1),  # without the conversion of 0.25 s
        ("activation", "fp32 → bf16", 6 / 3, 2),  # 2 + 4 s over 1 + 2 s
        ("depthwise convolution", "fp32 → bf16", 1, 1),
    ]
    found = {one.what: (one.gain, one.networks) for one in shown.networks.itertuples()}
    assert found == {
        "fp32 → bf16, batch 8": (1.75, 2),  # 4 s over 2 s, 6 s over 4 s
        "batch 1 → 8": (3, 2),  # 8 inputs in 2 s over 1 in 1 s, in 4 s over 1 in 1 s
        "compiled, batch 8": (4, 1),  # 2 s over 0.5 s
        "compiled, Bead 2": (pytest.approx(1.6), 31),
        "channels last, Bead 2": (pytest.approx(1.1), 24),
    }


def test_facts_name_what_does_not_answer():
    found = interventions.of(paper())
    assert found.networks.number == 2
    assert (found.activation.number, found.depthwise.number) == (2, 1)
    assert found.linear_most.is_missing  # of one network
    assert (found.converted.name, found.converted.number) == ("Oak", pytest.approx(0.25 / 2.001))
    assert (found.normalisation.is_missing, found.convolution_most.is_missing) == (True, True)
    assert (found.example.text, found.share.number) == ("Elm", 3 / 5)  # of 2 + 3 s at bf16
    assert interventions.of(replace(paper(), traces=())).networks.is_missing
    assert interventions.of(replace(paper(), machines=())).networks.is_missing


def test_the_gains_of_two_networks_are_told_apart(monkeypatch):
    # Oak: 4 s over 1 s less a conversion of 0.25 s; Elm: 6 s over 3 s
    monkeypatch.setitem(KERNELS, "Elm", KERNELS["Elm"] | {"linear": (6, 3)})
    found = interventions.of(paper())
    assert (found.linear_least.name, found.linear_least.number) == ("Elm", 2)
    assert (found.linear_most.name, found.linear_most.number) == ("Oak", 4 / 0.75)


def test_depthwise_convolutions_of_one_network_bear_its_name():
    assert interventions.of(paper()).depthwise_network.text == "Elm"

    def copied(trace):
        (device,) = trace.devices
        return trace._replace(devices=[replace(device, network=device.network.replace("Elm", "Ash"))])

    one = paper()
    both = replace(one, traces=(*one.traces, *map(copied, one.traces[2:])))
    assert interventions.of(both).depthwise_network.is_missing
