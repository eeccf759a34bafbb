"""README's own model: counted as README says, then in the paper's facts, in ``why`` and on the page."""

import json
import os
import re
import subprocess
import sys
from functools import partial

import pytest
from helpers.places import ROOT

from measure import __main__ as measure

README = (ROOT / "README.md").read_text("utf-8")


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """A folder with ``mine.py`` of the README and its counts."""
    code = re.search(r"(?s)```python\n(  # mine\.py.*?)  ```", README)[1]
    (tmp_path / "mine.py").write_text(re.sub("(?m)^  ", "", code))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert "--models mine:perceptron" in README
    assert measure.main(["--sections", "workload", "--models", "mine:perceptron"]) == 0
    return tmp_path


@pytest.mark.slow
def test_a_network_that_saves_nothing_has_facts_and_a_page(counted):
    # Programs of their own: a process keeps the commands of the first paper that it computes
    report = partial(subprocess.run, cwd=counted, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    command = [sys.executable, "-m", "report"]
    output = report([*command, "why", "training"], stdout=subprocess.PIPE, text=True).stdout
    # One linear layer saves no activation but its input, which is not counted: there is no share of it
    assert "training.memory.frozen_share: –" in output
    assert "inf" not in output.split()
    # The command that measures it again, from the reader's folder
    assert "--models mine:perceptron" in output
    assert str(counted) not in output
    report([*command, "--chapters", "training", "--formats", "html", "--engine", "embedded"])
    facts = json.loads((counted / "_site" / "facts.json").read_text("utf-8"), parse_constant=pytest.fail)
    assert facts["training.memory.frozen_share"]["value"] is None
    assert 'id="facts"' in (counted / "_site" / "index.html").read_text("utf-8")
    assert str(counted) not in json.dumps(facts)
