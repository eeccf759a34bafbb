"""The action for others' projects, run as GitHub runs it, on a scratch repository of two commits."""

import os
import shutil
import subprocess
import sys

import pytest
import yaml
from helpers.places import ROOT, TESTS

from measure.verbs.flags import parser_of
from measure.verbs.measure import parser as measure_parser

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEP = ACTION["runs"]["steps"][-1]

PYTHON = f"""#!/bin/sh
# The real commands, where nothing is measured but short sleeps
shift 2
exec {sys.executable} {TESTS / "helpers" / "measurement.py"} "$@"
"""

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the action's steps are run by bash")


def git(folder, *words):
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def project(tmp_path):
    """A project's clone, and the commit before its last."""
    origin = tmp_path / "origin"
    origin.mkdir()
    git(origin, "init", "--quiet", "--initial-branch", "main")
    commits = []
    for text in ("first", "second"):
        (origin / "file").write_text(text)
        git(origin, "add", ".")
        git(origin, "commit", "--quiet", "--message", text)
        commits.append(git(origin, "rev-parse", "HEAD"))
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{origin}", "project")
    return tmp_path / "project", commits[0]


def run(project, tmp_path, **inputs):
    folder, base = project
    programs, temporary = tmp_path / "bin", tmp_path / "runner"
    programs.mkdir()
    temporary.mkdir()
    (programs / "python").write_text(PYTHON)
    (programs / "python").chmod(0o755)
    defaults = {name.replace("-", "_").upper(): said.get("default") for name, said in ACTION["inputs"].items()}
    variables = {
        **os.environ, **defaults, "MODELS": "alexnet vgg11", "BASE": base, "RUNNER_TEMP": str(temporary),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        **inputs,
    }  # fmt: skip
    return subprocess.run(["bash", "-c", STEP["run"]], cwd=folder, env=variables, capture_output=True, text=True)


def test_both_commits_are_measured_and_their_comparison_is_the_summary(project, tmp_path):
    done = run(project, tmp_path, REGRESSION="900%")
    assert done.returncode == 0, done.stderr
    summary = (tmp_path / "summary.md").read_text()
    assert "| model | batch |" in summary
    assert "| alexnet | 1 | fp32 | inference | eager |" in summary
    assert "| vgg11 | 1 | fp32 | inference | eager |" in summary
    assert summary in done.stdout
    assert (tmp_path / "runner" / "base" / "file").read_text() == "first"


def test_what_the_comparison_refuses_fails_the_job(project, tmp_path):
    done = run(project, tmp_path, REGRESSION="much")
    assert done.returncode == 2
    assert "--fail-on-regression: 'much' is not a percentage" in done.stderr


def test_every_input_is_a_variable_of_the_step_and_no_text_of_its_script():
    assert "${{" not in STEP["run"]
    assert {f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]} == set(STEP["env"].values())


def test_its_flags_are_those_of_the_commands():
    known = {*measure_parser()._option_string_actions, *parser_of("compare")._option_string_actions}
    said = {word for word in STEP["run"].split() if word.startswith("--")}
    assert said - {"--quiet", "--depth", "--detach"} <= known  # those are git's
