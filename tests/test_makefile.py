"""What `make gpu-check` runs, with a Python in the place of ours that says how it was called."""

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from helpers.places import ROOT

from measure.run.arguments import check_together, make_request, parse_time, parser

PLAYED = """#!/bin/sh
echo "$RIDGEPOINT_REQUIRE_GPU|$*"
test "$2" = measure.diagnosis.page
"""


@pytest.fixture
def gpu_check(tmp_path):
    """Runs it, of whose commands all fail but the last."""
    if shutil.which("make") is None:
        pytest.skip("no make on this machine")
    python = tmp_path / "python"
    python.write_text(PLAYED)
    python.chmod(0o755)
    there = [f"--assume-old=.venv/{stamp}" for stamp in (".test", ".report")]
    command = ["make", "--no-print-directory", *there, f"BIN={tmp_path}", "BUDGET=90s", "gpu-check"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


def test_tests_for_a_gpu_and_a_short_measurement_come_before_the_page_whatever_becomes_of_them(gpu_check):
    assert gpu_check.returncode == 0, gpu_check.stderr
    tests, measuring = gpu_check.stderr.splitlines()
    (page,) = gpu_check.stdout.splitlines()
    required, _, words = tests.partition("|")
    assert required == "1"
    *words, file = shlex.split(words)
    assert words == ["-m", "pytest", "-m", "gpu", "--junit-xml"]
    folder, name = file.rsplit("/", 1)
    assert name == "tests.xml"
    assert page.partition("|")[2] == f"-m measure.diagnosis.page {folder}"
    _, package, *flags = shlex.split(measuring.partition("|")[2])
    assert package == "measure"
    asked = parser().parse_args(flags)
    check_together(asked)
    assert (asked.device, str(asked.data), parse_time("--budget", asked.budget)) == ("cuda", f"{folder}/data", 90.0)
    assert set(make_request(asked).sections) == {"roofs", "inference", "training", "operators"}


def test_what_it_wrote_is_gone(gpu_check):
    folder = gpu_check.stdout.split()[-1]
    assert Path(folder).is_absolute()
    assert not Path(folder).exists()
