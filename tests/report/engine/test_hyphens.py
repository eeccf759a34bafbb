"""The Lua filter that keeps flags whole and hyphens from becoming a dash, run by pandoc alone; Quarto runs it, too."""

from pathlib import Path

import pytest
from helpers.places import ROOT

from report.engine.pandoc import run_pandoc

FILTER = ROOT / "report/engine/hyphens.lua"


def written(text, output):
    arguments = ["--from=markdown", f"--to={output}", f"--lua-filter={FILTER}"]
    return run_pandoc(arguments, text, Path()).strip()


@pytest.mark.parametrize(
    ("text", "typst"),
    [
        ("run \\-\\-device cuda", "run #box[\\-\\-device] cuda"),
        ("python \\-m measure", "python #box[\\-m] measure"),
        ("a\\-\\-\\-b", "a\\-\\-\\-b"),
        ("low\\-level and `--code`", "low-level and `--code`"),
    ],
)
def test_every_hyphen_of_several_is_escaped(text, typst):
    assert written(text, "typst") == typst


def test_other_outputs_stay():
    assert written("run \\-\\-device", "html") == "<p>run --device</p>"


def test_a_page_keeps_the_words_of_a_command_whole():
    command = "<code>python <span>-m</span> measure <span>--models=&lt;a&gt;</span></code>"
    assert written("run `python -m measure --models=<a>`", "html").split() == f"<p>run {command}</p>".split()
    assert written("`torch.compile` and `--a`{.bash}", "html").count("<span>") == 0
