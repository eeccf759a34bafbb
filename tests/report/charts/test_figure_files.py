import json

import pytest

from measure.errors import UserError
from report.charts.figure_files import write_figures

INDEX = """\
```{python}
#| include: false
from report import display
from report.charts.axes import Categories, LinearAxis
from report.charts.marks import bars
from report.charts.panels import figure, panel

paper = None

@display.figure
def bar(paper, number):
    x, y = LinearAxis(low=0, high=9, pixels=90), Categories.steps(["a"])
    return figure("bar", "A bar.", panel([bars([{"number": number, "who": "a"}], (x, "number"), (y, "who"))]))

@display.figure
def none(paper):
    raise display.Missing("python -m measure")
```

{{< include one.qmd >}}

{{< include two.qmd >}}

```{python}
open("ran", "w")
```
"""
ONE = """\
# One {#sec-one}

```{python}
#| label: fig-one
#| fig-cap: "One."
bar(paper, 1)
```

```{python}
#| label: tbl-one
#| tbl-cap: "One."
"| a |"
```

```{python}
#| label: fig-none
#| fig-cap: "None."
none(paper)
```
"""
TWO = '# Two {#sec-two}\n\n```{python}\n#| label: fig-two\n#| fig-cap: "T"\nbar(paper, CODE)\n```\n'


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.delenv("ROOFWRIGHT_CHAPTERS", raising=False)

    def run(*labels, formats=(), two="2"):
        (tmp_path / "_quarto.yml").write_text("filters:\n  - at: pre-ast\n    path: report/engine/missing.lua\n")
        (tmp_path / "report" / "engine").mkdir(parents=True, exist_ok=True)
        (tmp_path / "report" / "engine" / "missing.lua").touch()
        for name, text in {"index": INDEX, "one": ONE, "two": TWO.replace("CODE", two)}.items():
            (tmp_path / f"{name}.qmd").write_text(text)
        told = []
        files = write_figures(tmp_path, labels, formats, tmp_path / "out", told.append)
        return [path.relative_to(tmp_path / "out").as_posix() for path in files], told

    return run


def test_every_figure_with_its_data(write, tmp_path):
    files, told = write()
    assert files == ["fig-one.csv", "fig-two.csv"]
    assert told == ["writing fig-one", "fig-none is not written: its data are missing", "writing fig-two"]
    assert (tmp_path / "out" / "fig-two.csv").read_text() == "number,who\n2,a\n"
    assert not (tmp_path / "ran").exists()  # only what prepares figures is run


def test_a_figure_in_every_format(write, tmp_path):
    files, _ = write("fig-two", formats=["svg", "png", "pdf", "json"])
    assert files == ["fig-two.csv", "fig-two.svg", "fig-two.png", "fig-two.pdf", "fig-two.vl.json"]
    out = tmp_path / "out"
    assert (out / "fig-two.svg").read_text("utf-8").startswith("<svg")
    assert (out / "fig-two.png").read_bytes().startswith(b"\x89PNG")
    assert (out / "fig-two.pdf").read_bytes().startswith(b"%PDF")
    specification = json.loads((out / "fig-two.vl.json").read_text("utf-8"))
    assert specification["description"] == "A bar."


def test_figures_of_chosen_chapters(write, monkeypatch):
    monkeypatch.setenv("ROOFWRIGHT_CHAPTERS", "two")
    assert write()[0] == ["fig-two.csv"]
    with pytest.raises(UserError, match=r"^--figures: 'fig-one' is not one of fig-two"):
        write("fig-one")


def test_a_cell_that_fails_is_named(write):
    with pytest.raises(UserError, match=r"^two\.qmd:3: ZeroDivisionError: division by zero"):
        write("fig-two", two="1 / 0")


def test_a_folder_that_cannot_be_written(write, tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(UserError, match=r"^cannot write .*fig-two\.csv: .*--out"):
        write("fig-two")
