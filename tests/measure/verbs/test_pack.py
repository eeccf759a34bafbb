import shutil
import subprocess
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from helpers.rows import ENVIRONMENT, layer, machine_in, operator, run, samples, workload

from measure import __main__ as command
from measure.cache.folders import FILES, MachineFolder, Workloads, machine_names
from measure.cache.table import write
from measure.domain.records import RoofMeasurement
from measure.domain.workload_records import Layer, Operator, Workload
from measure.verbs import sharing

OWN = replace(workload("mine:net"), source="own", parameter_byte=20, traffic_byte=96, forward_other_flop=2)
OPERATORS = [operator("mine:net", name="addmm")]
FORM = "https://github.com/ada/roofwright/issues/new?template=machine.yml"
CACHE, ELSEWHERE = Path("cache"), Path("elsewhere")


@pytest.fixture(autouse=True)
def box(tmp_path, monkeypatch):
    """A machine that measured a library's model and its owner's own; another own one is counted alone.

    The current folder is no clone of GitHub's.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sharing, "ROOT", tmp_path)
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
    assert "Warning" not in capsys.readouterr().out


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


def test_a_shared_zip_is_checked_and_can_be_added_and_cited(capsys):
    assert call("share", "--author", "Ada Lovelace") == 0
    printed = capsys.readouterr().out
    assert "Checked" in printed
    assert "Issues, New issue" in printed
    # The last line is an entry of a CITATION.cff, by the schema's names
    (entry,) = yaml.safe_load(printed.splitlines()[-1])
    assert {"type", "title", "authors"} < set(entry)
    assert (entry["type"], entry["authors"]) == ("data", [{"name": "Ada Lovelace"}])
    assert entry["date-released"] == "2026-01-01"
    digest = subprocess.run(["sha256sum", "box.zip"], capture_output=True, text=True).stdout.split()
    assert not digest or digest[0] in entry["notes"]
    assert call("add-machine", "box.zip", data=ELSEWHERE) == 0


def test_a_citation_names_the_version_that_measured_last(box, capsys):
    """By its time: as texts 0.10.0 would come before 0.9.0."""
    for number, version in enumerate(("0.9.0 (abc)", "0.10.0")):
        at = f"2026-01-0{number + 2}T00:00:00+00:00"
        box.put_run(replace(run("net", round_=number), version=version, recorded_at=at), samples(2, round_=number))
    assert call("share") == 0
    assert '"notes": "Roofwright 0.10.0, torch' in capsys.readouterr().out


def test_an_impossible_machine_is_refused_before_sending(box, capsys):
    # 1e9 FLOP in a picosecond are 1e21 FLOP/s, beyond any chip
    rate = {"flop": 1024 * 10**6, "latency_s": 1e-12, "latency_low_s": 1e-12, "latency_high_s": 1e-12}
    box.put_roof_measurements([replace(row, **rate) for row in box.rows(RoofMeasurement)])
    assert call("share") == 2
    assert "would be refused" in capsys.readouterr().err
    assert Path("box.zip").exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="the clone's address is git's")
@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ("https://github.com/ada/roofwright.git", FORM), ("git@github.com:ada/roofwright", FORM),
        ("https://example.org/ada/roofwright.git", "Issues, New issue"),
    ],
)  # fmt: skip
def test_a_clone_knows_where_to_send_it(tmp_path, origin, address):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", origin], check=True)
    Path("box.zip").write_bytes(b"zip")
    assert address in sharing.how_to_send(Path("box.zip"))[0]


def test_a_zip_too_large_for_an_issue_has_another_way(monkeypatch):
    Path("box.zip").write_bytes(b"zip")
    monkeypatch.setattr(sharing, "MOST_BYTE", 2)
    assert "too large" in sharing.how_to_send(Path("box.zip"))[0]
