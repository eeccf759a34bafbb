import sys
from dataclasses import replace
from pathlib import Path

import pytest
from helpers.rows import ENVIRONMENT

from measure.cache.folders import MachineFolder
from report import closing


def test_a_render_ends_with_the_address_that_a_browser_opens(tmp_path):
    page, paper = tmp_path / "my paper" / "index.html", tmp_path / "my paper" / "paper.pdf"
    page.parent.mkdir()
    page.write_bytes(b"x" * 1_500_000)
    paper.write_bytes(b"x" * 200_000)
    said = closing.lines([page, paper], tmp_path)
    assert said == [
        f"{page}  1.5 MB",
        f"{paper}  0.2 MB",
        f"Open file://{tmp_path}/my%20paper/index.html",
    ]  # nothing was measured


def test_the_machine_that_was_measured_last_is_told_with_three_commands(tmp_path):
    for name, day in (("old", "2026-01-01"), ("new", "2026-02-01"), ("older", "2025-12-01")):
        MachineFolder(tmp_path, name).put_environment(replace(ENVIRONMENT, name=name, recorded_at=day))
    blank, first, *_, heading, one, two, three = closing.lines([], tmp_path)
    assert (blank, heading) == ("", "Next:")
    assert first == "new: its roof was not measured"
    commands = [line.strip().partition("  ")[0] for line in (one, two, three)]
    assert all(command.endswith(f" --data {tmp_path}") for command in commands)
    assert [command.split(" -m ")[1].split(" --data")[0] for command in commands] == [
        "measure model resnet50", "measure --budget 20m", "measure doctor",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("here", "found", "said"),
    [
        ("bin", "bin/python", "python"),  # an environment that is active
        (".", None, "bin/python"),
        ("other", None, "bin/python"),
    ],
)
def test_commands_name_the_python_that_runs_this(tmp_path, monkeypatch, here, found, said):
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.touch()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / here)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setattr(closing.shutil, "which", lambda _: found and str(tmp_path / found))
    expected = said if said == "python" or here == "." else str(python)
    assert closing._python() == expected
    assert Path(expected).name == "python"
