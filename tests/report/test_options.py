import pytest
from helpers.places import ROOT
from helpers.rows import layer, workload
from helpers.world import WORLD

from measure.cache.folders import Workloads
from measure.errors import UserError
from report.failures import in_environment
from report.options import FEW, cache_flags, chosen, machines, measure_command

DATA = WORLD


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.delenv("ROOFWRIGHT_MACHINES", raising=False)

    def make(settings):
        (tmp_path / "_quarto.yml").write_text(settings)
        (tmp_path / "index.qmd").write_text("text\n")
        return tmp_path

    return make


def test_without_settings_all_is_as_it_was(project, tmp_path):
    assert machines(DATA, tmp_path) == []  # a folder that is no project
    assert machines(DATA, project("roofwright:\n")) == []


def test_what_the_settings_say(project):
    root = project("roofwright:\n  machines: [example-gpu, example-cpu, example-gpu]\n")
    assert machines(DATA, root) == ["example-gpu", "example-cpu"]


def test_the_environment_chooses_before_the_settings(project):
    root = project("roofwright:\n  machines: [example-gpu]\n")
    with in_environment({"ROOFWRIGHT_MACHINES": "example-cpu"}):
        assert machines(DATA, root) == ["example-cpu"]
    assert machines(DATA, root) == ["example-gpu"]


def test_a_machine_that_is_not_there(project):
    said = r"machines in _quarto\.yml: 'exampel-gpu' is not one of .*example-cpu.*; did you mean example-gpu\?"
    with pytest.raises(UserError, match=said):
        machines(DATA, project("roofwright:\n  machines: [exampel-gpu]\n"))


def test_models_are_chosen_by_names_and_globs(project, monkeypatch, tmp_path):
    monkeypatch.delenv("ROOFWRIGHT_MODELS", raising=False)
    known = ["vgg11", "vgg16", "resnet50", "mine:net"]
    assert chosen("models", known, tmp_path) == set(known)  # a folder that is no project
    assert chosen("models", known, project("title: T\n")) == set(known)
    root = project("roofwright:\n  models: ['vgg*', mine:net]\n")
    assert chosen("models", known, root) == {"vgg11", "vgg16", "mine:net"}
    with in_environment({"ROOFWRIGHT_MODELS": "resnet50"}):
        assert chosen("models", known, root) == {"resnet50"}
    with pytest.raises(UserError, match=r"models in _quarto\.yml: 'vgg\*' is not one of resnet50"):
        chosen("models", ["resnet50"], root)


def test_the_flags_of_a_cache_elsewhere(tmp_path, monkeypatch):
    monkeypatch.delenv("ROOFWRIGHT_DATA", raising=False)
    assert cache_flags() == ("", "")
    monkeypatch.setenv("ROOFWRIGHT_DATA", str(ROOT / "data"))
    monkeypatch.chdir(ROOT)
    assert cache_flags() == ("", "")
    elsewhere = tmp_path / "my data"
    monkeypatch.setenv("ROOFWRIGHT_DATA", str(elsewhere))
    assert cache_flags() == (f" --data '{elsewhere}'", "")
    monkeypatch.chdir(tmp_path)
    Workloads(elsewhere).put([(workload(model), [layer(model)], []) for model in ("mine:net", "lean")])
    assert cache_flags() == (" --data 'my data'", " --models lean mine:net")
    many = [(workload(f"net{number}"), [layer(f"net{number}")], []) for number in range(FEW)]
    Workloads(tmp_path / "more").put(many)
    Workloads(tmp_path / "more").put([(workload("one"), [layer("one")], [])])
    monkeypatch.setenv("ROOFWRIGHT_DATA", str(tmp_path / "more"))
    assert cache_flags() == (" --data more", "")


def test_chips_are_chosen_likewise(project, monkeypatch):
    monkeypatch.delenv("ROOFWRIGHT_CHIPS", raising=False)
    known = ["NVIDIA T4", "NVIDIA L4", "Intel Core i7-920"]
    assert chosen("chips", known, project("roofwright:\n  chips: ['NVIDIA *4']\n")) == {"NVIDIA T4", "NVIDIA L4"}


def test_a_command_names_the_cache_and_its_few_models_unless_it_names_models_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROOFWRIGHT_DATA", str(tmp_path / "other"))
    Workloads(tmp_path / "other").put([(workload("lean"), [layer("lean")], [])])
    assert measure_command("--sections roofs") == "python -m measure --data other --models lean --sections roofs"
    assert measure_command("--models vgg11") == "python -m measure --data other --models vgg11"
    monkeypatch.delenv("ROOFWRIGHT_DATA")
    assert measure_command() == "python -m measure"


def test_a_choice_where_no_machine_is(project, tmp_path):
    with pytest.raises(UserError, match=r"holds no machine, so none can be chosen; .*python -m measure"):
        machines(tmp_path / "data", project("roofwright:\n  machines: [a]\n"))
