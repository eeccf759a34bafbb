import json

import pytest

from measure import __main__ as command
from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.domain.records import RoofMeasurement, Run
from measure.domain.workload_records import Workload
from measure.machine import devices
from measure.machine.environment import current
from measure.roofs import roofs
from measure.run.storing import RunCache
from measure.timing.sampling import Sampling
from measure.verbs import model as one_model
from measure.verbs.flags import parser_of
from measure.verbs.model import make_request, tasks_to_do

OWN = "tests.helpers.small_network:network"
"""A convolution of 3 by 8 channels and 3 by 3 on 16 by 16 pixels, a ReLU, and a layer of 8 * 14 * 14 by 10."""

FLOP = 2 * (8 * 14 * 14 * 3 * 9 + 8 * 14 * 14 * 10)
PARAMETERS = 8 * 27 + 8 + 10 * 8 * 14 * 14 + 10

ONE_CORE = ["--device", "cpu", "--threads", "1"]


@pytest.fixture
def brief(monkeypatch):
    """A cell is sampled for a tenth of a second."""
    sampling = Sampling(warm_up_s=0.1, least_s=0.1, limit_s=0.1)
    monkeypatch.setattr(one_model, "make_sampling", lambda _: sampling)


@pytest.mark.slow
@pytest.mark.usefixtures("brief", "forked_workers")
def test_gaps_of_an_answer_are_measured_once_and_stored(tmp_path, capsys, monkeypatch):
    words = ["model", OWN, *ONE_CORE, "--data", str(tmp_path), "--json"]
    assert command.main(words) == 0
    printed = json.loads(capsys.readouterr().out)
    (demand,), (cell,) = printed["demands"], printed["cells"]
    assert (demand["batch"], demand["flop"]) == (1, FLOP)  # its bound follows from roofs that a busy machine may lower
    assert sum(layer["parameter_count"] for layer in printed["layers"]) == PARAMETERS
    assert cell["roof_share"] == pytest.approx(cell["flop_per_s"] / demand["attainable_flop_per_s"])
    assert sum(layer["time_share"] for layer in printed["layers"]) == pytest.approx(1, abs=0.05)
    (name,) = machine_names(tmp_path)
    folder = MachineFolder(tmp_path, name)
    assert [run.round for run in folder.rows(Run)] == [0]
    assert {row.roof_kernel for row in folder.rows(RoofMeasurement)} == {"matmul", "stream_triad"}
    # A roof timed under the load of other programs would be timed anew
    monkeypatch.setattr(roofs, "first_kernels", lambda *_: [])
    assert command.main(words) == 0
    (again,) = json.loads(capsys.readouterr().out)["cells"]
    assert again == cell  # from the cache
    assert [run.round for run in folder.rows(Run)] == [0]


@pytest.mark.usefixtures("forked_workers")
def test_only_what_the_answer_lacks_is_planned(tmp_path):
    words = [OWN, "--data", str(tmp_path), "--device", "cpu", "--batch-sizes", "1", "8", "--precisions", "fp32", "bf16"]
    request, _ = make_request(parser_of("model").parse_args(words))
    folder, environment = MachineFolder(tmp_path, "box"), current(devices.find("cpu"), 1)
    labels = [task.label for task in tasks_to_do(RunCache(Workloads(tmp_path), folder, environment), request)]
    assert sorted(label for label in labels if "stream" not in label) == sorted([
        f"workload {OWN} fp32", f"workload {OWN} bf16",
        "roof matmul bf16 1024 sustained", "roof matmul fp32 1024 sustained",
        *(f"{OWN} batch {batch} {precision}, round 1" for batch in (1, 8) for precision in ("fp32", "bf16")),
        f"operators of {OWN} batch 1 fp32",
    ])  # fmt: skip
    assert sum("stream" in label for label in labels) == 1


NETWORK = """
import torch
def net(batch_size):
    return torch.nn.Linear({width}, 32), torch.ones(batch_size, {width})
"""


@pytest.mark.slow
@pytest.mark.usefixtures("brief", "forked_workers")
def test_changed_code_is_measured_anew_with_both_results(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(roofs, "first_kernels", lambda *_: [])  # the machine's do not change with the code
    for width in (64, 128):  # 2 x 32 x 64 = 4096 FLOP, and twice as many
        (tmp_path / "iterated.py").write_text(NETWORK.format(width=width))
        assert command.main(["iterated:net", *ONE_CORE, "--data", str(tmp_path / "data")]) == 0
    lines = capsys.readouterr().out.splitlines()
    (flop,) = (line for line in lines if line.startswith("FLOP of iterated:net batch 1 fp32"))
    assert flop.split()[-5:] == ["4.10", "kFLOP", "8.19", "kFLOP", "2"]
    assert "latency of iterated:net batch 1 fp32" in lines[-1]
    folder = MachineFolder(tmp_path / "data", machine_names(tmp_path / "data")[0])
    assert [(run.round, run.input_shape) for run in folder.rows(Run)] == [(0, "128")]
    assert [row.input_shape for row in Workloads(tmp_path / "data").rows(Workload)] == ["128"]
    (tmp_path / "iterated.py").write_text("def net(batch_size):\n    raise ValueError('half done')\n")
    assert command.main(["iterated:net", "--device", "cpu", "--data", str(tmp_path / "data")]) == 2
    assert "raised ValueError: half done" in capsys.readouterr().err
    assert len(folder.rows(Run)) == 1
