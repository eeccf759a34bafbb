"""The notebook for Colab, run to its end on this machine."""

import shutil
import subprocess
import sys
import zipfile

import nbformat
import pytest
from helpers.places import ROOT

from measure import __main__ as measure_command
from measure.cache.folders import MachineFolder
from measure.machine import devices
from report import __main__ as report_command

pytestmark = pytest.mark.long
NOTEBOOK = ROOT / "notebooks" / "colab.ipynb"
OWN = "tests.helpers.small_network:network"


@pytest.fixture
def notebook():
    return nbformat.read(NOTEBOOK, as_version=4)


def cell(notebook, name):
    return next(each for each in notebook.cells if each.id == name)


@pytest.fixture
def data(tmp_path):
    """What every clone has, without the machines."""
    folder = tmp_path / "data"
    shutil.copytree(ROOT / "data", folder, ignore=shutil.ignore_patterns("machines"))
    return folder


def test_it_is_sound_and_holds_no_results(notebook):
    nbformat.validate(notebook)
    code = [each for each in notebook.cells if each.cell_type == "code"]
    assert code[0].metadata["tags"] == ["parameters"]
    assert all(each.outputs == [] and each.execution_count is None for each in code)


def test_elsewhere_it_asks_for_the_address_of_the_repository(notebook, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    defined = {}
    exec(cell(notebook, "parameters").source, defined)
    with pytest.raises(RuntimeError, match="into REPOSITORY above"):
        exec(cell(notebook, "clone").source, defined)
    assert list(tmp_path.iterdir()) == []


COMMANDS = {"measure": measure_command, "report": report_command}


def run_here(_python, _unbuffered, _m, package, *arguments, cwd):
    """Run a command of this clone as the notebook's `run` does, but in this process, which has all imported."""
    assert (_python, _unbuffered, _m, cwd) == (sys.executable, "-u", "-m", ROOT)
    assert COMMANDS[package].main(list(arguments)) == 0


@pytest.mark.usefixtures("forked_workers")
def test_within_a_clone_it_measures_renders_and_packs_on_any_machine(notebook, data, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(NOTEBOOK.parent)
    site = tmp_path / "site"
    given = {
        "DEVICE": "cuda",
        "BUDGET": "10m",
        "MEASURE_FLAGS": f"--quick --models {OWN} --batch-sizes 1 --sections workload inference --target 100%",
        "REPORT_FLAGS": "--engine embedded --formats html --chapters benchmarks",
        "DATA": str(data),
        "PAPER": str(site),
    }
    defined, printed = {}, {}
    for each in notebook.cells:
        if each.cell_type == "code":
            exec(each.source, defined)
            printed[each.id] = capsys.readouterr().out
        if each.id == "parameters":
            assert given.keys() <= defined.keys()
            defined.update(given)
        if each.id == "clone":
            defined["run"] = run_here
            monkeypatch.chdir(ROOT)

    assert f"Ridgepoint in {ROOT}, with torch " in printed["clone"]
    has_gpu = devices.available_names()[0].startswith("cuda")
    said = "There is no cuda on this machine: it measures what there is (--device auto).\n"
    assert (said in printed["measure"]) != has_gpu
    assert "[1/" in printed["measure"]  # a line a task, which any page shows

    (machine,) = (data / "machines").iterdir()
    runs = MachineFolder(data, machine.name).runs()
    assert {(run.model, run.batch, run.status) for run in runs} == {(OWN, 1, "ok")}
    assert (site / "index.html").stat().st_size > 100_000
    assert "SVG object" in printed["figures"]
    with zipfile.ZipFile(site / f"{machine.name}.zip") as archive:
        assert sorted(archive.namelist()) == [f"{machine.name}/{name}.csv" for name in ("machine", "runs", "samples")]


def test_a_run_that_measured_nothing_hands_in_no_other_machine(notebook, tmp_path, monkeypatch):
    data = tmp_path / "data"
    other = data / "machines" / "another-machine"
    shutil.copytree(ROOT / "tests" / "data" / "machines" / "example-cpu", other)  # as every clone has one
    monkeypatch.chdir(NOTEBOOK.parent)
    defined = {}
    for name in ("parameters", "clone"):
        exec(cell(notebook, name).source, defined)
    flags = f"--models {OWN} --batch-sizes 1 --sections inference"
    defined |= {"DEVICE": "cpu", "DATA": str(data), "PAPER": str(tmp_path), "MEASURE_FLAGS": flags}
    defined["run"] = lambda *words, cwd: None  # the budget ends before the first task
    exec(cell(notebook, "measure").source, defined)
    with pytest.raises(RuntimeError, match="Nothing was measured within the budget; raise it"):
        exec(cell(notebook, "zip").source, defined)
    assert not list(tmp_path.glob("*.zip"))


@pytest.fixture
def elsewhere(notebook, tmp_path, monkeypatch):
    """What the cells define when they run outside any clone, of a repository that a test made."""
    origin = tmp_path / "origin"
    (origin / "measure").mkdir(parents=True)
    (origin / "measure" / "__main__.py").touch()
    git = ["git", "-C", origin, "-c", "user.name=A", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", "A"], check=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    defined = {"REPOSITORY": origin.as_uri()}
    exec(cell(notebook, "clone").source, defined)
    return defined


def test_elsewhere_it_makes_a_clone_once(notebook, elsewhere, tmp_path):
    assert elsewhere["clone"] == tmp_path / "work" / "ridgepoint"
    assert (elsewhere["clone"] / "measure" / "__main__.py").exists()
    again = {"REPOSITORY": "file:///nowhere"}
    exec(cell(notebook, "clone").source, again)
    assert again["clone"] == elsewhere["clone"]


def test_a_command_that_fails_stops_the_notebook(elsewhere, capsys):
    with pytest.raises(RuntimeError, match="ended with exit code 3; its last line says why"):
        elsewhere["run"](sys.executable, "-c", "import sys; print('because'); sys.exit(3)")
    assert "because" in capsys.readouterr().out
