"""A trace of given events, summarised."""

import pytest
from helpers.traces import trace, write

from measure.traces.reading import read
from measure.traces.summary import summarise


@pytest.fixture
def summary(tmp_path):
    return lambda *events, **header: summarise(*read(write(tmp_path / "t.json", trace(*events, **header))))
