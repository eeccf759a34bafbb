"""The action for others' projects, run as GitHub runs it, on a scratch repository of two commits."""

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from helpers.places import ROOT, TESTS

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEP = ACTION["runs"]["steps"][-1]

PYTHON = f"""#!/bin/sh
# The real commands, where nothing is measured but short sleeps, or nothing at all
shift 2
test "$NOT_MEASURED" && test "$1" != compare && exit 0
exec {sys.executable} {TESTS / "helpers" / "measurement.py"} "$@"
"""
GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C")


@pytest.mark.skipif(shutil.which("bash") is None, reason="the action's steps are run by bash")
@pytest.mark.parametrize(
    ("inputs", "code", "said"),
    [
        pytest.param({"REGRESSION": "900%", "ROUNDS": "2"}, 0, "", marks=pytest.mark.slow),
        ({"REGRESSION": "much", "NOT_MEASURED": "yes"}, 2, "--fail-on-regression: 'much'"),
    ],
)
def test_both_commits_are_measured_and_their_comparison_is_the_summary(tmp_path, inputs, code, said):
    """It runs in a project's shallow clone, against the commit before its last."""
    origin, programs, temporary = tmp_path / "origin", tmp_path / "bin", tmp_path / "runner"
    for folder in (origin, programs, temporary):
        folder.mkdir()
    subprocess.run([*GIT, origin, "init", "--quiet", "--initial-branch", "main"], check=True)
    for text in ("first", "second"):
        (origin / "file").write_text(text)
        subprocess.run([*GIT, origin, "add", "."], check=True)
        subprocess.run([*GIT, origin, "commit", "--quiet", "--message", text], check=True)
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", origin.as_uri(), tmp_path / "project"], check=True)
    (programs / "python").write_text(PYTHON)
    (programs / "python").chmod(0o755)
    variables = {name.replace("-", "_").upper(): said.get("default") for name, said in ACTION["inputs"].items()}
    base = subprocess.run([*GIT, origin, "rev-parse", "HEAD~1"], capture_output=True, text=True, check=True).stdout
    variables |= inputs | {
        "MODELS": "alexnet vgg11", "BASE": base.strip(), "RUNNER_TEMP": str(temporary),
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    command, project = ["bash", "-c", STEP["run"]], tmp_path / "project"
    done = subprocess.run(command, cwd=project, env=os.environ | variables, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    summary = (tmp_path / "summary.md").read_text()
    for model in ("alexnet", "vgg11") if code == 0 else ():
        assert f"| {model} | 1 | fp32 | inference | eager |" in summary
    if code == 0:
        assert "counts compared, exact: 0 grew, 0 shrank" in summary
        # Base and commit take turns, and in each round the other one begins
        order = re.findall(r"^(?:Measuring|Nothing left).*measured/(base|head)/", done.stdout, re.MULTILINE)
        assert order == ["base", "head", "head", "base"]
    assert summary in done.stdout
    assert (temporary / "base" / "file").read_text() == "first"
