import sys

import faults
import harness
import misbehaving
import pytest


@pytest.mark.slow
def test_a_short_run_of_all_faults_fails_nowhere(capsys):
    assert faults.main(["--quick", "--seed", "3"]) == 0, capsys.readouterr().err


def test_a_crash_a_long_sentence_and_one_without_a_line_fail():
    def crash():
        raise ZeroDivisionError("float division by zero")

    def refuse(text):
        raise faults.UserError(text)

    for answer, problem in (
        (crash, "ZeroDivisionError: float division by zero"),
        (lambda: refuse("x" * 401), "401 characters"),
        (lambda: refuse("a cell"), "no line: a cell"),
    ):
        with pytest.raises(harness.Failure, match=problem):
            faults.end_of(answer, needs_line=True)
    assert faults.end_of(lambda: refuse("x.csv, line 7: a cell"), needs_line=True) == "refused"


def test_an_orphan_is_found_and_killed(tmp_path):
    sleeper = "[sys.executable, '-c', 'import time; time.sleep(600)']"
    words = [sys.executable, "-c", f"import subprocess, sys; subprocess.Popen({sleeper})"]
    with harness.Command(words, tmp_path) as command:
        assert command.ends_within(60)
        with pytest.raises(harness.Failure, match="1 processes"):
            command.check_it_is_gone(0.0)
    command.check_it_is_gone(10.0)


def test_tries_are_counted_by_kind(capsys):
    def fail(_):
        raise harness.Failure("no")

    assert harness.count([("a", lambda _: "done"), ("a", fail), ("b", lambda _: "refused")]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines()[2:] == ["| a | 2 | 1 done | 1 |", "| b | 1 | 1 refused | 0 |"]
    assert printed.err == "  1 times: no\n"


@pytest.mark.slow
def test_own_models_that_misbehave_are_refused_or_become_rows(capsys):
    code = misbehaving.main(["--models", "raises", "segfaults", "leaves a child"])
    printed = capsys.readouterr()
    assert code == 0, printed
    assert "| raises | 1 | 1 refused | 0 |" in printed.out
