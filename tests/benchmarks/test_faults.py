import faults
import misbehaving
import pytest


@pytest.mark.slow
def test_a_short_run_of_all_faults_fails_nowhere(capsys):
    assert faults.main(["--quick", "--seed", "3"]) == 0, capsys.readouterr().err


def test_a_crash_and_a_long_sentence_count_as_failures():
    def crash():
        raise ZeroDivisionError("float division by zero")

    def speak():
        raise faults.UserError("x" * 401)

    assert faults.sentence_of(crash) == ("", "ZeroDivisionError: float division by zero")
    assert faults.sentence_of(speak)[1] == "401 characters"


@pytest.mark.slow
def test_own_models_that_misbehave_are_refused_or_become_rows(capsys):
    code = misbehaving.main(["--models", "raises", "recurs", "segfaults", "leaves a child"])
    said = capsys.readouterr().out
    assert code == 0, said
    assert said.startswith("raises: refused")
