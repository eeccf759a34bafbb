import json

import pytest

from measure.errors import UserError
from report import failures
from report.charts import drawing
from report.figure_files import write_figures

INDEX = """\
# One {#sec-one}

```{python}
#| include: false
import altair as alt
import pandas as pd
from report import display

@display.figure
def bar(paper, number):
    if not number:
        raise display.Missing("python -m measure")
    rows = pd.DataFrame({"number": [number], "who": "a"})
    return alt.Chart(rows, name="bar", description="A bar.").mark_bar().encode(x="number", y="who")
```
"""
CELL = '\n```{{python}}\n#| label: fig-{}\n#| fig-cap: "A."\nbar(None, {})\n```\n'
RUNS = '\n```{python}\nopen("ran", "w")\n```\n'


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.delenv("ROOFWRIGHT_CHAPTERS", raising=False)

    def run(*labels, formats=(), two="2"):
        (tmp_path / "_quarto.yml").write_text("filters:\n  - at: pre-ast\n    path: report/engine/missing.lua\n")
        (tmp_path / "report" / "engine").mkdir(parents=True, exist_ok=True)
        (tmp_path / "report" / "engine" / "missing.lua").touch()
        (tmp_path / "index.qmd").write_text(
            INDEX + "".join(map(CELL.format, ("one", "none", "two"), (1, 0, two))) + RUNS
        )
        progress = []
        files = write_figures(tmp_path, labels, formats, tmp_path / "out", progress.append)
        return [path.relative_to(tmp_path / "out").as_posix() for path in files], progress

    return run


def test_every_figure_with_its_data_in_every_format(write, tmp_path):
    files, progress = write()
    assert files == ["fig-one.csv", "fig-two.csv"]
    assert progress == ["writing fig-one", "fig-none is not written: its data are missing", "writing fig-two"]
    out = tmp_path / "out"
    assert (out / "fig-two.csv").read_text() == "number,who\n2,a\n"
    assert not (tmp_path / "ran").exists()  # only what prepares figures is run
    assert drawing._begun == []  # nor is a picture drawn for a page
    files, _ = write("fig-two", formats=["svg", "png", "pdf", "json"])
    assert files == ["fig-two.csv", "fig-two.svg", "fig-two.png", "fig-two.pdf", "fig-two.vl.json"]
    starts = {"svg": b"<svg", "png": b"\x89PNG", "pdf": b"%PDF"}
    assert [
        name for name, start in starts.items() if not (out / f"fig-two.{name}").read_bytes().startswith(start)
    ] == []
    assert json.loads((out / "fig-two.vl.json").read_text("utf-8"))["description"] == "A bar."


def test_a_cell_that_fails_is_named(write):
    with pytest.raises(UserError, match=r"^index\.qmd:\d+: ZeroDivisionError: division by zero"):
        write("fig-two", two="1 / 0")


def test_a_figure_that_fails_is_noted_and_the_others_written(write, monkeypatch):
    monkeypatch.delenv(failures.STRICT, raising=False)
    broken = "display.Display('', {'mark': 'no mark', 'config': {}, 'usermeta': {'tables': []}, 'datasets': {}}"
    with failures.noted() as lines:
        files, _ = write("fig-one", "fig-two", formats=["svg", "png"], two=f"2) if False else {broken}")
    assert files == ["fig-one.csv", "fig-one.svg", "fig-one.png", "fig-two.csv"]
    assert [line.partition(":")[0] for line in lines] == ["drawing fig-two.svg", "drawing fig-two.png"]
    assert not any("https://" in line for line in lines)  # as in Vega's stack
