import gc
import os
import subprocess
import sys

import pytest

from report import without_garbage_search
from report.failures import in_environment


def test_the_environment_is_put_back(monkeypatch):
    monkeypatch.setenv("ROOFWRIGHT_MACHINES", "a")
    monkeypatch.delenv("ROOFWRIGHT_CHAPTERS", raising=False)
    with in_environment({"ROOFWRIGHT_MACHINES": "b", "ROOFWRIGHT_CHAPTERS": "c"}):
        assert (os.environ["ROOFWRIGHT_MACHINES"], os.environ["ROOFWRIGHT_CHAPTERS"]) == ("b", "c")
    assert os.environ["ROOFWRIGHT_MACHINES"] == "a"
    assert "ROOFWRIGHT_CHAPTERS" not in os.environ


def test_a_process_that_is_started_within_has_it_too():
    with in_environment({"ROOFWRIGHT_CHAPTERS": "c"}):
        script = "import os; print(os.environ['ROOFWRIGHT_CHAPTERS'])"
        assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout == "c\n"


@pytest.mark.parametrize("searched", [True, False])
def test_the_search_for_garbage_pauses_and_is_on_or_off_as_it_was(searched):
    before = gc.get_threshold()
    gc.set_threshold(700)
    (gc.enable if searched else gc.disable)()
    try:
        with without_garbage_search():
            assert not gc.isenabled()
        assert gc.isenabled() == searched
        assert gc.get_threshold()[0] > 700
    finally:
        gc.enable()
        gc.unfreeze()
        gc.set_threshold(*before)
