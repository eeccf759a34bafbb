"""The workflows and what the project says of itself. The linter checks their form, and pins actions to commits."""

import tomllib

import yaml
from helpers.places import ROOT

from report.engine.quarto import OLDEST_VERSION


def jobs(name):
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text("utf-8"))["jobs"]


def commands(job):
    return [step["run"] for step in job["steps"] if "run" in step]


def test_tests_run_what_make_has_on_every_python_from_the_oldest_on():
    job = jobs("tests.yml")["test"]
    assert commands(job) == ["make test-all", "make lint"]
    versions = job["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13"]
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    assert requires == f">={versions[0]}"


def test_the_paper_is_rendered_by_a_quarto_that_can():
    job = jobs("publish.yml")["render"]
    (quarto,) = [step for step in job["steps"] if "quarto-actions" in step.get("uses", "")]
    assert tuple(map(int, quarto["with"]["version"].split("."))) >= OLDEST_VERSION
    assert "python -m report --engine quarto" in commands(job)
    output = yaml.safe_load((ROOT / "_quarto.yml").read_text())["project"]["output-dir"]
    assert job["steps"][-1]["with"]["path"] == output
