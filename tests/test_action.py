"""The action for others' projects, run as GitHub runs it, on a scratch repository of two commits."""

import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from helpers.places import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
STEP = ACTION["runs"]["steps"][-1]

ROOFWRIGHT = f"""#!/bin/sh
# The real commands, but they measure short sleeps or nothing
shift
echo "$(basename "$PWD") $*" >> "$CALLS"
case "$(basename "$PWD") $*" in "base "*--plan*mine:new*) exit 2;; esac
test "$NOT_MEASURED" = all && exit 0
test "$NOT_MEASURED" && test "$1" != compare && exit 0
exec {sys.executable} {ROOT / "benchmarks" / "sleeps.py"} "$@"
"""
GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C")


pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the action's steps are run by bash")


@pytest.fixture
def act(tmp_path):
    """Run the last step in a shallow clone of two commits, with these inputs; return the finished process."""
    origin, programs, temporary = tmp_path / "origin", tmp_path / "bin", tmp_path / "runner"
    for folder in (origin, programs, temporary):
        folder.mkdir()
    subprocess.run([*GIT, origin, "init", "--quiet", "--initial-branch", "main"], check=True)
    for text in ("first", "second"):
        (origin / "file").write_text(text)
        subprocess.run([*GIT, origin, "add", "."], check=True)
        subprocess.run([*GIT, origin, "commit", "--quiet", "--message", text], check=True)
    (programs / "roofwright").write_text(ROOFWRIGHT)
    (programs / "roofwright").chmod(0o755)

    def run(branch="main", **inputs):
        if branch != "main":
            subprocess.run([*GIT, origin, "switch", "--quiet", "--create", branch], check=True)
            subprocess.run([*GIT, origin, "commit", "--quiet", "--allow-empty", "--message", "third"], check=True)
            subprocess.run([*GIT, origin, "switch", "--quiet", "main"], check=True)
        clone = ["git", "clone", "--quiet", "--depth", "1", "--branch", branch, origin.as_uri(), tmp_path / "project"]
        subprocess.run(clone, check=True)
        variables = {name.replace("-", "_").upper(): each.get("default") for name, each in ACTION["inputs"].items()}
        head = [*GIT, origin, "rev-parse", "HEAD~1"]
        base = subprocess.run(head, capture_output=True, text=True, check=True).stdout
        variables |= {"MODELS": "alexnet vgg11", "BASE": base.strip(), "RUNNER_TEMP": str(temporary)} | inputs
        variables |= {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"), "CALLS": str(tmp_path / "calls.txt")}
        variables |= {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        for file in ("summary.md", "calls.txt"):
            (tmp_path / file).touch()
        command, project = ["bash", "-c", STEP["run"]], tmp_path / "project"
        return subprocess.run(command, cwd=project, env=os.environ | variables, capture_output=True, text=True)

    return run


@pytest.mark.parametrize(
    ("inputs", "code", "error"),
    [
        pytest.param({"REGRESSION": "900%", "ROUNDS": "2"}, 0, "", marks=pytest.mark.slow),
        ({"REGRESSION": "much", "NOT_MEASURED": "yes"}, 2, "--fail-on-regression: 'much'"),
    ],
)
def test_both_commits_are_measured_and_compared_in_the_summary(act, tmp_path, inputs, code, error):
    """It runs in a project's shallow clone, against the commit before its last."""
    done = act(**inputs)
    assert done.returncode == code, done.stderr
    assert error in done.stderr
    summary = (tmp_path / "summary.md").read_text()
    for model in ("alexnet", "vgg11") if code == 0 else ():
        assert f"| {model} | 1 | fp32 | inference | eager |" in summary
    if code == 0:
        assert "counts compared, exact: 0 grew, 0 shrank" in summary
        # Base and commit take turns, and in each round the other one begins
        order = re.findall(r"^(?:Measuring|Nothing left).*measured/(base|head)/", done.stdout, re.MULTILINE)
        assert order == ["base", "head", "head", "base"]
    assert summary in done.stdout
    assert (tmp_path / "runner/base/file").read_text() == "first"


@pytest.mark.parametrize("base", ["0" * 40, "12ab" * 10])
def test_new_branches_and_forced_pushes_use_the_default_branch(act, tmp_path, base):
    done = act(branch="topic", BASE=base, NOT_MEASURED="all", ROUNDS="1")
    assert done.returncode == 0, done.stderr
    assert "The base is the default branch" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "runner/base/file").read_text() == "second"
    assert "compare" in (tmp_path / "calls.txt").read_text()


def test_a_new_default_branch_has_nothing_to_compare_with(act, tmp_path):
    done = act(BASE="0" * 40, NOT_MEASURED="all")
    assert done.returncode == 0, done.stderr
    assert "nothing is compared" in (tmp_path / "summary.md").read_text()
    assert (tmp_path / "calls.txt").read_text() == ""


@pytest.mark.parametrize(("models", "on_base"), [("mine:new alexnet", 1), ("mine:new", 0)])
def test_a_model_that_the_base_lacks_is_measured_on_the_commit(act, tmp_path, models, on_base):
    done = act(MODELS=models, NOT_MEASURED="all", ROUNDS="1")
    assert done.returncode == 0, done.stderr
    assert "mine:new" in (tmp_path / "summary.md").read_text()
    calls = [line for line in (tmp_path / "calls.txt").read_text().splitlines() if "--plan" not in line]
    measured = {line.split()[0]: line for line in calls if " compare " not in line}
    assert f"--models {models} --max-rounds 1" in measured["project"]
    assert ("base" in measured) == (on_base == 1)
    assert "mine:new" not in measured.get("base", "")
    assert sum(" compare " in line for line in calls) == on_base


@pytest.mark.parametrize(
    "inputs",
    [
        {"ROUNDS": "a[$(touch injected)]"}, {"ROUNDS": "0"}, {"ROUNDS": "five"}, {"ROUNDS": ""},
        {"BASE": "--upload-pack=touch injected;"}, {"BASE": "+main:main"}, {"BASE": ""}, {"BASE": "no-such-branch"},
    ],
)  # fmt: skip
def test_an_input_that_is_no_number_or_name_is_refused_in_a_line(act, tmp_path, inputs):
    done = act(**inputs, NOT_MEASURED="all")
    assert done.returncode == 2
    (name,) = inputs
    assert re.search(rf"^::error::{name.lower()}: ", done.stderr, re.MULTILINE)
    assert not list(tmp_path.rglob("injected"))
    assert (tmp_path / "calls.txt").read_text() == ""


def test_the_installed_command_is_not_the_package_of_a_project(tmp_path):
    """``python -m measure`` in a project with a package of this name would run that one."""
    (tmp_path / "measure").mkdir()
    (tmp_path / "measure/__init__.py").write_text("raise SystemExit('a project of mine')")
    program = f"import sys; sys.path[0] = {str(ROOT)!r}; from roofwright.__main__ import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "measure", "--list"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "resnet18" in done.stdout
    assert "python -m measure" not in STEP["run"].replace("Not python -m measure", "")


def test_installed_packages_stay_and_the_rest_is_pinned(tmp_path):
    install = ACTION["runs"]["steps"][0]["run"]
    (tmp_path / "python").write_text(
        '#!/bin/sh\ncase "$*" in *list*) printf "torch==2.6.0\\npip==25.0\\n";; *) echo "$@" > pip.txt;; esac\n'
    )
    (tmp_path / "python").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    variables = os.environ | {"PATH": path, "RUNNER_TEMP": str(tmp_path), "GITHUB_ACTION_PATH": str(ROOT)}
    subprocess.run(["bash", "-c", install], cwd=tmp_path, env=variables, check=True)
    pinned = {line.partition("==")[0] for line in (tmp_path / "constraints.txt").read_text().splitlines()}
    assert "torch" not in pinned
    assert {"torchvision", "numpy", "psutil"} <= pinned
    assert "--constraint" in (tmp_path / "pip.txt").read_text()
