import pytest
from helpers.cells import machine, put
from helpers.rows import layer, workload
from helpers.world import WORLD

from measure.cache.folders import Workloads
from measure.errors import UserError
from report.failures import in_environment
from report.options import FEW, choose, machines, measure_command


@pytest.fixture
def project(tmp_path, monkeypatch):
    for name in ("DATA", "MACHINES", "MODELS", "CHIPS"):
        monkeypatch.delenv(f"ROOFWRIGHT_{name}", raising=False)

    def make(settings):
        (tmp_path / "_quarto.yml").write_text(settings)
        (tmp_path / "index.qmd").write_text("text\n")
        return tmp_path

    return make


def test_machines_are_chosen_by_the_environment_or_the_settings(project, tmp_path):
    assert machines(WORLD, tmp_path) == []  # a folder that is no project
    assert machines(WORLD, project("roofwright:\n")) == []
    root = project("roofwright:\n  machines: [example-gpu, example-cpu, example-gpu]\n")
    assert machines(WORLD, root) == ["example-gpu", "example-cpu"]
    with in_environment({"ROOFWRIGHT_MACHINES": "example-cpu"}):
        assert machines(WORLD, root) == ["example-cpu"]
    message = r"machines in _quarto\.yml: 'exampel-gpu' is not one of .*example-cpu.*; did you mean example-gpu\?"
    with pytest.raises(UserError, match=message):
        machines(WORLD, project("roofwright:\n  machines: [exampel-gpu]\n"))
    with pytest.raises(UserError, match=r"holds no machine, so none can be chosen; .*python -m measure"):
        machines(tmp_path / "data", project("roofwright:\n  machines: [a]\n"))


def test_models_and_chips_are_chosen_by_names_and_globs(project, tmp_path):
    names = ["vgg11", "vgg16", "resnet50", "mine:net"]
    assert choose("models", names, tmp_path) == set(names)
    root = project("roofwright:\n  models: ['vgg*', mine:net]\n  chips: ['NVIDIA *4']\n")
    assert choose("models", names, root) == {"vgg11", "vgg16", "mine:net"}
    assert choose("chips", ["NVIDIA T4", "NVIDIA L4", "Intel Core i7-920"], root) == {"NVIDIA T4", "NVIDIA L4"}
    with in_environment({"ROOFWRIGHT_MODELS": "resnet50"}):
        assert choose("models", names, root) == {"resnet50"}
    with pytest.raises(UserError, match=r"models in _quarto\.yml: 'vgg\*' is not one of resnet50"):
        choose("models", ["resnet50"], root)


def test_a_command_names_the_cache_and_its_few_models(tmp_path, monkeypatch):
    def cache_of(folder, *models):
        for model in models:
            Workloads(folder).put([(workload(model), [layer(model)], [])])
        monkeypatch.setenv("ROOFWRIGHT_DATA", str(folder))

    monkeypatch.chdir(tmp_path)
    assert measure_command() == "python -m measure"
    cache_of(tmp_path / "data", "lean")
    assert measure_command("--sections roofs") == "python -m measure --sections roofs"
    cache_of(tmp_path / "my data", "mine:net", "lean")
    expected = "python -m measure --data 'my data' --models lean mine:net --sections roofs"
    assert measure_command("--sections roofs") == expected
    assert measure_command("--models vgg11") == "python -m measure --data 'my data' --models vgg11"
    put(machine(tmp_path / "timed", "box"), 0, [0.1])  # alexnet, which nobody counted
    cache_of(tmp_path / "timed", "lean")
    assert measure_command() == "python -m measure --data timed --models alexnet lean"
    cache_of(tmp_path / "more", *(f"net{number}" for number in range(FEW + 1)))
    assert measure_command() == "python -m measure --data more"
