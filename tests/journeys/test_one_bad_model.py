"""One of several networks of a user's own is broken."""

import pytest

from measure import __main__ as command
from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.domain.records import Run
from measure.domain.workload_records import Workload

GOOD = "import torch\ndef net(batch_size):\n    return torch.nn.Linear(3, 2), torch.ones(batch_size, 3)\n"
LATE = """
import torch
class Late(torch.nn.Linear):
    def forward(self, x):
        if len(x) == 4:
            raise ValueError("four is too many")
        return super().forward(x)
def net(batch_size):
    return Late(3, 2), torch.ones(batch_size, 3)
"""
BROKEN = {
    "raises": "def net(batch_size):\n    raise ValueError('half done')\n",
    "returns": "def net(batch_size):\n    return 3\n",
    "imports": "import torch\nraise RuntimeError('no licence')\n",
    "ends": "import os\nos._exit(3)\n",
}
WORDS = "--device cpu --threads 1 --batch-sizes 1 4 --variants eager --max-rounds 1 --sections inference"


@pytest.mark.usefixtures("forked_workers")
def test_the_others_are_measured_and_each_failure_has_its_reason(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in {**BROKEN, "good": GOOD, "late": LATE}.items():
        (tmp_path / f"{name}.py").write_text(text)
    data = tmp_path / "data"
    models = [f"{name}:net" for name in (*BROKEN, "good", "late")]
    assert command.main([*WORDS.split(), "--data", str(data), "--models", *models]) == 2
    output = capsys.readouterr().err
    for reason in (
        "raises:net(2) raised ValueError: half done",
        "returns:net returns int",
        "the module imports of imports:net raised RuntimeError: no licence",
        "ends:net: a call ended its process with exit code 3",
        "late:net batch 4 fp32, round 1: ValueError: four is too many",
    ):
        assert reason in output
    # A model that fails before its inputs exist has a row of its own, a failed cell a row among the cells
    rows = {row.model: row for row in Workloads(data).rows(Workload) if row.status == "error"}
    assert set(rows) == {f"{name}:net" for name in BROKEN}
    assert rows["raises:net"].reason.startswith("raises:net(2) raised ValueError: half done")
    (machine,) = machine_names(data)
    rows = {(row.model, row.batch, row.status) for row in MachineFolder(data, machine).rows(Run)}
    assert rows == {
        ("good:net", 1, "ok"), ("good:net", 4, "ok"), ("late:net", 1, "ok"), ("late:net", 4, "error"),
    }  # fmt: skip
    (tmp_path / "raises.py").write_text(GOOD)  # mended, it takes the place of its failure
    assert command.main([*WORDS.split(), "--data", str(data), "--models", "raises:net", "good:net"]) == 0
    assert {row.status for row in Workloads(data).rows(Workload) if row.model == "raises:net"} == {"ok"}


@pytest.mark.usefixtures("forked_workers")
@pytest.mark.parametrize("names", [["raises:net"], ["good:nett", "good:net"]])
def test_a_run_of_nothing_else_and_a_typing_error_end_at_once(tmp_path, monkeypatch, capsys, names):
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in {**BROKEN, "good": GOOD}.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert command.main([*WORDS.split(), "--data", str(tmp_path / "data"), "--models", *names]) == 2
    assert not (tmp_path / "data").exists()
    assert ("raises:net(2) raised" if len(names) == 1 else "no function 'nett'") in capsys.readouterr().err
