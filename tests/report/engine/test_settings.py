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
    assert read("roofwright:\n  chapters: [chips]\n  machines: [a, b]\n  figure-width: 400\n") == {"roofwright": own}
    assert read("roofwright:\n  # nothing\n") == {"roofwright": None}


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
            "roofwright:\n  figure-width: 300\n",
            "_quarto.yml:2: 'figure-width' must be a whole number from 400 to 1200, not",
        ),
        (
            "roofwright:\n  figure-width: wide\n",
            "_quarto.yml:2: 'figure-width' must be a whole number from 400 to 1200, not",
        ),
        (
            "roofwright:\n  figure-width: 560.5\n",
            "_quarto.yml:2: 'figure-width' must be a whole number from 400 to 1200, not",
        ),
        (
            "roofwright:\n  chapters: chips\n",
            "_quarto.yml:2: 'chapters' must be a list of names, such as [a, b], not 'chips'",
        ),
        ("roofwright:\n  machines: []\n", "_quarto.yml:2: 'machines' must be a list of names, such as [a, b], not []"),
        (
            "roofwright:\n  machines: [1]\n",
            "_quarto.yml:2: 'machines' must be a list of names, such as [a, b], not [1]",
        ),
        (
            "roofwright:\n  machine: [a]\n",
            "_quarto.yml:2: unknown key 'machine'; known here are chapters, machines, models, figure-width",
        ),
        (
            "roofwright: [a]\n",
            "_quarto.yml:1: expected a mapping of chapters, machines, models, figure-width, found ['a']",
        ),
    ],
)
def test_refusals(text, message):
    with pytest.raises(UserError) as error:
        read(text)
    assert str(error.value).startswith(message)


def test_lines_count_from_where_the_text_begins():
    with pytest.raises(UserError, match=r"^_quarto\.yml:6: unknown key"):
        read("title: A\nx: 1\n", first_line=5)


def test_what_quarto_alone_knows_is_told_and_passed_over():
    text = (
        "title: A\nabstract: B\ntitel: C\nformat:\n  html:\n    theme: cosmo\n    toc: true\n  typst: default\n"
        "  pdf: default\nproject:\n  resources: [a]\n"
    )
    told = []
    held = read_settings(text, "_quarto.yml", 1, DOCUMENT_SCHEMA, told)
    assert held == {"title": "A", "format": {"html": {"toc": True}, "typst": None}, "project": {}}
    assert told == [
        "_quarto.yml:2: the embedded engine cannot honour 'abstract'",
        "_quarto.yml:3: the embedded engine cannot honour 'titel'; did you mean title?",
        "_quarto.yml:6: the embedded engine cannot honour 'theme', which must be default or none, not 'cosmo'",
        "_quarto.yml:9: the embedded engine cannot honour 'pdf'",
        "_quarto.yml:11: the embedded engine cannot honour 'resources'",
    ]


@pytest.mark.parametrize("text", ["roofwright:\n  chapter: [a]\n", "number-sections: maybe\n", "citeproc: false\n"])
def test_what_neither_engine_takes_is_refused(text):
    with pytest.raises(UserError, match=r"^_quarto\.yml:\d: "):
        read_settings(text, "_quarto.yml", 1, DOCUMENT_SCHEMA, [])


@pytest.mark.parametrize("name", ["../../evil.pdf", "a/b.pdf", "/tmp/evil.pdf", "..", ".", "", "a\\\\b.pdf"])
def test_an_output_file_is_a_name(name):
    with pytest.raises(UserError, match=r"^_quarto\.yml:3: 'output-file' must be the name of a file, without a folder"):
        read(f'format:\n  typst:\n    output-file: "{name}"\n')


@pytest.mark.parametrize("length", ["27mm) #read(1", "27", "wide"])
def test_a_margin_is_a_length(length):
    assert read("format:\n  typst:\n    margin:\n      x: 1.5cm\n") == {"format": {"typst": {"margin": {"x": "1.5cm"}}}}
    with pytest.raises(UserError, match=r"^_quarto\.yml:4: 'x' must be a length such as 27mm, not "):
        read(f'format:\n  typst:\n    margin:\n      x: "{length}"\n')


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("title: A\ntitle: B\n", "_quarto.yml:2: the key 'title'"),
        ("format:\n  html:\n    toc: true\n    css: a\n    toc: false\n", "_quarto.yml:5: the key 'toc'"),
        ("author:\n  - name: A\n    name: B\n", "_quarto.yml:3: the key 'name'"),
    ],
)
def test_a_key_that_stands_twice_is_refused(text, place):
    with pytest.raises(UserError) as error:
        read(text)
    assert str(error.value) == f"{place} stands here a second time; delete one of the two"


def test_the_same_key_in_two_mappings_and_an_alias_within_itself_are_fine():
    assert read("format:\n  html:\n    css: a\n  typst:\n    output-file: b\n")["format"]["html"] == {"css": "a"}
    (author,) = read("author: &a [*a]\n")["author"]
    assert author[0] is author


def test_nesting_that_cannot_be_read():
    with pytest.raises(UserError, match=r"^_quarto\.yml: this YAML is nested too deeply to be read"):
        read(f"title: {'[' * 3000}{']' * 3000}\n")
