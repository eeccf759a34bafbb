"""A GPU and its host: seven networks with one input, and two training steps at two precisions, computed by hand."""

from dataclasses import replace

import pandas as pd
import pytest
from helpers.world import world

from measure.cache.traces import StoredTrace
from measure.domain.trace_records import TraceDevice, TraceOperator
from report.chapters.cause import host
from report.paper import Paper


def paper() -> Paper:
    """The time of an input is 20 us for each operator; FLOP run the other way, and larger batches do not count."""
    numbers = range(1, 8)
    cells = [
        {"model": f"net{k}", "batch": batch, "precision": precision, "status": "ok", "flags": ""}
        | {"forward_flop": (9 - k) * 1e9, "latency_s": k * 20e-6 * slower * batch}
        | {"latency_low_s": None, "latency_high_s": None}
        for k in numbers for batch in (1, 64) for precision, slower in (("bf16", 10), ("fp32", 30))
    ]  # fmt: skip
    operators = [
        {"model": f"net{k}", "batch": batch, "precision": "fp32", "stage": stage, "calls": 5 * k}
        for k in numbers for batch in (1, 64) for stage in ("inference", "inference", "backward")
    ]  # fmt: skip
    profiles = [
        {"model": model, "batch": 32, "precision": precision, "phase": phase, "status": "ok", "plain_s": plain,
         "busy_s": busy, "load": 0.2 if model == "alexnet" else 0.05}
        for model, phase, precision, plain, busy in (
            ("resnet18", "step", "fp32", 0.030, 0.024), ("resnet18", "step", "bf16", 0.025, 0.006),
            ("vgg16", "step", "fp32", 0.060, 0.060), ("vgg16", "step", "bf16", 0.020, 0.020),
            ("vgg16", "inference", "fp32", 0.060, 0.060), ("vgg16", "inference", "bf16", 0.060, 0.001),
            ("alexnet", "step", "fp32", 0.060, 0.060), ("alexnet", "step", "bf16", 0.060, 0.001),
        )
    ]  # fmt: skip
    gpu = world().machine("gpu")
    compiled = [
        cell | {"variant": "compile", "latency_s": cell["latency_s"] / gain}
        for cell in cells if cell["precision"] == "bf16"
        for name, gain in (("net2", 1 + cell["batch"] / 64), ("net3", 3)) if cell["model"] == name
    ]  # fmt: skip
    captured = [
        cell | {"variant": "cuda_graph", "latency_s": cell["latency_s"] / (2 if cell["model"] == "net1" else 5)}
        for cell in cells if (cell["precision"], cell["batch"]) == ("bf16", 1) and cell["model"] in ("net1", "net3")
    ]  # fmt: skip
    tables = {"cells": cells, "profiles": profiles, "variants": [*compiled, *captured]}
    gpu = replace(gpu, **{name: pd.DataFrame(rows) for name, rows in tables.items()})
    traces = tuple(trace(gpu.folder, *each) for each in (("bf16", 6, 9), ("fp32", 6, 7)))
    return replace(world(), machines=(gpu,), operators=pd.DataFrame(operators), traces=traces)


def trace(folder, precision, calls, kernels) -> StoredTrace:
    """Two recorded passes of net2, with its operators and kernels in each."""
    about = dict.fromkeys(TraceDevice.__dataclass_fields__) | {"rank": 0, "device": 0, "source": f"machines/{folder}"}
    device = TraceDevice(**about | {"network": f"net2, batch 64, {precision}, inference"})
    row = dict.fromkeys(TraceOperator.__dataclass_fields__) | {"stage": "inference", "calls": calls, "kernels": kernels}
    return StoredTrace(precision, [device], [], [TraceOperator(**row | {"step": step}) for step in (1, 2)])


def test_single_inputs_are_compared_with_operators_called():
    found = host.of(paper()).single
    assert (found.precision.text, found.networks.number) == ("bf16", 7)
    assert (found.calls.number, found.flop.number) == pytest.approx((1, -1))
    assert found.per_call.number == pytest.approx(20e-6)  # k * 200 us over 2 * 5 * k operators
    base = host.of(paper()).base
    assert (base.precision.text, base.per_call.number) == ("fp32", pytest.approx(60e-6))
    assert base.slowed.number == pytest.approx(1 / 3)  # 20 us of an operator over 60 us
    assert (base.networks.number, base.slower.number, host.of(paper()).other.slower.is_missing) == (7, 0, True)


def test_a_second_gpu_has_its_own_single_inputs():
    one = paper()
    (gpu,) = one.machines
    times = gpu.cells.latency_s.where(gpu.cells.model.isin(["net1", "net2"]) | (gpu.cells.precision == "fp32"), 1.0)
    second = replace(gpu, name="Second", cells=gpu.cells.assign(latency_s=times))
    found = host.of(replace(one, machines=(gpu, second))).other
    # A second is longer than any time at fp32; net1 and net2 keep theirs, a third of it
    assert (found.device.text, found.networks.number, found.slower.number) == ("Second", 7, 5)


def test_the_launches_of_a_network_at_two_precisions():
    found = host.of(paper()).launched
    assert (found.network.text, found.calls.number, found.lower.number, found.base.number) == ("net2", 6, 9, 7)
    assert host.of(replace(paper(), traces=paper().traces[:1])).launched.calls.is_missing


def test_the_gains_of_compiling_by_batch():
    found = host.of(paper()).compiled
    # At 64 net2 gains 1 + 64 / 64 and net3 3; with one input 1 + 1 / 64 and 3
    assert (found.batch.number, found.networks.number) == (64, 2)
    assert (found.least.name, found.least.number, found.most.number) == ("net2", pytest.approx(2), pytest.approx(3))
    assert (found.single_least.number, found.single_most.number) == (pytest.approx(1 + 1 / 64), pytest.approx(3))


def test_the_gains_of_one_launch_of_all_kernels():
    found = host.captured(paper())
    assert found.networks.number == 2
    assert (found.least.name, found.least.number) == ("net1", pytest.approx(2))
    assert (found.most.name, found.most.number) == ("net3", pytest.approx(5))


def test_a_batch_is_no_single_input():
    gpu = paper().machine("gpu")
    cells, variants = (table.assign(batch=table.batch.replace(1, 16)) for table in (gpu.cells, gpu.variants))
    found = host.of(replace(paper(), machines=(replace(gpu, cells=cells, variants=variants),)))
    assert host.captured(replace(paper(), machines=(replace(gpu, cells=cells, variants=variants),))).least.is_missing
    values = found.single.calls, found.base.per_call, found.compiled.single_least
    assert all(value.is_missing for value in values)
    assert found.compiled.most.number == pytest.approx(3)


def test_the_step_whose_host_hides_most_of_the_gain_is_chosen():
    found = host.of(paper()).lowered
    assert found.network.text == "ResNet-18"
    # 24 over 6 ms, 30 over 25 ms, 6 of 25 ms; the second step gains 3 in both; other programs disturbed the third
    assert (found.kernels.number, found.step.number, found.busy.number) == pytest.approx((4, 1.2, 0.24))


def test_without_a_gpu_there_is_none():
    assert host.of(replace(world(), machines=())).single.device.is_missing
