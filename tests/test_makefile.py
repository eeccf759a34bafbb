"""What ``make`` runs, with a Python in the place of ours that says how it was called."""

import shlex
import shutil
import subprocess

import pytest
from helpers.places import ROOT

from measure.verbs.flags import parse_time
from measure.verbs.measure import check_together, make_request, parser

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
THERE = [f"--assume-old=.venv/{stamp}" for stamp in (".test", ".report")]
"""What make would otherwise install."""


def make(*words):
    command = ["make", "--no-print-directory", *THERE, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("tests", "measuring", "fails"), [(0, 0, False), (1, 0, True), (0, 2, True), (1, 2, True)])
def test_gpu_check_runs_the_tests_for_a_gpu_and_measures_and_fails_if_either_fails(tmp_path, tests, measuring, fails):
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\necho "$ROOFWRIGHT_REQUIRE_GPU|$*"\ntest "$2" = pytest && exit {tests}\nexit {measuring}\n'
    )
    python.chmod(0o755)
    done = make(f"BIN={tmp_path}", "BUDGET=90s", "gpu-check")
    assert bool(done.returncode) == fails
    ran, measured = done.stdout.splitlines()
    assert ran == "1|-m pytest -m gpu"
    _, package, *flags = shlex.split(measured.partition("|")[2])
    assert package == "measure"
    asked = parser().parse_args(flags)
    check_together(asked)
    assert (asked.device, parse_time("--budget", asked.budget)) == ("cuda", 90.0)
    assert make_request(asked).sections


@pytest.mark.parametrize(
    ("words", "made_by", "budget"), [(["BUDGET=20m"], "make report BUDGET=20m", "20m"), ([], "make report", "3m")]
)
def test_report_measures_for_its_budget_and_installs_nothing_again(words, made_by, budget):
    made = make("--dry-run", "report", *words).stdout
    assert "bootstrap.py" not in made
    assert f'ROOFWRIGHT_MADE_BY="{made_by}"' in made
    assert f"-m measure --quick --budget {budget}" in made


@pytest.mark.parametrize(("target", "chooses"), [("test", True), ("test-all", False)])
def test_the_slow_tests_run_with_all_others_alone(target, chooses):
    assert ("-m 'not slow'" in make("--dry-run", target).stdout) == chooses
