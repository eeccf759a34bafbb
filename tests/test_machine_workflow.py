"""The workflow that takes a machine from an issue, its scripts run as GitHub runs them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from helpers.places import ROOT
from helpers.rows import machine_in

from measure.__main__ import main

JOBS = yaml.safe_load((ROOT / ".github" / "workflows" / "machine.yml").read_text("utf-8"))["jobs"]
CHECK, ANSWER = (
    next(step["run"] for step in JOBS[job]["steps"] if step.get("name") == name)
    for job, name in (("check", "Add the machine"), ("answer", "Open the pull request"))
)
FORM = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "machine.yml").read_text("utf-8"))
URL = "https://github.com/user-attachments/files/123/box.zip"
GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.org")


def test_the_form_carries_the_label_that_starts_the_workflow():
    assert FORM["labels"] == ["machine"]
    assert "'machine'" in JOBS["check"]["if"]
    assert next(field for field in FORM["body"] if field.get("id") == "zip")["validations"]["required"]


def test_only_the_job_that_reads_nothing_unchecked_may_write():
    assert JOBS["check"]["permissions"] == {"contents": "read"}


BOT = "41898282+github-actions[bot]@users.noreply.github.com"
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="the steps are run by bash")


@needs_bash
def test_a_strangers_text_stays_indented_and_is_cut(tmp_path):
    """A carriage return ends a line in Markdown, and the text after it would be Markdown."""
    (tmp_path / "answer").mkdir()
    (tmp_path / "answer/said.txt").write_bytes(b"Added x\r@everyone\x1b[31m\n" + "é".encode() * 100_000)
    (tmp_path / "gh").write_text("#!/bin/sh\ntrue\n")
    (tmp_path / "gh").chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    variables = os.environ | {"PATH": path, "ISSUE": "7", "IS_SOUND": "", "GH_TOKEN": "", "GITHUB_REPOSITORY": ""}
    subprocess.run(["bash", "-c", ANSWER], cwd=tmp_path, env=variables, check=True)
    comment = (tmp_path / "answer/comment.md").read_bytes().decode()
    assert len(comment) < 65_536
    title, _, *lines = comment.splitlines()
    assert title == "What add-machine says:"
    assert len(lines) == 2
    assert lines[0] == "    Added x@everyone[31m"
    assert lines[1].startswith("    éé")


@needs_bash
@pytest.mark.parametrize(
    ("body", "is_sound", "answer"),
    [
        (f"[box.zip]({URL})\n\nA laptop.", True, "Added Chip, of 2 cores"),
        ("no file", False, "There is no zip in this issue"),
        (f"{URL} $(touch injected) `touch injected`", True, "Added Chip, of 2 cores"),
        (f"bad {URL.replace('box', 'bad')}", False, "cannot be read"),
        (URL.replace("github.com", "example.org"), False, "There is no zip in this issue"),
    ],
)
def test_a_zip_in_an_issue_becomes_a_pull_request(tmp_path, body, is_sound, answer):
    origin, checked, clone, programs, sent = (tmp_path / name for name in ("origin", "check", "clone", "bin", "sent"))
    programs.mkdir()
    sent.mkdir()
    machine_in(sent / "data/machines/box")
    assert main(["pack", str(sent / "box.zip"), "--data", str(sent / "data")]) == 0
    (sent / "bad.zip").write_text("not a zip")
    for name, script in {
        "python": f'exec {sys.executable} "$@"',
        "curl": f'for word; do last=$word; done; cp "{sent}/$(basename "$last")" machine.zip',
        "gh": f'echo "$@" >> {tmp_path}/gh.txt; case "$*" in "pr view"*) exit 1;; esac',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    subprocess.run([*GIT, "init", "--quiet", "--initial-branch", "main", origin], check=True)
    (origin / "data/machines").mkdir(parents=True)
    (origin / "data/machines/README").write_text("machines")
    subprocess.run([*GIT, "-C", origin, "add", "."], check=True)
    subprocess.run([*GIT, "-C", origin, "commit", "--quiet", "--message", "first"], check=True)
    for folder in (checked, clone):
        subprocess.run([*GIT, "clone", "--quiet", origin, folder], check=True)
    output = tmp_path / "output"
    output.touch()
    variables = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "BODY": body,
        "GITHUB_OUTPUT": str(output), "ISSUE": "7", "GH_TOKEN": "token", "GITHUB_REPOSITORY": "ada/roofwright",
        "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_VALUE_0": "https://x-access-token:token@github.com/ada/roofwright",
        "GIT_CONFIG_KEY_0": f"url.{origin}.insteadOf",
    }  # fmt: skip
    subprocess.run(["bash", "-c", CHECK], cwd=checked, env=variables, check=True)
    assert answer in (checked / "answer/said.txt").read_text()
    assert ("is_sound=yes" in output.read_text()) == is_sound
    assert not list(tmp_path.rglob("injected"))
    shutil.copytree(checked / "answer", clone / "answer")
    variables["IS_SOUND"] = "yes" if is_sound else ""
    subprocess.run(["bash", "-c", ANSWER], cwd=clone, env=variables, check=True)
    if is_sound:  # once more, for an edited issue, and again after a maintainer's commit
        for author, stays in ((BOT, False), ("ada@example.org", True)):
            amend = ["commit", "--quiet", "--amend", "--message", "x", f"--author=Ada <{author}>"]
            subprocess.run([*GIT, "-C", origin, "switch", "--quiet", "machine-7"], check=True)
            subprocess.run([*GIT, "-C", origin, *amend], check=True)
            subprocess.run([*GIT, "-C", origin, "switch", "--quiet", "main"], check=True)
            again = tmp_path / author
            subprocess.run([*GIT, "clone", "--quiet", origin, again], check=True)
            shutil.copytree(checked / "answer", again / "answer")
            subprocess.run(["bash", "-c", ANSWER], cwd=again, env=variables, check=True)
            log = [*GIT, "-C", origin, "log", "-1", "--format=%s", "machine-7"]
            subject = subprocess.run(log, capture_output=True, text=True, check=True).stdout.strip()
            assert (subject == "x") == stays
            assert ("maintainer's commits" in (again / "answer/comment.md").read_text()) == stays
    listed = subprocess.run([*GIT, "-C", origin, "branch", "--list"], capture_output=True, text=True).stdout
    assert ("machine-7" in listed) == is_sound
    calls = (tmp_path / "gh.txt").read_text()
    assert ("pr create" in calls) == is_sound
    assert "issue comment 7" in calls
    if is_sound:
        names = subprocess.run(
            [*GIT, "-C", origin, "diff", "--name-only", "main", "machine-7"], capture_output=True, text=True, check=True
        ).stdout.split()
        assert "data/machines/box/runs.csv" in names
        assert {Path(name).parent.as_posix() for name in names} == {"data/machines/box"}
