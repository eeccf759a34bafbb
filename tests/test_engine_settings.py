import pytest

from measure.errors import UserError
from report.engine.settings import DOCUMENT_SCHEMA, read_settings


def read(text, first_line=1):
    return read_settings(text, "_quarto.yml", first_line, DOCUMENT_SCHEMA)


def test_values():
    assert read("title: A\nformat:\n  html:\n    toc: true\n") == {
        "title": "A",
        "format": {"html": {"toc": True}},
    }


def test_nothing():
    assert read("") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title: A\nformat:\n  html:\n    minimal: true\n", "_quarto.yml:4: unknown key 'minimal'"),
        ("titel: A\n", "_quarto.yml:1: unknown key 'titel'"),
        ("title: A\nciteproc: false\n", "_quarto.yml:2: 'citeproc' must be true, not False"),
        ("number-sections: maybe\n", "_quarto.yml:1: 'number-sections' cannot be 'maybe'"),
        ("title: A\nformat: html\n", "_quarto.yml:2: expected a mapping of html, typst"),
        ("title: A\ntitle: [\n", "_quarto.yml:3: this is no valid YAML"),
    ],
)
def test_refusals(text, message):
    with pytest.raises(UserError) as error:
        read(text)
    assert str(error.value).startswith(message)


def test_lines_count_from_where_the_text_begins():
    with pytest.raises(UserError, match=r"^_quarto\.yml:6: unknown key"):
        read("title: A\nx: 1\n", first_line=5)
