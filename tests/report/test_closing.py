import json
import sys
from pathlib import Path

import pytest

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


FACTS = {
    "machine.at_hand.name": "a chip", "utilisation.roofs.peak": 225.4e9, "utilisation.roofs.bandwidth": 46.5e9,
    "utilisation.gap.layers": 0.361, "puzzle.here.ratio": 1.234, "puzzle.here.batch": 64, "puzzle.needs.fewer": 5.978,
}  # fmt: skip


def facts(**unknown):
    """Facts as the file has them; those named are unknown."""
    return {key: {"value": None if key.split(".")[-1] in unknown else value} for key, value in FACTS.items()}


def test_the_headline_has_the_numbers_of_the_paper():
    assert closing.headline(facts()) == [
        "a chip: 225 GFLOP/s at fp32 and 46.5 GB/s from memory; networks typically reach 36 % of the roofline layer by "
        "layer",
        "At batch 64, MobileNet-v2 needs 5.98 times fewer FLOP than ResNet-18 and takes 1.23 times as long",
    ]
    assert closing.headline(facts(peak=1, layers=1, ratio=1)) == ["a chip: its roof was not measured"]
    assert closing.headline(facts(name=1)) == closing.headline({}) == []


def test_a_machine_is_told_with_three_commands(tmp_path):
    (tmp_path / "facts.json").write_text(json.dumps(facts()))
    _, blank, *_, heading, one, two, three = closing.lines([tmp_path / "facts.json"], tmp_path)
    assert (blank, heading) == ("", "Next:")
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
