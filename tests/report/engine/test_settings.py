import pytest

from measure.errors import UserError
from report.engine.settings import DOCUMENT_SCHEMA, read_settings


def read(text, first_line=1):
    return read_settings(text, "_quarto.yml", first_line, DOCUMENT_SCHEMA)


def test_values():
    assert read("title: A\nformat:\n  html:\n    toc: true\n") == {"title": "A", "format": {"html": {"toc": True}}}


def test_nothing():
    assert read("") == {}


def test_what_is_the_papers_own():
    own = {"chapters": ["chips"], "machines": ["a", "b"], "figure-width": 400}
    assert read("ridgepoint:\n  chapters: [chips]\n  machines: [a, b]\n  figure-width: 400\n") == {"ridgepoint": own}
    assert read("ridgepoint:\n  # nothing\n") == {"ridgepoint": None}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title: A\nformat:\n  html:\n    minimal: true\n", "_quarto.yml:4: unknown key 'minimal'"),
        ("titel: A\n", "_quarto.yml:1: unknown key 'titel'"),
        ("title: A\nciteproc: false\n", "_quarto.yml:2: 'citeproc' must be true, not False"),
        ("number-sections: maybe\n", "_quarto.yml:1: 'number-sections' cannot be 'maybe'"),
        ("title: A\nformat: html\n", "_quarto.yml:2: expected a mapping of html, typst"),
        ("title: A\ntitle: [\n", "_quarto.yml:3: this is not valid YAML"),
        (
            "ridgepoint:\n  figure-width: 300\n",
            "_quarto.yml:2: 'figure-width' must be a whole number from 400 to 1200, not",
        ),
        (
            "ridgepoint:\n  figure-width: wide\n",
            "_quarto.yml:2: 'figure-width' must be a whole number from 400 to 1200, not",
        ),
        (
            "ridgepoint:\n  figure-width: 560.5\n",
            "_quarto.yml:2: 'figure-width' must be a whole number from 400 to 1200, not",
        ),
        (
            "ridgepoint:\n  chapters: chips\n",
            "_quarto.yml:2: 'chapters' must be a list of names, such as [a, b], not 'chips'",
        ),
        ("ridgepoint:\n  machines: []\n", "_quarto.yml:2: 'machines' must be a list of names, such as [a, b], not []"),
        (
            "ridgepoint:\n  machines: [1]\n",
            "_quarto.yml:2: 'machines' must be a list of names, such as [a, b], not [1]",
        ),
        (
            "ridgepoint:\n  machine: [a]\n",
            "_quarto.yml:2: unknown key 'machine'; known here are chapters, machines, figure-width",
        ),
        ("ridgepoint: [a]\n", "_quarto.yml:1: expected a mapping of chapters, machines, figure-width, found ['a']"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(UserError) as error:
        read(text)
    assert str(error.value).startswith(message)


def test_lines_count_from_where_the_text_begins():
    with pytest.raises(UserError, match=r"^_quarto\.yml:6: unknown key"):
        read("title: A\nx: 1\n", first_line=5)
