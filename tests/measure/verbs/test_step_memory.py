"""``measure model NAME --memory`` and ``measure.memory``. The numbers are tested in tests/measure/counting."""

import json
from dataclasses import replace

import pytest
import torch
from helpers.cells import DATED, machine
from helpers.rows import run
from helpers.small_network import network as small

import measure
from measure import __main__ as command
from measure.counting.step_memory import step_memory
from measure.domain.words import STEP
from measure.models import catalog
from measure.verbs.step_memory import measured_byte, memory_lines
from measure.verbs.terminal import aligned, markdown

OWN = "tests.helpers.small_network:network"


@pytest.mark.usefixtures("forked_workers")
def test_a_step_is_counted_in_the_terminal(golden, capsys, tmp_path):
    words = ["model", OWN, "--memory", "--batch-sizes", "1", "2", "--device", "cpu", "--data", str(tmp_path / "data")]
    for name, flags in {
        "model-memory": [],
        "model-memory-markdown": ["--markdown"],
        "model-memory-json": ["--json"],
    }.items():
        assert command.main([*words, *flags]) == 0
        printed = capsys.readouterr()
        golden(name, printed.out)
        assert printed.err == ""
    assert not (tmp_path / "data").exists()  # nothing is run, nothing is written
    one, two = json.loads(printed.out)["steps"]
    assert one["parameter_byte"] == two["parameter_byte"] == 4 * (8 * 27 + 8 + 10 * 8 * 14 * 14 + 10)
    # The convolution keeps its input, which is resident; ReLU 8 x 14 x 14 results, which the layer keeps as well.
    assert (one["saved_byte"], two["saved_byte"]) == (4 * 8 * 14 * 14, 2 * 4 * 8 * 14 * 14)


def test_a_network_at_hand_is_counted_and_left_as_it_was():
    network, inputs = small(2)
    network.eval()
    found = measure.memory(network, inputs, name="mine", optimizer="adam")
    assert (found.model, found.input_shape, found.batch, found.precision) == ("mine", "3x16x16", 2, "fp32")
    assert repr(found) == str(found) == "\n".join(memory_lines([found], aligned))
    assert not network.training
    assert not any(parameter.is_meta or parameter.grad is not None for parameter in network.parameters())
    with pytest.raises(ValueError, match="optimizer: 'lion' is not one of sgd, adam"):
        measure.memory(network, inputs, optimizer="lion")
    with pytest.raises(ValueError, match="does not take these inputs"):
        measure.memory(network, torch.ones(2, 5, 16, 16))
    with pytest.raises(NotImplementedError, match="none of its parameters gets a gradient"):
        measure.memory(network.requires_grad_(False), inputs)


def test_the_measured_peak_of_such_a_step_stands_beside(tmp_path):
    folder, (alexnet,) = machine(tmp_path), catalog.find(["alexnet"])
    counted = step_memory(alexnet, 2)
    step = replace(run("alexnet", 2, phase=STEP), environment_id=DATED.environment_id, peak_byte=10**9)
    assert measured_byte(folder, DATED, alexnet, counted) is None
    folder.put_run(step, [])
    assert measured_byte(folder, DATED, alexnet, counted) == 10**9
    for other in (replace(counted, batch=4), replace(counted, precision="bf16"), replace(counted, optimizer="adam")):
        assert measured_byte(folder, DATED, alexnet, other) is None
    lines = memory_lines([replace(counted, measured_byte=10**9)], markdown)
    assert "| measured |" in lines[2]
    assert "| 1.00 GB |" in lines[4]


def test_blocks_that_are_no_chain_have_no_plans():
    class Twice(torch.nn.Module):
        """The first block runs again after the second one."""

        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(4, 4)) for _ in range(2))

        def forward(self, x):
            first, second = self.blocks
            return first(second(first(x)))

    lines = str(measure.memory(Twice(), torch.ones(2, 4))).splitlines()
    assert lines[-1] == "The blocks are no chain, in which one runs after the other, so there is no plan for them."


def test_one_layer_has_nothing_to_checkpoint():
    lines = str(measure.memory(torch.nn.Linear(4, 4), torch.ones(2, 4))).splitlines()
    assert lines[-1] == "One layer: there is nothing to checkpoint."
    assert "Saved by operator:" not in lines  # the layer saves its input alone, which is there anyway


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            "language:gpt2_decode_16 --memory",
            "gpt2_decode_16 could not be counted: Gpt2: a token is decoded in inference",
        ),
        ("alexnet --optimizer adam", "--optimizer: is of a training step; add --memory"),
        ("alexnet --memory --layers", "--layers: --memory lists blocks and what operators save; leave one of the two"),
        ("alexnet --memory --operators", "--operators: --memory lists blocks"),
        ("alexnet --memory --optimizer lion", "--optimizer: 'lion' is not one of sgd, adam"),
    ],
)
def test_bad_input_gets_a_sentence(words, sentence, capsys):
    assert command.main(["model", *words.split(), "--device", "cpu"]) == 2
    printed = capsys.readouterr().err
    assert sentence in printed
    assert printed.count("\n") == 1
