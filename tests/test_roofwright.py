import os
import shutil
import subprocess
import sys

import pytest
from helpers.places import ROOT, copy_project
from helpers.world import WORLD

from measure.machine.environment import version
from roofwright.__main__ import main


def test_each_part_has_its_own_command_line(capsys):
    assert main(["report", "check", "--data", str(WORLD)]) == 0
    assert " is sound: " in capsys.readouterr().out
    assert main(["measure", "show", "lean", "--data", str(WORLD)]) == 0
    assert "lean" in capsys.readouterr().out


def test_its_version_names_the_commit(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"roofwright {version()}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["mesure"], "roofwright: part: 'mesure' is not one of measure, report; did you mean measure?\n"),
        (["--data", "x", "report"], "roofwright: there is no flag --data; see roofwright --help\n"),
        (["measure", "--no-such-flag"], "there is no flag --no-such-flag"),
        ([], "roofwright measure --help"),
    ],
)
def test_words_that_it_does_not_know(words, said, capsys):
    assert main(words) == 2
    assert said in capsys.readouterr().err


# Committed files alone, so that what a wheel holds does not hang on what lies about in a clone.
@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment into which a wheel of the committed files was installed, without what it depends on."""
    folder = tmp_path_factory.mktemp("wheel")
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a clone, or no git on this machine")
    source = copy_project(folder / "source")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input"]
    alone = ["--no-deps", "--no-index", "--no-build-isolation"]
    prefix = folder / "environment"
    done = subprocess.run(
        [*pip, "install", *alone, "--ignore-installed", "--prefix", prefix, source], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return prefix


@pytest.fixture
def roofwright(installed, tmp_path):
    """Runs the installed command in an empty folder, as the only copy of the program."""
    (packages,) = installed.glob("lib/python*/site-packages")
    command = next(
        path for path in (installed / "bin" / "roofwright", installed / "local/bin/roofwright") if path.exists()
    )
    environment = {**os.environ, "PYTHONPATH": str(packages)}

    def run(*words):
        return subprocess.run(
            [sys.executable, command, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    return run


@pytest.mark.slow
def test_an_installed_copy_renders_what_lies_in_the_folder_it_is_called_in(roofwright, installed, tmp_path):
    missing = roofwright("report")
    said = "there is no data folder data; measure first with python -m measure, or give --data"
    assert (missing.returncode, missing.stderr) == (2, f"python -m report: {said}\n")
    for folder in ("machines", "workload"):
        shutil.copytree(WORLD / folder, tmp_path / "data" / folder)
    done = roofwright("report", "--engine", "embedded", "--formats", "html", "--chapters", "chips", "prediction")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == "rendering the paper of data"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_site", "data"]
    page = (tmp_path / "_site" / "index.html").read_text("utf-8")
    assert "NVIDIA H200" in page  # the chips are those of the installed table
    assert not list(installed.rglob("_figures"))  # nothing was written where the program lies


@pytest.mark.slow
def test_an_installed_copy_measures_a_model_of_the_folder_that_it_is_called_in(roofwright, tmp_path):
    """And no file there stands in for the program's own."""
    pytest.importorskip("torch", reason="a model is one of torch's")
    (tmp_path / "mine.py").write_text(
        "import torch\n\ndef net(batch):\n    return torch.nn.Linear(4, 2), torch.randn(batch, 4)\n"
    )
    (tmp_path / "measure.py").write_text("raise SystemExit('not this one')\n")
    asked = ["--device", "cpu", "--sections", "workload", "--models", "mine:net", "--batch-sizes", "1"]
    done = roofwright("measure", *asked)
    assert done.returncode == 0, done.stderr
    assert " into data/machines/" in done.stdout.splitlines()[0]
    assert "mine:net" in (tmp_path / "data" / "workload" / "own" / "models.csv").read_text("utf-8")
