"""The chapters and the code behind them fit: all that is called is there, all that is there is called, and no prose."""

import inspect
import re
from importlib import import_module

import pytest
import yaml
from helpers.places import ROOT

from report import facts

FILES = [ROOT / "index.qmd", ROOT / "published.qmd", *sorted((ROOT / "report" / "chapters").glob("*/*.qmd"))]
TEXTS = {file: file.read_text("utf-8") for file in FILES}
CELL = re.compile(r"^```\{python\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def cells():
    """Yield the file, the options and the code of each cell."""
    for file, text in TEXTS.items():
        for source in CELL.findall(text):
            options = [line.removeprefix("#| ") for line in source.splitlines() if line.startswith("#|")]
            code = [line for line in source.splitlines() if not line.startswith("#|")]
            yield file, yaml.safe_load("\n".join(options)) or {}, "\n".join(code)


def test_every_chapter_is_included_once_and_has_facts():
    """But for the first, which speaks of the others' facts."""
    included = re.findall(r"\{\{< include report/chapters/(\w+)/(\w+)\.qmd >\}\}", TEXTS[ROOT / "index.qmd"])
    assert [folder for folder, _ in included] == [name for _, name in included] == ["front", *facts.CHAPTERS]


@pytest.mark.parametrize("name", ["front", *facts.CHAPTERS])
def test_every_figure_and_table_of_a_chapter_is_shown(name):
    used = "\n".join(code for _, _, code in cells())
    for module in ("figures", "tables"):
        if (ROOT / "report" / "chapters" / name / f"{module}.py").exists():
            there = import_module(f"report.chapters.{name}.{module}")
            functions = [
                each for each, made in inspect.getmembers(there, inspect.isfunction) if hasattr(made, "__wrapped__")
            ]
            own = [each for each in functions if getattr(there, each).__module__ == there.__name__]
            assert [each for each in own if f"{module}.{each}(" not in used] == []


def test_cells_are_labelled_and_hold_no_logic():
    for file, options, code in cells():
        assert "label" in options, (file.name, code)  # Quarto gives the others one by chance
        assert not re.search(r"\b(if|for|lambda|groupby|open|Path)\b|\.csv", code), (file.name, code)
