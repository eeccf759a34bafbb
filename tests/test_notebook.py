"""The notebook for Colab, run to its end on this machine."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from helpers.gpu import environment
from helpers.gpu.catalogue import DRIVER
from helpers.places import ROOT, TESTS, copy_project
from helpers.world import WORLD
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

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


def test_without_a_clone_it_says_in_one_sentence_what_to_do(notebook, tmp_path):
    client = NotebookClient(notebook, timeout=60, resources={"metadata": {"path": str(tmp_path)}})
    with pytest.raises(CellExecutionError):
        client.execute()
    (said,) = cell(notebook, "clone").outputs
    (sentence,) = said.traceback  # what Jupyter prints
    assert "into REPOSITORY above, and run again" in sentence
    assert "\n" not in sentence
    assert not cell(notebook, "measure").outputs


@pytest.fixture
def upload(monkeypatch, tmp_path):
    """Chooses files on a Colab that is not there, in a folder that is not in a clone."""
    monkeypatch.chdir(tmp_path)

    def choose(*names):
        files = SimpleNamespace(upload=lambda: dict.fromkeys(names, b""))
        monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace(files=files))

    return choose


@pytest.mark.parametrize("folder", ["roofwright-main/", ""])  # as GitHub packs it, and as git archive does
def test_colab_makes_a_clone_from_a_zip(notebook, upload, tmp_path, folder):
    pack = ["git", "archive", "--prefix", folder, "--output", tmp_path / "a.zip", "HEAD", "measure", "pyproject.toml"]
    subprocess.run(pack, cwd=ROOT, check=True)
    with zipfile.ZipFile("a.zip", "a") as packed:
        packed.writestr("roofwright-main/tests/measure/__main__.py", "")
    upload("a.zip")
    assert execute(notebook, "parameters", "clone")["clone"] == tmp_path / "roofwright"
    for name in ("measure/__main__.py", "measure/errors.py", "pyproject.toml"):
        packed = subprocess.run(["git", "show", f"HEAD:{name}"], cwd=ROOT, capture_output=True, check=True).stdout
        assert (tmp_path / "roofwright" / name).read_bytes() == packed
    upload()  # asks for nothing again
    execute(notebook, "parameters", "clone")


def test_colab_refuses_a_wrong_file_and_takes_another(notebook, upload, tmp_path):
    with zipfile.ZipFile("measured.zip", "w") as packed:
        packed.writestr("tesla-t4/runs.csv", "")
    Path("notes.txt").write_text("no zip")
    for names, sentence in (
        ((), "No file was chosen"),
        (("measured.zip",), "measured.zip is not a zip of Roofwright"),
        (("notes.txt",), "notes.txt is not a zip of Roofwright"),
    ):
        upload(*names)
        with pytest.raises(RuntimeError, match=sentence):
            execute(notebook, "parameters", "clone")
    assert not (tmp_path / "roofwright").exists()


def test_colab_downloads_the_page_of_a_paper(notebook, monkeypatch, tmp_path):
    monkeypatch.chdir(NOTEBOOK.parent)
    downloaded = []
    files = SimpleNamespace(download=downloaded.append)
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace(files=files))
    defined = execute(notebook, "parameters", "clone") | {"PAPER": str(tmp_path), "run": lambda *words, cwd: None}
    execute(notebook, "paper", **defined)  # of another format
    (tmp_path / "index.html").touch()
    execute(notebook, "paper", **defined)
    assert downloaded == [str(tmp_path / "index.html")]


@pytest.mark.parametrize("python", ["3.12", "3.13"])
def test_the_requirements_admit_what_colab_brings(python):
    """Otherwise pip would replace a library that Colab's other packages are built for."""
    project, place = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"], {"python_version": python}
    lines = (TESTS / "data" / "colab-constraints.txt").read_text("utf-8").splitlines()
    pins = [Requirement(line) for line in lines if not line.startswith("#")]
    brought = {pin.name: pin for pin in pins if pin.marker is None or pin.marker.evaluate(place)}
    asked = map(Requirement, [*project["dependencies"], *project["optional-dependencies"]["measure"]])
    needs = {need.name: need for need in asked if need.marker is None or need.marker.evaluate(place)}
    assert python in SpecifierSet(project["requires-python"])
    assert {"numpy", "pandas", "torch"} <= brought.keys() <= needs.keys()
    for name, pin in brought.items():
        (exact,) = pin.specifier
        assert exact.version in needs[name].specifier, f"Python {python}: {pin} is not {needs[name]}"


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
    # A T4 has no units for bf16.
    cells = {(run.model, run.batch, run.precision, run.status) for run in folder.rows(Run)}
    assert cells == {("alexnet", 64, precision, "ok") for precision in ("fp32", "fp16")}
    shown = [output.get("data", {}) for output in cell(notebook, "figures").outputs]
    assert any("image/svg+xml" in each for each in shown)
    assert (clone / "_site" / "index.html").stat().st_size > 100_000
    with zipfile.ZipFile(clone / "_site" / f"{machine.name}.zip") as archive:
        files = ("SHA256SUMS", "machine.csv", "runs.csv", "samples.csv")
        assert sorted(archive.namelist()) == [f"{machine.name}/{name}" for name in files]
