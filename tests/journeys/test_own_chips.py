"""A user's paper with a user's chip: added to the project's, chosen, rendered."""

import json
import os
import subprocess
import sys

import pytest
from helpers.places import ROOT

from report import failures
from report.__main__ import main

HEADER = (ROOT / "data" / "chips.csv").read_text("utf-8").partition("\n")[0]
CHIP = "Example Chip 9,,NVIDIA,EX100,gpu,2025,fp32,vector,6e13,,2e12,HBM3,400,,no,my_source,,8e10,5e7,,,,"
SOURCE = "@misc{my_source, title = {Datasheet}, author = {{Maker}}, year = {2025}, url = {https://example.org}}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    assert main(["new", str(tmp_path / "mine")]) == 0
    folder = tmp_path / "mine"
    monkeypatch.chdir(folder)
    (folder / "data").mkdir()
    return folder


def test_our_chips_can_be_chosen_where_only_measurements_are(folder, capsys):
    assert main(["why", "chips.table", "--chips", "NVIDIA T5"]) == 2
    assert "the nearest are NVIDIA T4" in capsys.readouterr().err


@pytest.mark.slow
def test_a_chip_of_ones_own_joins_the_projects_and_renders(folder, capsys):
    chips = folder / "data" / "chips.csv"
    chips.write_text(f"{HEADER}\n{CHIP}\n")
    assert main(["check"]) == 2
    output = capsys.readouterr().err
    assert "chips.csv, line 2, column source: 'my_source' is not in the bibliography" in output
    assert "own.bib" in output
    (folder / "own.bib").write_text((folder / "own.bib").read_text() + SOURCE)
    assert main(["check"]) == 0
    row = CHIP.replace("6e13", "7e13")
    chips.write_text(f"{HEADER}\n{CHIP}\n{row}\n")
    assert main(["check"]) == 2  # twice in one table
    capsys.readouterr()
    t4 = CHIP.replace("Example Chip 9", "NVIDIA T4").replace("6e13", "9e12")
    chips.write_text(f"{HEADER}\n{CHIP}\n{t4}\n")  # the second row takes the place of the project's
    command = [sys.executable, "-m", "report", "--engine", "embedded", "--formats", "html", "--chapters", "chips"]
    environment = {name: value for name, value in os.environ.items() if name != failures.STRICT}
    run = subprocess.run(
        [*command, "--chips", "NVIDIA T4", "Example Chip 9"], cwd=folder, capture_output=True, text=True,
        env=environment | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "could not be computed" not in run.stderr
    facts = json.loads((folder / "_site" / "facts.json").read_text("utf-8"))
    assert facts["chips.table.chips"]["value"] == 2
    page = (folder / "_site" / "index.html").read_text("utf-8")
    assert "Example Chip 9" in page
