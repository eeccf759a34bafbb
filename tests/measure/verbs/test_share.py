import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from helpers.rows import machine_in, run, samples

from measure.__main__ import main
from measure.cache.folders import MachineFolder
from measure.domain.records import RoofMeasurement
from measure.verbs import sharing


@pytest.fixture(autouse=True)
def box(tmp_path, monkeypatch):
    """A machine that measured, in a folder that is no clone of GitHub's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sharing, "ROOT", tmp_path)
    return machine_in(Path("data/machines/box"))


def test_what_is_shared_is_checked_and_can_be_added(box, capsys):
    assert main(["share", "--author", "Ada Lovelace"]) == 0
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
    assert main(["add-machine", "box.zip", "--data", "elsewhere"]) == 0
    assert MachineFolder(Path("elsewhere"), "box").tables() == box.tables()


def test_a_citation_names_the_version_that_measured_last(box, capsys):
    """By its time: as texts 0.10.0 would come before 0.9.0."""
    for number, version in enumerate(("0.9.0 (abc)", "0.10.0")):
        at = f"2026-01-0{number + 2}T00:00:00+00:00"
        box.put_run(replace(run("net", round_=number), version=version, recorded_at=at), samples(2, round_=number))
    assert main(["share"]) == 0
    assert '"notes": "Roofwright 0.10.0, torch' in capsys.readouterr().out


def test_an_impossible_machine_is_refused_before_sending(box, capsys):
    # 1e9 FLOP in a picosecond are 1e21 FLOP/s, beyond any chip
    rate = {"flop": 1024 * 10**6, "latency_s": 1e-12, "latency_low_s": 1e-12, "latency_high_s": 1e-12}
    box.put_roof_measurements([replace(row, **rate) for row in box.rows(RoofMeasurement)])
    assert main(["share"]) == 2
    assert "would be refused" in capsys.readouterr().err
    assert Path("box.zip").exists()


@pytest.mark.skipif(shutil.which("git") is None, reason="the clone's address is git's")
@pytest.mark.parametrize(
    ("origin", "address"),
    [
        ("https://github.com/ada/roofwright.git", "https://github.com/ada/roofwright/issues/new?template=machine.yml"),
        ("git@github.com:ada/roofwright", "https://github.com/ada/roofwright/issues/new?template=machine.yml"),
        ("https://example.org/ada/roofwright.git", "Issues, New issue"),
    ],
)
def test_a_clone_knows_where_to_send_it(tmp_path, origin, address):
    subprocess.run(["git", "init", "--quiet", tmp_path], check=True)
    subprocess.run(["git", "-C", tmp_path, "remote", "add", "origin", origin], check=True)
    Path("box.zip").write_bytes(b"zip")
    assert address in sharing.how_to_send(Path("box.zip"))[0]


def test_a_zip_too_large_for_an_issue_has_another_way(monkeypatch):
    Path("box.zip").write_bytes(b"zip")
    monkeypatch.setattr(sharing, "MOST_BYTE", 2)
    assert "too large" in sharing.how_to_send(Path("box.zip"))[0]
