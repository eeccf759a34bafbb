import pytest

from measure.errors import UserError
from report.engine.chapters import FILTER
from report.engine.execution import as_markdown, execute, with_values
from report.engine.jupyter_kernel import CellError
from report.engine.project import Project
from report.engine.source import Line

CELLS = """\
```{python}
#| include: false
from IPython.display import Markdown, HTML
n = 24
```
before `{python} n` after

```{python}
#| label: fig-a
#| fig-cap: "A *caption*"
#| fig-alt: 'with "quotes"'
Markdown("![](a.svg)")
```

```{python}
#| label: tbl-a
#| tbl-cap: B
#| tbl-colwidths: [1, 2]
#| echo: true
Markdown("| a |")
```

```{python}
#| output: asis
print("*text*")
```

```{python}
print("```")
n
```

```{python}
#| output: false
n
```

```{python}
#| warning: false
import sys
print("hidden", file=sys.stderr)
```

```{python}
#| eval: false
#| echo: true
never()
```
"""

ASSEMBLED = """\
before 24 after
::: {#fig-a fig-alt="with \\"quotes\\""}
![](a.svg)
A *caption*
:::
``` {.python}
Markdown("| a |")
```
::: {#tbl-a tbl-colwidths="[1, 2]"}
| a |
B
:::
*text*
````
```
````
```
24
```
``` {.python}
never()
```"""


def run(tmp_path, text):
    (tmp_path / "index.qmd").write_text(text)
    return execute(Project(tmp_path, "index.qmd", {"execute": {"echo": False}}, 1), tmp_path)


def test_prose_and_outputs_become_one_text(tmp_path):
    lines = run(tmp_path, CELLS)
    assert [line.text for line in lines if line.text] == ASSEMBLED.split("\n")
    places = {line.text: line.place for line in lines}
    assert places["before 24 after"] == "index.qmd:6"
    assert places["A *caption*"] == "index.qmd:8"  # what a cell puts out stands at its fence


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\n\n```{python}\n#| echo: true\nn = 1\nn / 0\n```", r"^index\.qmd:6: ZeroDivisionError: division by"),
        (
            "```{python}\nfrom IPython.display import HTML\nHTML('<b>')\n```",
            r"^index\.qmd:1: the cell outputs text/html",
        ),
        (
            "```{python}\nfrom IPython.display import display\ndisplay({'image/png': 'x'}, raw=True)\n```",
            r"^index\.qmd:1: the cell outputs image/png",
        ),
    ],
)
def test_refusals(tmp_path, text, message):
    with pytest.raises(UserError, match=message):
        run(tmp_path, text)


def test_a_label_is_taken_before_anything_runs(tmp_path):
    cell = "```{python}\n#| label: x\nopen('ran', 'w')\n```\n"
    with pytest.raises(UserError, match=r"^index\.qmd:5: the label 'x' is taken by the cell at index\.qmd:1"):
        run(tmp_path, cell + cell)
    assert not (tmp_path / "ran").exists()


def test_of_a_chapter_that_is_left_out_nothing_runs(tmp_path, monkeypatch):
    monkeypatch.setenv("ROOFWRIGHT_CHAPTERS", "one")
    (tmp_path / FILTER.parent).mkdir(parents=True)
    (tmp_path / FILTER).touch()
    (tmp_path / "one.qmd").write_text("# One {#sec-one}\n`{python} 1 + 1`\n")
    cell = '```{python}\n#| label: fig-a\n#| fig-cap: "A"\n1 / 0\n```\n```{python}\n1 / 0\n```\n'
    (tmp_path / "two.qmd").write_text(f"# Two {{#sec-two}}\n`{{python}} 1 / 0`\n{cell}")
    (tmp_path / "index.qmd").write_text("{{< include two.qmd >}}\n{{< include one.qmd >}}\n`{python} 2 + 2`\n")
    settings = {"filters": [{"at": "pre-ast", "path": str(FILTER)}]}
    lines = execute(Project(tmp_path, "index.qmd", settings, 1), tmp_path)
    assert [line.text for line in lines if line.text] == [
        "# Two {#sec-two}", "`{python} 1 / 0`", "::: {#fig-a}", ":::", "# One {#sec-one}", "2", "4",
    ]  # fmt: skip


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
