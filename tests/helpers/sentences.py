"""What every finding's and table's text has to be, and what it says."""

from report.analysis.available import Missing

from measure.domain.values import SPACE
from report.markdown import Prose


def plain(text):
    """The text with ordinary spaces between numbers and units."""
    return text.replace(SPACE, " ")


def check_whole_sentences(text):
    """Fails where a finding's text is none, breaks off, or has a value that is no number."""
    assert isinstance(text, Prose)
    assert not isinstance(text, Missing)
    assert text.endswith(".")
    assert text[0].isupper() or text[0].isdigit()
    check_no_gap(text)


def check_no_gap(text):
    """Fails where a text or table has a value that is no number."""
    assert not {"nan", "None", "inf"} & set(plain(text).replace(",", " ").replace(".", " ").split())


def cells(table):
    """The rows of a pipe table, below its rule."""
    return [[cell.strip().replace(SPACE, " ") for cell in line[2:-2].split(" | ")] for line in table.splitlines()[2:]]
