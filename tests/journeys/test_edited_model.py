"""A user edits a network of their own, and measures it again under its old name."""

import json
import re
import sys
from contextlib import closing, nullcontext
from dataclasses import replace
from math import inf

import pytest
from helpers.cells import machine, put
from helpers.rows import workload

from measure import __main__ as command
from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.domain.records import Run, Sample
from measure.domain.workload_records import Workload
from measure.machine import devices
from measure.machine.environment import current
from measure.models import hugging_face, identity
from measure.run import cluster
from measure.run.worker import Worker
from report.options import load_paper

BLOCKS = """
import torch
class Block(torch.nn.Module):
    def forward(self, x):
        return {}
"""
NET = """
import torch
def net(batch_size):
    from blocks import Block
    return torch.nn.Sequential(torch.nn.Linear(3, 2), Block()), torch.ones(batch_size, 3)
"""
WORDS = "--device cpu --threads 1 --models edited:net --batch-sizes 1 --variants eager --max-rounds 1 --sections"


@pytest.fixture
def edit(tmp_path, monkeypatch):
    """Writes the block of the network in another module, as a user's editor does."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # a second text in the same second would not be read
    (tmp_path / "edited.py").write_text(NET)
    return lambda block: (tmp_path / "blocks.py").write_text(BLOCKS.format(block))


def codes(data):
    (name,) = machine_names(data)
    rows = [*MachineFolder(data, name).rows(Run), *Workloads(data).rows(Workload)]
    return {row.code for row in rows}


@pytest.mark.usefixtures("forked_workers")
def test_an_edit_that_keeps_the_parameters_is_measured_anew(edit, tmp_path, capsys):
    data = tmp_path / "data"

    def measure(sections):
        assert command.main([*WORDS.split(), *sections.split(), "--data", str(data)]) == 0
        return capsys.readouterr().out

    edit("x")
    assert "edited:net: its" not in measure("workload inference")
    before = codes(data)
    assert "Nothing left to measure" in measure("workload inference")
    edit("x.tanh()")  # two FLOP of neither a product nor a parameter
    output = measure("inference")  # and the counts, which would be another network's
    assert "edited:net: its source and its operators changed" in output
    table = dict.fromkeys(line.split("  ")[0] for line in output.splitlines() if "edited:net batch 1 fp32" in line)
    # tanh reads and writes two numbers of 4 B: 16 B more than the layer's (3 + 2 x 3 + 2 + 2) x 4 B = 52 B
    assert {"bytes of edited:net batch 1 fp32", "latency of edited:net batch 1 fp32"} <= table.keys()
    (moved,) = (line for line in output.splitlines() if line.startswith("bytes of edited:net"))
    assert moved.split()[-5:] == ["52", "B", "68", "B", "1.31"]
    assert len(codes(data)) == 1
    assert codes(data).isdisjoint(before)
    edit("x.tanh()  # as in the paper")
    assert "edited:net: its source changed" in measure("inference")


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_a_cluster_reports_an_edit_too(edit, tmp_path, capsys, monkeypatch):
    device, place = devices.find("cpu"), cluster.Place("here", "id", "cpu", 0, 1)
    node = cluster.ReadyDevice(place, None, current(device, 1), device.memory_byte())

    def hand_out(run):
        with closing(Worker("cpu", 1, run.sampling)) as worker:
            for task in list(run.tasks):
                run.kinds[node.environment.environment_id].tasks.remove(task)
                run._keep(node, task, worker.run(task, inf), worker.facts)

    monkeypatch.setattr(cluster, "connected", nullcontext)
    monkeypatch.setattr(cluster.ReadyDevice, "end", lambda _: None)
    monkeypatch.setattr(cluster.ClusterRun, "_start_actors", lambda run: run.ready.append(node))
    monkeypatch.setattr(cluster.ClusterRun, "_hand_out", hand_out)
    words = [*WORDS.split(), "inference", "workload", "--data", str(tmp_path / "data"), "--cluster", "auto"]
    edit("x")
    assert command.main(words) == 0
    edit("x.tanh()")
    capsys.readouterr()
    assert command.main(words) == 0
    output = capsys.readouterr().out
    assert "edited:net: its source and its operators changed" in output
    assert re.search(r"bytes of edited:net batch 1 fp32 +52 B +68 B +1.31", output)
    assert "latency of edited:net batch 1 fp32" in output
    edit("x[:, :, 0]")  # of two dimensions
    assert command.main(words) == 2
    assert "without a result: edited:net batch 1 fp32" in capsys.readouterr().err


@pytest.mark.usefixtures("forked_workers")
def test_an_edit_that_fails_loses_nothing(edit, tmp_path, capsys):
    data = tmp_path / "data"
    words = [*WORDS.split(), "inference", "--data", str(data)]
    edit("x")
    assert command.main(words) == 0
    before = codes(data)
    (tmp_path / "edited.py").write_text("def net(batch_size):\n    raise ValueError('half done')\n")
    assert command.main(words) == 2
    assert "edited:net(2) raised ValueError: half done" in capsys.readouterr().err
    assert codes(data) == before


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_an_edited_configuration_is_another_network(tmp_path, capsys):
    pytest.importorskip("transformers")
    path, data = tmp_path / "config.json", tmp_path / "data"
    settings = {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "vocab_size": 8}
    words = WORDS.replace("edited:net", f"hf:{path}_prefill_4").split()

    def measure(**edits):
        hugging_face._task.cache_clear()  # a new command reads the file anew
        path.write_text(json.dumps({"model_type": "llama", **settings, **edits}))
        assert command.main([*words, "workload", "inference", "--data", str(data)]) == 0
        return capsys.readouterr().out

    measure(num_hidden_layers=1)
    assert "Nothing left to measure" in measure(num_hidden_layers=1)
    before = codes(data)
    output = measure(num_hidden_layers=2)
    assert f"hf:{path}_prefill_4: its source changed" in output
    assert "bytes of hf:" in output
    assert len(codes(data)) == 1
    assert codes(data).isdisjoint(before)


def test_the_source_is_that_of_the_modules_next_to_it(edit, tmp_path):
    edit("x")
    code = identity.describe("edited:net").code
    assert identity.describe("edited:net").code == code
    (tmp_path / "unrelated.py").write_text("A = 1\n")
    assert identity.describe("edited:net").code == code
    edit("x  # changed")
    assert identity.differences(code, identity.describe("edited:net").code) == "its source"
    (tmp_path / "kit").mkdir()  # an import of kit.parts runs the package's own file as well
    for name, text in (("parts.py", ""), ("__init__.py", ""), ("__init__.py", "SCALE = 2")):
        (tmp_path / "kit" / name).write_text(text)
        (tmp_path / "blocks.py").write_text(BLOCKS.format("x") + "import kit.parts\n")
        before, code = code, identity.describe("edited:net").code
    assert identity.differences(before, code) == "its source"


def test_a_model_without_code_differs_in_all_parts():
    both = "its source and its operators"
    assert (identity.differences(None, "a-b"), identity.differences("a-b", None)) == (both, both)
    assert (identity.differences("a-b", "a-c"), identity.differences(None, None)) == ("its operators", "")


def test_nothing_shows_the_network_before_the_edit(tmp_path, monkeypatch, capsys):
    folder, name = machine(tmp_path), "mine:net"
    for batch, code in ((1, "a-a"), (64, "b-b")):
        put(folder, 0, [0.1])
        (row,) = (row for row in folder.rows(Run) if row.model == "alexnet")
        timed = folder.rows(Sample, [row])
        folder.put_run(
            replace(row, model=name, batch=batch, code=code), [replace(each, model=name, batch=batch) for each in timed]
        )
    counted = replace(workload(name), input_shape="3x224x224", source="own", status="unsupported", code="b-b")
    Workloads(tmp_path).put([(replace(counted, reason="?", forward_flop=None), [], [])])
    monkeypatch.setenv("ROOFWRIGHT_DATA", str(tmp_path))
    (found,) = load_paper().machines
    assert set(zip(found.cells.model, found.cells.batch, strict=True)) == {("alexnet", 1), (name, 64)}
    assert command.main(["show", "--csv", "--data", str(tmp_path)]) == 0
    assert [line.split(",")[1:3] for line in capsys.readouterr().out.splitlines()[1:]] == [
        ["alexnet", "1"], [name, "64"],
    ]  # fmt: skip
