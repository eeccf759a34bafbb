import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.rows import ENVIRONMENT, layer, machine_in, operator, run, samples, workload

from measure import __main__ as command
from measure.cache.folders import FILES, MachineFolder, Workloads, machine_names
from measure.cache.table import write
from measure.domain.workload_records import Layer, Operator, Workload

OWN = replace(workload("mine:net"), source="own", parameter_byte=20, traffic_byte=96, forward_other_flop=2)
OPERATORS = [operator("mine:net", name="addmm")]
CACHE, ELSEWHERE = Path("cache"), Path("elsewhere")


@pytest.fixture(autouse=True)
def box(tmp_path, monkeypatch):
    """A machine that measured a library's model and its owner's own; another own one is counted alone."""
    monkeypatch.chdir(tmp_path)
    machine = machine_in(CACHE / "machines" / "box")
    machine.put_run(run("mine:net"), samples(3, "mine:net"))
    counted = [OWN, [layer("mine:net")], OPERATORS]
    Workloads(CACHE).put([(workload(), [], []), counted, (replace(OWN, model="mine:other"), [], [])])
    return machine


def call(verb, *words, data=CACHE):
    return command.main([verb, *map(str, words), "--data", str(data)])


def test_a_pack_is_added_elsewhere_with_its_owners_counts(box, capsys):
    (box.folder / "notes.txt").write_text("Ada's machine")
    Path(".box.zip.part").write_bytes(b"of a killed pack")
    assert call("pack") == 0
    assert "box.zip: cache/machines/box, with the counts of mine:net" in capsys.readouterr().out
    assert {path.name for path in Path().iterdir()} == {"box.zip", "cache"}
    counts = [f"workload/{name}.csv" for name in ("models", "layers", "operators")]
    with zipfile.ZipFile("box.zip") as archive:  # tables alone
        assert set(archive.namelist()) == {f"box/{name}" for name in (*FILES.values(), *counts, "SHA256SUMS")}
    for _ in range(2):  # the same once more changes nothing
        assert call("add-machine", "box.zip", data=ELSEWHERE) == 0
        assert MachineFolder(ELSEWHERE, "box").tables() == box.tables()
        added = Workloads(ELSEWHERE)
        assert [row.model for row in added.rows(Workload)] == ["mine:net"]
        assert (added.rows(Layer), added.rows(Operator)) == ([layer("mine:net")], OPERATORS)


@pytest.mark.parametrize("is_unpacked", [False, True])
def test_tables_changed_after_packing_are_named(box, capsys, is_unpacked):
    assert call("pack", "box.zip") == 0
    shutil.unpack_archive("box.zip", "unpacked")
    sums = Path("unpacked/box/SHA256SUMS")
    assert subprocess.run(["sha256sum", "--check", sums.name], cwd=sums.parent, capture_output=True).returncode == 0
    runs = Path("unpacked/box/runs.csv")
    runs.write_text(runs.read_text("utf-8").replace("2026-", "2025-"), "utf-8")
    Path("unpacked/box/kernels.csv").unlink()
    changed = Path("unpacked/box") if is_unpacked else Path(shutil.make_archive("changed", "zip", "unpacked"))
    capsys.readouterr()
    assert call("add-machine", changed, data=ELSEWHERE) == 0
    assert f"pack made {changed.name if not is_unpacked else changed}: 'kernels.csv', 'runs.csv'" in (
        capsys.readouterr().out.replace(str(Path.cwd()) + "/", "")
    )
    assert call("add-machine", "box.zip", data=Path("third")) == 0
    assert "Mind" not in capsys.readouterr().out


def test_of_several_machines_it_is_the_one_measured_last(capsys):
    """A clone holds the machine that the project measured."""
    for name, recorded_at in (("a-later", "2026-01-02"), ("z-earlier", "2025-12-31")):
        machine_in(CACHE / "machines" / name, replace(ENVIRONMENT, recorded_at=recorded_at))
    assert call("pack", "mine.zip") == 0
    assert "mine.zip: cache/machines/a-later" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("counted", "given", "culprit"),
    [
        ({"forward_flop": 11}, {}, "mine:net: is another network"),
        ({"input_shape": "3x4x4"}, {}, "mine:net: is another network"),
        (None, {"source": "torchvision"}, "models.csv, line 2, column model: 'mine:net' is not a model of"),
        (None, {"forward_flop": 12}, "line 2, column forward_flop: is not the sum of the layers of 'mine:net'"),
    ],
)
def test_impossible_counts_and_another_network_are_refused(box, capsys, counted, given, culprit):
    write(box.folder / "workload" / "models.csv", Workload, [replace(OWN, **given)])
    write(box.folder / "workload" / "layers.csv", Layer, [layer("mine:net")])
    if counted:
        Workloads(ELSEWHERE).put([(replace(OWN, **counted), [], [])])
    assert call("add-machine", box.folder, data=ELSEWHERE) == 2
    assert culprit in capsys.readouterr().err
    assert machine_names(ELSEWHERE) == []
