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

from measure import __main__ as measure_command
from measure.cache.folders import MachineFolder
from measure.cache.records import Environment, Run
from measure.machine import devices

NOTEBOOK = ROOT / "notebooks" / "colab.ipynb"
OWN = "tests.helpers.small_network:network"


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


def test_it_is_sound_and_holds_no_results(notebook):
    nbformat.validate(notebook)
    code = [each for each in notebook.cells if each.cell_type == "code"]
    assert code[0].metadata["tags"] == ["parameters"]
    assert all(each.outputs == [] and each.execution_count is None for each in code)


def test_elsewhere_it_asks_for_the_address_of_the_repository(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RuntimeError, match="into REPOSITORY above"):
        execute(notebook, "parameters", "clone")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def within(notebook, tmp_path, monkeypatch):
    """What the first cells define within this clone, told to measure a network of its own into another folder."""
    monkeypatch.chdir(NOTEBOOK.parent)
    flags = f"--quick --models {OWN} --batch-sizes 1 --sections workload inference --target 100%"
    given = {"DEVICE": "cuda", "BUDGET": "10m", "DATA": str(tmp_path / "data"), "PAPER": str(tmp_path)}
    defined = execute(notebook, "parameters", "clone")
    assert given.keys() <= defined.keys()
    assert defined["clone"] == ROOT
    return {**defined, **given, "MEASURE_FLAGS": flags}


@pytest.mark.slow
@pytest.mark.usefixtures("forked_workers")
def test_within_a_clone_it_measures_and_packs_on_any_machine(notebook, within, tmp_path, monkeypatch, capsys):
    def run(python, *words, cwd):
        """Run a command of this clone in this process, which has all imported."""
        assert (python, words[:3], cwd) == (sys.executable, ("-u", "-m", "measure"), ROOT)
        assert measure_command.main(list(words[3:])) == 0

    monkeypatch.chdir(ROOT)
    execute(notebook, "measure", "zip", **{**within, "run": run})
    printed = capsys.readouterr().out
    has_gpu = devices.available_names()[0].startswith("cuda")
    assert ("There is no cuda on this machine" in printed) != has_gpu
    assert "counts: 1 done; " in printed  # a line a part, which any page shows
    (machine,) = (tmp_path / "data" / "machines").iterdir()
    runs = MachineFolder(tmp_path / "data", machine.name).rows(Run)
    assert {(run.model, run.batch, run.status) for run in runs} == {(OWN, 1, "ok")}
    counts = ("workload/layers", "workload/models", "workload/operators")  # an own model's, which no one else has
    with zipfile.ZipFile(tmp_path / f"{machine.name}.zip") as archive:
        found = sorted(archive.namelist())
    assert found == [f"{machine.name}/{name}.csv" for name in ("machine", "runs", "samples", *counts)]


@pytest.mark.slow
def test_a_run_that_measured_nothing_hands_in_no_other_machine(notebook, within, tmp_path):
    shutil.copytree(WORLD / "machines", tmp_path / "data" / "machines")  # as every clone has some
    ended = {"run": lambda *words, cwd: None}  # the budget ends before the first task
    with pytest.raises(RuntimeError, match="Nothing was measured within the budget; raise it"):
        execute(notebook, "measure", "zip", **{**within, **ended})
    assert not list(tmp_path.glob("*.zip"))


def commit(origin):
    """Make a folder a repository of what is in it."""
    git = ["git", "-C", origin, "-c", "user.name=A", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "A"], check=True)


def test_elsewhere_it_makes_a_clone_once_and_stops_at_a_command_that_fails(notebook, tmp_path, monkeypatch, capsys):
    origin, work = tmp_path / "origin", tmp_path / "work"
    (origin / "measure").mkdir(parents=True)
    (origin / "measure" / "__main__.py").touch()
    commit(origin)
    work.mkdir()
    monkeypatch.chdir(work)
    for address in (origin.as_uri(), "file:///nowhere"):
        defined = execute(notebook, "clone", REPOSITORY=address)
        assert defined["clone"] == work / "roofwright"
    assert (work / "roofwright" / "measure" / "__main__.py").exists()
    with pytest.raises(RuntimeError, match="ended with exit code 3; its last line says why"):
        defined["run"](sys.executable, "-c", "import sys; print('because'); sys.exit(3)")
    assert "because" in capsys.readouterr().out


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


@pytest.fixture
def colab(tmp_path):
    """The Python of a machine whose own packages have torch and Jupyter but not ours, and how to start it there.

    It has a T4, though one that is not there, and no network.
    """
    if missing := [name for name in ("torch", "pynvml", "pip", "setuptools") if find_spec(name) is None]:
        pytest.skip(f"the cell that installs would need an index for {missing[0]}")
    packages = tmp_path / "packages"
    packages.mkdir()
    for each in Path(sysconfig.get_path("purelib")).iterdir():
        if "roofwright" not in each.name and each.suffix != ".pth":
            (packages / each.name).symlink_to(each)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "colab"], check=True)
    given = environment("t4")
    found = [path for path in given["PYTHONPATH"].split(os.pathsep) if Path(path) != ROOT]
    given |= {
        "PYTHONPATH": os.pathsep.join([*found, str(packages)]),
        "PIP_NO_INDEX": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say that it is off
        "IPYTHONDIR": str(tmp_path / "ipython"),
        "JUPYTER_DATA_DIR": str(tmp_path / "jupyter"),
    }
    return tmp_path / "colab" / "bin" / "python", given


def said(notebook, name):
    """What a cell has printed."""
    return "".join(output.get("text", "") for output in cell(notebook, name).outputs)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="a process is kept to two cores on Linux alone")
def test_on_colab_it_clones_installs_measures_a_gpu_renders_and_packs(notebook, colab, tmp_path):
    origin = copy_project(tmp_path / "origin", without=("benchmarks/", "data/machines/", "tests/"))
    commit(origin)
    given = {
        "REPOSITORY": origin.as_uri(),
        "BUDGET": "10m",
        "MEASURE_FLAGS": "--quick --models alexnet --batch-sizes 64 --sections inference --target 100%",
        "REPORT_FLAGS": "--engine embedded --formats html --chapters latency",
    }
    lines = [f"{name} = {value!r}" for name, value in given.items()]
    after = next(number for number, each in enumerate(notebook.cells) if each.id == "parameters") + 1
    notebook.cells.insert(after, nbformat.v4.new_code_cell("\n".join(lines)))
    work = tmp_path / "work"
    work.mkdir()
    nbformat.write(notebook, work / "colab.ipynb")
    python, variables = colab
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
        assert sorted(archive.namelist()) == [f"{machine.name}/{name}.csv" for name in ("machine", "runs", "samples")]
