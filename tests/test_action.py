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
# The real commands, where nothing is measured but short sleeps, or nothing at all
shift 2
test "$NOT_MEASURED" && test "$1" != compare && exit 0
exec {sys.executable} {TESTS / "helpers" / "measurement.py"} "$@"
"""

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the action's steps are run by bash")


def git(folder, *words):
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    done = subprocess.run(["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def run(tmp_path):
    """Runs the step in a project's shallow clone, against the commit before its last."""
    origin, programs, temporary = tmp_path / "origin", tmp_path / "bin", tmp_path / "runner"
    for folder in (origin, programs, temporary):
        folder.mkdir()
    git(origin, "init", "--quiet", "--initial-branch", "main")
    for text in ("first", "second"):
        (origin / "file").write_text(text)
        git(origin, "add", ".")
        git(origin, "commit", "--quiet", "--message", text)
    git(tmp_path, "clone", "--quiet", "--depth", "1", f"file://{origin}", "project")
    (programs / "python").write_text(PYTHON)
    (programs / "python").chmod(0o755)
    defaults = {name.replace("-", "_").upper(): said.get("default") for name, said in ACTION["inputs"].items()}
    variables = {
        **os.environ, **defaults, "MODELS": "alexnet vgg11", "BASE": git(origin, "rev-parse", "HEAD~1"),
        "RUNNER_TEMP": str(temporary), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip

    def run(**inputs):
        command = ["bash", "-c", STEP["run"]]
        environment = {**variables, **inputs}
        return subprocess.run(command, cwd=tmp_path / "project", env=environment, capture_output=True, text=True)

    return run


@pytest.mark.slow
def test_both_commits_are_measured_and_their_comparison_is_the_summary(run, tmp_path):
    done = run(REGRESSION="900%")
    assert done.returncode == 0, done.stderr
    summary = (tmp_path / "summary.md").read_text()
    for model in ("alexnet", "vgg11"):
        assert f"| {model} | 1 | fp32 | inference | eager |" in summary
    assert summary in done.stdout
    assert (tmp_path / "runner" / "base" / "file").read_text() == "first"


def test_what_the_comparison_refuses_fails_the_job(run):
    done = run(REGRESSION="much", NOT_MEASURED="yes")
    assert (done.returncode, "--fail-on-regression: 'much'" in done.stderr) == (2, True)


def test_every_input_is_a_variable_of_the_step_and_no_text_of_its_script():
    assert "${{" not in STEP["run"]
    assert {f"${{{{ inputs.{name} }}}}" for name in ACTION["inputs"]} == set(STEP["env"].values())


def test_its_flags_are_those_of_the_commands():
    known = {*measure_parser()._option_string_actions, *parser_of("compare")._option_string_actions}
    said = {word for word in STEP["run"].split() if word.startswith("--")}
    assert said - {"--quiet", "--depth", "--detach"} <= known  # those are git's
