"""The workflows and what the project says of itself. The linter checks their form, and pins actions to commits."""

import re
import tomllib

import yaml
from helpers.places import ROOT

from report.engine.quarto import OLDEST_VERSION

FOLDER = ROOT / ".github" / "workflows"


def jobs(name):
    return yaml.safe_load((FOLDER / name).read_text("utf-8"))["jobs"]


def commands(job):
    return [step["run"] for step in job["steps"] if "run" in step]


def test_tests_run_on_every_python_from_the_oldest_on():
    requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]
    versions = jobs("tests.yml")["test"]["strategy"]["matrix"]["python"]
    assert requires == f">={versions[0]}"
    assert versions == ["3.11", "3.12", "3.13"]


def test_tests_run_what_make_has():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    run = commands(jobs("tests.yml")["test"])
    assert run == ["make test-all", "make lint"]
    assert {"test-all", "lint"} <= set(targets)


def test_the_paper_is_rendered_by_a_quarto_that_can():
    steps = jobs("publish.yml")["render"]["steps"]
    (quarto,) = [step for step in steps if "quarto-actions" in step.get("uses", "")]
    version = tuple(map(int, quarto["with"]["version"].split(".")))
    assert version >= OLDEST_VERSION
    assert "python -m report --engine quarto" in commands({"steps": steps})
    output = yaml.safe_load((ROOT / "_quarto.yml").read_text())["project"]["output-dir"]
    assert steps[-1]["with"]["path"] == output


def test_a_clone_without_pages_publishes_nothing():
    """Nor does what waits for the page run: a job whose needed one was passed over is passed over, too."""
    found = jobs("publish.yml")
    variable, value = re.fullmatch(r"vars\.(\w+) == '(\w+)'", found["render"]["if"]).groups()
    told = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    assert f"variable `{variable}`" in told
    assert f"`{value}`" in told
    assert found["deploy"]["needs"] == "render"
    assert "if" not in found["deploy"]
