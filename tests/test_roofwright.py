import os
import shutil
import subprocess
import sys

import pytest
from helpers.places import ROOT, copy_project
from helpers.world import WORLD

from measure.machine.environment import version
from roofwright.__main__ import main


@pytest.mark.parametrize(
    ("words", "code", "output"),
    [
        (["report", "check", "--data", str(WORLD)], 0, " is sound: "),
        (["measure", "show", "lean", "--data", str(WORLD)], 0, "lean"),
        (["--version"], 0, f"roofwright {version()}\n"),  # which names the commit
        (["mesure"], 2, "roofwright: part: 'mesure' is not one of measure, report; did you mean measure?\n"),
        (["--data", "x", "report"], 2, "roofwright: there is no flag --data; see roofwright --help\n"),
        (["measure", "--no-such-flag"], 2, "there is no flag --no-such-flag"),
        ([], 2, "roofwright measure --help"),
    ],
)
def test_each_part_has_its_own_command_line(words, code, output, capsys):
    assert main(words) == code
    assert output in capsys.readouterr()[code // 2]  # errors go to standard error


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """An environment with a wheel of the committed files alone, without dependencies."""
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a clone, or no git on this machine")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "--no-input", "install"]
    command += ["--no-deps", "--no-index", "--no-build-isolation", "--ignore-installed"]
    command += ["--prefix", folder / "environment", copy_project(folder / "source")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder / "environment"


@pytest.fixture
def roofwright(installed, tmp_path):
    """Runs the installed command in an empty folder, as the only copy of the program."""
    (packages,) = installed.rglob("site-packages")
    (command,) = installed.rglob("bin/roofwright")
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    return lambda *words: subprocess.run(
        [sys.executable, command, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
    )


@pytest.mark.slow
def test_an_installed_copy_renders_the_folder_it_is_called_in(roofwright, installed, tmp_path):
    missing = roofwright("report")
    reason = "no measurements in data; run roofwright measure --quick first, or name their folder with --data"
    assert (missing.returncode, missing.stderr) == (2, f"roofwright report: {reason}\n")
    (tmp_path / "report.py").write_text("raise SystemExit('not this one')\n")  # replaces nothing
    for folder in ("machines", "workload"):
        shutil.copytree(WORLD / folder, tmp_path / "data" / folder)
    done = roofwright("report", "--engine", "embedded", "--formats", "html", "--chapters", "chips")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[0] == "rendering the paper of data"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_site", "data", "report.py"]
    page = (tmp_path / "_site" / "index.html").read_text("utf-8")
    assert "NVIDIA H200" in page  # from the installed table of chips
    assert not list(installed.rglob("_figures"))  # nothing was written where the program lies
