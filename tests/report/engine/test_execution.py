import pytest

from measure.errors import UserError
from report.engine.chapters import FILTER
from report.engine.execution import execute
from report.engine.project import Project

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
        (
            "a\n\n```{python}\n#| echo: true\nn = 1\nn / 0\n```",
            r"^index\.qmd:6: ZeroDivisionError: division by",
        ),
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
    monkeypatch.setenv("RIDGEPOINT_CHAPTERS", "one")
    (tmp_path / FILTER.parent).mkdir(parents=True)
    (tmp_path / FILTER).touch()
    (tmp_path / "one.qmd").write_text("# One {#sec-one}\n`{python} 1 + 1`\n")
    cell = '```{python}\n#| label: fig-a\n#| fig-cap: "A"\n1 / 0\n```\n```{python}\n1 / 0\n```\n'
    (tmp_path / "two.qmd").write_text(f"# Two {{#sec-two}}\n`{{python}} 1 / 0`\n{cell}")
    (tmp_path / "index.qmd").write_text(
        "{{< include two.qmd >}}\n{{< include one.qmd >}}\n`{python} 2 + 2`\n"
    )
    settings = {"filters": [{"at": "pre-ast", "path": str(FILTER)}]}
    lines = execute(Project(tmp_path, "index.qmd", settings, 1), tmp_path)
    assert [line.text for line in lines if line.text] == [
        "# Two {#sec-two}", "`{python} 1 / 0`", "::: {#fig-a}", ":::", "# One {#sec-one}", "2", "4",
    ]  # fmt: skip
