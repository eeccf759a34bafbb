"""What `make gpu-check` runs, with a Python in the place of ours that says how it was called."""

import shlex
import shutil
import subprocess

import pytest
from helpers.places import ROOT

from measure.verbs.flags import parse_time
from measure.verbs.measure import check_together, make_request, parser


def gpu_check(folder, tests, measuring):
    """Run it with a Python whose pytest and measurement end with these exit codes."""
    if shutil.which("make") is None:
        pytest.skip("no make on this machine")
    python = folder / "python"
    python.write_text(
        f'#!/bin/sh\necho "$ROOFWRIGHT_REQUIRE_GPU|$*"\ntest "$2" = pytest && exit {tests}\nexit {measuring}\n'
    )
    python.chmod(0o755)
    there = [f"--assume-old=.venv/{stamp}" for stamp in (".test", ".report")]
    command = ["make", "--no-print-directory", *there, f"BIN={folder}", "BUDGET=90s", "gpu-check"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize("tests", [0, 1])
def test_it_runs_the_tests_for_a_gpu_and_then_a_short_measurement(tmp_path, tests):
    ran, measured = gpu_check(tmp_path, tests, 0).stdout.splitlines()
    assert ran == "1|-m pytest -m gpu"
    _, package, *flags = shlex.split(measured.partition("|")[2])
    assert package == "measure"
    asked = parser().parse_args(flags)
    check_together(asked)
    assert (asked.device, parse_time("--budget", asked.budget)) == ("cuda", 90.0)
    assert make_request(asked).sections


@pytest.mark.parametrize(("tests", "measuring", "fails"), [(0, 0, False), (1, 0, True), (0, 2, True), (1, 2, True)])
def test_it_fails_if_either_fails(tmp_path, tests, measuring, fails):
    assert bool(gpu_check(tmp_path, tests, measuring).returncode) == fails
