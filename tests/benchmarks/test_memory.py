"""The trace of allocations, and the workspace that its peak leaves out."""

import json
from types import SimpleNamespace

import pytest
import torch
from memory import ADAM, CASES, STEP, TOLERANCE, Allocation, is_workspace, peak_byte, trace, traced_peaks

from measure.counting.step_memory import step_memory
from measure.domain.variants import SGD
from measure.machine import devices
from measure.models import catalog


def test_workspace_is_freed_before_its_operator_returns():
    # mm has kernels and runs from 5 to 20; linear only calls it.
    linear, mm = SimpleNamespace(name="aten::linear", end_time_ns=30), SimpleNamespace(name="aten::mm", end_time_ns=20)
    assert is_workspace(Allocation(8, 5, 20, (linear, mm)))
    assert not is_workspace(Allocation(8, 5, 25, (linear, mm)))
    assert not is_workspace(Allocation(8, 5, None, (linear, mm)))
    assert not is_workspace(Allocation(8, 5, 20, (linear,)))
    assert not is_workspace(Allocation(8, 5, 20))


def test_the_outputs_of_an_operator_are_no_workspace():
    image = torch.zeros(2, 3, 8, 8)
    mean, variance = torch.zeros(3), torch.ones(3)
    allocations = trace(lambda: torch.nn.functional.batch_norm(image, mean, variance, training=True), "cpu")
    workspace = [each.byte for each in allocations if is_workspace(each)]
    assert workspace
    assert max(workspace) <= 4 * 3  # sums over the batch, a number a channel
    # The output, and two statistics for the backward pass.
    assert sorted(each.byte for each in allocations if not is_workspace(each)) == [12, 12, 4 * 2 * 3 * 64]


def test_the_peak_is_the_most_that_is_alive_at_once():
    first, second, third = Allocation(5, 0, 20), Allocation(3, 10), Allocation(4, 30, 40)
    # From 10 to 20 there are 5 + 3, from 30 on 3 + 4. Memory freed at the start of other memory does not count.
    assert peak_byte([third, second, first]) == 8
    assert peak_byte([second, third]) == 7
    assert peak_byte([Allocation(5, 0, 10), Allocation(6, 10, 20)]) == 6
    assert peak_byte([]) == 0


def test_the_peak_of_a_step_with_many_classes_is_that_of_torchs_allocator(tmp_path):
    settings = {
        "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 8000,
    }  # fmt: skip
    (tmp_path / "llama.json").write_text(json.dumps(settings), "utf-8")
    (model,), device = catalog.find([f"hf:{tmp_path / 'llama.json'}_prefill_128"]), devices.find("cpu")
    for case, optimizer in ((STEP, SGD), (ADAM, ADAM)):
        traced_byte, _ = traced_peaks(model, 1, device, *CASES[case])
        assert step_memory(model, 1, optimizer=optimizer).peak.byte == pytest.approx(traced_byte, rel=0.001)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "language:gpt2_prefill_128"])
def test_the_peak_of_a_step_is_that_of_torchs_allocator(name):
    (model,), device = catalog.find([name]), devices.find("cpu")
    for case, optimizer in ((STEP, SGD), (ADAM, ADAM)):
        traced_byte, _ = traced_peaks(model, 2, device, *CASES[case])
        assert step_memory(model, 2, optimizer=optimizer).peak.byte == pytest.approx(traced_byte, rel=TOLERANCE)
