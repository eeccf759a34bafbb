"""The commands of ``make``, with a Python in the place of ours that prints its arguments."""

import shlex
import shutil
import subprocess

import pytest
from helpers.places import ROOT

from measure.verbs.run_flags import check_together, parser

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")


def make(*words):
    """Run make as if everything were installed."""
    command = ["make", "--no-print-directory", "--assume-old=.venv/.test", "--assume-old=.venv/.report", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(("tests", "measuring", "fails"), [(0, 0, False), (1, 0, True), (0, 2, True)])
def test_gpu_check_tests_and_measures_and_fails_if_either_fails(tmp_path, tests, measuring, fails):
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
    parsed = parser().parse_args(flags)
    check_together(parsed)
    assert (package, parsed.device, parsed.budget) == ("measure", "cuda", 90)


@pytest.mark.parametrize("author", ["Jane Doe", """O'Neil "<b>" $HOME `id` 山田 #1""", ""])
def test_report_takes_the_author_as_it_is_typed(tmp_path, author):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\necho "$2|$ROOFWRIGHT_AUTHOR|$ROOFWRIGHT_MADE_BY"\n')
    python.chmod(0o755)
    done = make(f"BIN={tmp_path}", f"AUTHOR={author}", "BUDGET=90s", "report")
    again = f" AUTHOR='{author}'" if author else ""
    assert done.stdout.splitlines() == [f"measure|{author}|make report BUDGET=90s{again}", f"report|{author}|"]
