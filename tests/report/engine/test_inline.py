import pytest

from measure.errors import UserError
from report.engine.execution import as_markdown, with_values
from report.engine.jupyter_kernel import CellError
from report.engine.source import Line

LINE = Line("text", "a.qmd", 7)


class Values:
    """A Jupyter kernel that knows the values of some expressions."""

    def __init__(self, **values):
        self.values = values

    def evaluate(self, expression):
        if expression not in self.values:
            raise CellError(f"NameError: name '{expression}' is not defined")
        return {"text/plain": repr(self.values[expression])}


def texts(text, listing=False, **values):
    lines = [Line(line, "a.qmd", number) for number, line in enumerate(text.split("\n"), 7)]
    return [with_values(line, listing, Values(**values)).text for line in lines]


def test_values_stand_in_their_places():
    assert texts("a `{python} n` b `{python} m`, `code`\nnone", n=24, m=3) == ["a 24 b 3, `code`", "none"]


def test_a_listing_is_left_alone():
    assert texts("print(`x`)", listing=True) == ["print(`x`)"]


# Quarto takes a string's repr, drops its quotes and escapes these characters and no others.
@pytest.mark.parametrize(
    ("value", "markdown"),
    [
        ("3.14", r"3\.14"),
        ("a*b_c", r"a\*b\_c"),
        ("(1,2)-[3]", r"\(1\,2\)\-\[3\]"),
        ("10^9^ H~2~O", "10^9^ H~2~O"),
        ("it's", "it's"),
        ("5 × 10", "5 × 10"),
    ],
)
def test_strings_are_escaped(value, markdown):
    assert as_markdown({"text/plain": repr(value)}, "x", LINE) == markdown


@pytest.mark.parametrize(("value", "markdown"), [(-3.5, "-3.5"), ([1, 2], "[1, 2]"), (None, "None")])
def test_other_values_are_their_repr(value, markdown):
    assert as_markdown({"text/plain": repr(value)}, "x", LINE) == markdown


def test_markdown_stays_markdown():
    value = {"text/markdown": "**5\u00a0%**", "text/plain": "<IPython.core.display.Markdown object>"}
    assert as_markdown(value, "x", LINE) == "**5\u00a0%**"


@pytest.mark.parametrize("value", ["a\\b", "5\u00a0%", "'\""])
def test_texts_that_quarto_garbles_are_refused(value):
    with pytest.raises(UserError, match=r"^a\.qmd:7: .*return IPython\.display\.Markdown"):
        as_markdown({"text/plain": repr(value)}, "x", LINE)


def test_an_empty_text_is_refused():
    with pytest.raises(UserError, match=r"^a\.qmd:7: `x` is an empty text"):
        as_markdown({"text/plain": "''"}, "x", LINE)


def test_html_is_refused():
    with pytest.raises(UserError, match=r"^a\.qmd:7: `x` is HTML"):
        as_markdown({"text/plain": "…", "text/html": "<b>"}, "x", LINE)


def test_an_expression_that_fails():
    with pytest.raises(UserError, match=r"^a\.qmd:8: `n` raises NameError: name 'n' is not defined"):
        texts("a\nb `{python} n`")


@pytest.mark.parametrize("text", ["a `{r} n`", "a ``{python} n``", "a `{python} n", "a `{{python}} n`"])
def test_inline_code_that_is_none(text):
    with pytest.raises(UserError, match=r"^a\.qmd:7: inline code is"):
        texts(text, n=1)


def test_inline_code_in_a_listing_is_refused():
    with pytest.raises(UserError, match=r"^a\.qmd:7: inline code is"):
        texts("`{python} n`", listing=True, n=1)
