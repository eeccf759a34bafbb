"""Share measurements: the zip holds nothing private, even after a killed forget."""

import zipfile
from pathlib import Path

import pytest
from helpers.rows import layer, machine_in, operator, operator_time, profile, run, samples, workload
from helpers.watching import is_killed

from measure.__main__ import main
from measure.cache import table
from measure.cache.folders import Folder, MachineFolder, Workloads
from measure.domain.records import OperatorTime, Profile, Run, Sample
from measure.domain.workload_records import Layer, Operator, Workload
from measure.run.worker import classify
from measure.verbs import sharing

DATA = Path("data")
SECRET = "cannot connect to postgres://ada:secret@db.example.org from /home/ada/net.py"


@pytest.fixture(autouse=True)
def box(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sharing, "ROOT", tmp_path)
    return machine_in(DATA / "machines/box")


def unpacked():
    with zipfile.ZipFile("box.zip") as archive:
        archive.extractall("unpacked")
        return b"".join(map(archive.read, archive.namelist())).decode()


REASONS = {
    "a": ("error", classify(RuntimeError(SECRET)).reason, "RuntimeError"),
    "b": ("oom", classify(MemoryError(f"out of memory at {SECRET}")).reason, "MemoryError"),
    "c": ("error", f"a call ended with exit code 3: {SECRET}", "a call ended with exit code 3"),
    "d": ("error", "/home/ada/data/runs.csv could not be written", "… could not be written"),
    "e": ("timeout", "one call took longer than 60 s", "one call took longer than 60 s"),
}


@pytest.mark.parametrize("verb", ["pack", "share"])
def test_the_texts_of_exceptions_stay_and_our_reasons_go(box, capsys, verb):
    for model, (status, reason, _) in REASONS.items():
        box.put_run(run(model, status=status, reason=reason), [])
    box.put_profile(profile("a", status="error", reason=REASONS["a"][1]), [])
    assert main([verb]) == 0
    assert "without 5 texts of exceptions" in capsys.readouterr().out
    everything = unpacked()
    for word in ("ada", "secret", "example.org", "/home"):
        assert word not in everything
    given = {row.model: row.reason for row in Folder(Path("unpacked/box")).rows(Run) if row.reason}
    assert given == {"net": "needs 9 GB"} | {model: shared for model, (_, _, shared) in REASONS.items()}
    # The cache that has the texts keeps them
    assert main(["add-machine", "box.zip"]) == 0
    assert "holds all of this already" in capsys.readouterr().out
    assert {row.reason for row in box.rows(Run) if row.model == "a"} == {REASONS["a"][1]}


def forget(monkeypatch, writes):
    return is_killed(monkeypatch, [(table, "write")], writes, lambda: main(["forget", "net"]))


def test_a_killed_forget_is_finished_and_its_rest_not_shared(box, monkeypatch, capsys):
    box.put_run(run("kept"), samples(2, "kept"))
    box.put_profile(profile("kept"), [operator_time("kept")])
    Workloads(DATA).put([(workload(model), [layer(model)], [operator(model)]) for model in ("net", "kept")])
    assert forget(monkeypatch, writes=2)  # rounds and profiles are gone, their samples and operators are not
    assert "net" in box.paths[Sample].read_text()
    assert main(["pack"]) == 0
    unpacked()
    given = Folder(Path("unpacked/box"))
    for record in (Run, Sample, Profile, OperatorTime):
        assert {row.model for row in table.read(given.paths[record], record)} <= {"kept"}
    tries = iter(range(20))
    while forget(monkeypatch, writes=1):  # killed again and again, it comes to its end
        next(tries)
    assert main(["forget", "net"]) == 2  # nothing is left of it
    assert "'net' is not one of kept" in capsys.readouterr().err
    tables = [box, *Workloads(DATA).folders()]
    for record in (Run, Sample, Profile, OperatorTime, Workload, Layer, Operator):
        paths = [folder.paths[record] for folder in tables if record in folder.paths]
        assert not [row for path in paths for row in table.read(path, record) if row.model == "net"]
    assert {row.model for row in MachineFolder(DATA, "box").rows(Sample)} == {"kept"}
