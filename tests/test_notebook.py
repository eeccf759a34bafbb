"""The notebook for Colab, run to its end on this machine."""

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from importlib.util import find_spec
from pathlib import Path

import nbformat
import pytest
from helpers.gpu import environment
from helpers.gpu.catalogue import DRIVER
from helpers.places import ROOT, copy_project
from helpers.world import WORLD

from measure.cache.folders import MachineFolder
from measure.domain.records import Environment, Run
from measure.machine import devices

NOTEBOOK = ROOT / "notebooks" / "colab.ipynb"


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def cell(notebook, name):
    return next(each for each in notebook.cells if each.id == name)


def execute(notebook, *names, **defined):
    """Run cells in this process; return what they define."""
    for name in names:
        exec(cell(notebook, name).source, defined)
    return defined


def test_a_clone_measures_and_hands_in_no_other_machine(notebook, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(NOTEBOOK.parent)
    data = shutil.copytree(WORLD, tmp_path / "data")  # every clone has some machines
    given = {"DEVICE": "cuda", "BUDGET": "10m", "DATA": str(data), "PAPER": str(tmp_path), "MEASURE_FLAGS": "--quick"}
    defined, commands = execute(notebook, "parameters", "clone"), []
    assert given.keys() <= defined.keys()
    assert defined["clone"] == ROOT
    ended = {"run": lambda *words, cwd: commands.append((*words, cwd))}  # the budget ends before the first task
    with pytest.raises(RuntimeError, match="Nothing was measured within the budget; raise it"):
        execute(notebook, "measure", "zip", **{**defined, **given, **ended})
    has_gpu = devices.available_names()[0].startswith("cuda")
    flags = ("--device", "cuda" if has_gpu else "auto", "--budget", "10m", "--data", str(data), "--quick")
    assert commands == [(sys.executable, "-u", "-m", "measure", *flags, ROOT)]
    assert ("There is no cuda on this machine" in capsys.readouterr().out) != has_gpu


COLAB = """
import os, sys
import nbformat
from nbclient import NotebookClient
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])
notebook = nbformat.read(sys.argv[1], as_version=4)
NotebookClient(notebook, timeout=600).execute()
nbformat.write(notebook, sys.argv[1])
"""
"""Runs a notebook from its first cell to its last on two cores, and keeps what the cells say."""


def said(notebook, name):
    """What a cell has printed."""
    return "".join(output.get("text", "") for output in cell(notebook, name).outputs)


def colab(folder):
    """The Python of a machine whose own packages have torch and Jupyter but not ours, and its variables.

    It has a T4, though one that is not there, and no network.
    """
    packages = folder / "packages"
    packages.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "roofwright" not in each.name and each.suffix != ".pth":
            (packages / each.name).symlink_to(each)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "colab"], check=True)
    variables = environment("t4")
    paths = [path for path in variables["PYTHONPATH"].split(os.pathsep) if Path(path) != ROOT]
    return folder / "colab" / "bin" / "python", variables | {
        "PYTHONPATH": os.pathsep.join([*paths, str(packages)]),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that it is off
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_DATA_DIR": str(folder / "jupyter"),
    }


NEEDED = ("torch", "pynvml", "pip", "setuptools")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="a process is kept to two cores on Linux alone")
@pytest.mark.skipif(not all(map(find_spec, NEEDED)), reason="the cell that installs would need an index")
def test_on_colab_it_clones_measures_renders_and_packs(notebook, tmp_path):
    origin = copy_project(tmp_path / "origin", without=("benchmarks/", "data/machines/", "tests/"))
    git = ["git", "-C", origin, "-c", "user.name=A", "-c", "user.email=a@b"]
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "-m", "A"]):
        subprocess.run([*git, *words], check=True)
    given = {
        "REPOSITORY": origin.as_uri(),
        "BUDGET": "10m",
        "MEASURE_FLAGS": "--quick --models alexnet --batch-sizes 64 --sections inference --target 100%",
        "REPORT_FLAGS": "--engine embedded --formats html --chapters latency",
    }
    after = notebook.cells.index(cell(notebook, "parameters")) + 1
    lines = "\n".join(f"{name} = {value!r}" for name, value in given.items())
    notebook.cells.insert(after, nbformat.v4.new_code_cell(lines))
    work = tmp_path / "work"
    work.mkdir()
    nbformat.write(notebook, work / "colab.ipynb")
    python, variables = colab(tmp_path)
    command = [python, "-c", COLAB, "colab.ipynb"]
    ran = subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stderr
    notebook = nbformat.read(work / "colab.ipynb", as_version=4)

    clone = work / "roofwright"
    assert f"Roofwright in {clone}, with torch " in said(notebook, "clone")
    assert (clone / ".venv" / "bin" / "python").exists()
    assert "There is no cuda" not in said(notebook, "measure")
    (machine,) = (clone / "data" / "machines").iterdir()
    folder = MachineFolder(clone / "data", machine.name)
    assert [each.driver for each in folder.rows(Environment)] == [DRIVER]
    assert {(run.model, run.batch, run.status) for run in folder.rows(Run)} == {("alexnet", 64, "ok")}
    shown = [output.get("data", {}) for output in cell(notebook, "figures").outputs]
    assert any("image/svg+xml" in each for each in shown)
    assert (clone / "_site" / "index.html").stat().st_size > 100_000
    with zipfile.ZipFile(clone / "_site" / f"{machine.name}.zip") as archive:
        files = ("SHA256SUMS", "machine.csv", "runs.csv", "samples.csv")
        assert sorted(archive.namelist()) == [f"{machine.name}/{name}" for name in files]
