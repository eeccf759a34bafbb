"""What every finding's text has to be."""

from report.analysis.available import Missing
from report.text.prose import Prose
from report.text.quantities import SPACE


def plain(text):
    """The text with ordinary spaces between numbers and units."""
    return text.replace(SPACE, " ")


def check_whole_sentences(text):
    """Fails where a finding's text is none, breaks off, or has a value that is no number."""
    assert isinstance(text, Prose)
    assert not isinstance(text, Missing)
    assert text.endswith(".")
    assert text[0].isupper() or text[0].isdigit()
    assert not {"nan", "None", "inf"} & set(plain(text).replace(",", " ").replace(".", " ").split())
