"""Papers for the tests: one from the tiny cache in tests/data, made for arithmetic by hand, and an empty one."""

from functools import cache
from pathlib import Path

from report.paper import Paper, load

TESTS = Path(__file__).parent
ROOT = TESTS.parent
REFERENCES = ROOT / "bib" / "references.bib"


@cache
def tiny() -> Paper:
    return load(TESTS / "data", REFERENCES)


@cache
def empty() -> Paper:
    return load(TESTS / "no-such-folder", REFERENCES)
