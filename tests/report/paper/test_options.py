import os
import subprocess
import sys

import pytest
from helpers.places import ROOT
from helpers.rows import layer, workload

from measure.cache.folders import Workloads
from measure.errors import UserError
from report.paper.options import FEW, FIGURE_WIDTH, cache_flags, figure_width, machines, models
from report.process import in_environment

DATA = ROOT / "tests" / "data"


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
    assert figure_width(tmp_path) == FIGURE_WIDTH
    assert machines(DATA, project("roofwright:\n")) == []
    assert figure_width(tmp_path) == FIGURE_WIDTH


def test_what_the_settings_say(project):
    root = project("roofwright:\n  machines: [example-gpu, example-cpu, example-gpu]\n  figure-width: 700\n")
    assert machines(DATA, root) == ["example-gpu", "example-cpu"]
    assert figure_width(root) == 700


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
    assert models(known, tmp_path) == set(known)  # a folder that is no project
    assert models(known, project("title: T\n")) == set(known)
    root = project("roofwright:\n  models: ['vgg*', mine:net]\n")
    assert models(known, root) == {"vgg11", "vgg16", "mine:net"}
    with in_environment({"ROOFWRIGHT_MODELS": "resnet50"}):
        assert models(known, root) == {"resnet50"}
    with pytest.raises(UserError, match=r"models in _quarto\.yml: 'vgg\*' is not one of resnet50"):
        models(["resnet50"], root)


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


def test_figures_take_their_width_from_the_project_they_are_drawn_in(project):
    root = project("roofwright:\n  figure-width: 700\n")
    run = subprocess.run(
        [sys.executable, "-c", "from report.charts import theme; print(theme.WIDTH)"],
        cwd=root, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout == "700\n"


def test_a_choice_where_no_machine_is(project, tmp_path):
    with pytest.raises(UserError, match=r"holds no machine, so none can be chosen; .*python -m measure"):
        machines(tmp_path / "data", project("roofwright:\n  machines: [a]\n"))
