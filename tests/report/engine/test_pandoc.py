import pytest

from measure.errors import UserError
from report.engine.pandoc import PandocError, plain_text, run_pandoc, string, transform


def test_it_converts(tmp_path):
    assert run_pandoc(["--from=markdown", "--to=html"], "*a*", tmp_path) == "<p><em>a</em></p>\n"


def test_a_warning_is_an_error(tmp_path):
    with pytest.raises(PandocError, match="never closed") as error:
        run_pandoc(["--from=markdown", "--to=html"], "a\n\n::: {.x}\nb\n", tmp_path)
    assert error.value.line == 3


def test_an_unknown_citation_has_its_key(tmp_path):
    with pytest.raises(PandocError) as error:
        run_pandoc(["--from=markdown", "--to=html", "--citeproc"], "[@nobody1999]", tmp_path)
    assert error.value.piece == "@nobody1999"


def test_a_failure(tmp_path):
    with pytest.raises(UserError, match=r"pandoc stops: .*none"):
        run_pandoc(["--bibliography=none.bib", "--citeproc"], "a", tmp_path)


def test_transform_goes_through_a_document_in_order():
    tree = [{"t": "Para", "c": [string("a"), {"t": "Emph", "c": [string("b")]}]}, string("c")]
    seen = []

    def change(element):
        seen.append(element["t"])
        if element.get("c") == "b":
            return [string("x"), string("y")]
        return [] if element.get("c") == "c" else None

    changed = transform(tree, change)
    assert seen == ["Para", "Str", "Emph", "Str", "Str"]
    assert changed == [{"t": "Para", "c": [string("a"), {"t": "Emph", "c": [string("x"), string("y")]}]}]
    assert tree[1] == string("c")


def test_plain_text():
    code = {"t": "Code", "c": [["", [], []], "x = 1"]}
    assert plain_text([string("a"), {"t": "Space"}, {"t": "Strong", "c": [string("b")]}, code]) == "a bx = 1"
