"""Papers for the tests, from the tiny cache in tests/data, made for arithmetic by hand, and an empty one."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import pandas as pd

from report import bibliography, chips
from report.paper import Paper, load

TESTS = Path(__file__).parent
ROOT = TESTS.parent
REFERENCES = ROOT / "bib" / "references.bib"


@cache
def tiny() -> Paper:
    return load(TESTS / "data", REFERENCES)


@cache
def wide() -> Paper:
    """The tiny paper with more chips: generations of product lines, and chips at several precisions."""
    more = chips.read(TESTS / "data" / "more-chips.csv", bibliography.read_keys(REFERENCES))
    return replace(tiny(), chips=pd.concat([tiny().chips, more], ignore_index=True))


@cache
def committed_chips() -> pd.DataFrame:
    return chips.read(ROOT / "data" / "chips.csv", bibliography.read_keys(REFERENCES))


@cache
def empty() -> Paper:
    return load(TESTS / "no-such-folder", REFERENCES)
