"""The chapters and the code behind them fit: all that is called is there, all that is there is called, and no prose."""

import ast
import inspect
import re
from importlib import import_module

import pytest
import yaml
from helpers.places import ROOT
from helpers.world import REFERENCES

from report import facts
from report.paper import hand_tables

FILES = [ROOT / "index.qmd", ROOT / "published.qmd", *sorted((ROOT / "report" / "chapters").glob("*/*.qmd"))]
TEXTS = {file: file.read_text("utf-8") for file in FILES}
CELL = re.compile(r"^```\{python\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LABEL = r"(?:fig|tbl|sec|eq)-[\w-]+"


def cells():
    """Yield the file, the options and the code of each cell."""
    for file, text in TEXTS.items():
        for source in CELL.findall(text):
            options = [line.removeprefix("#| ") for line in source.splitlines() if line.startswith("#|")]
            code = [line for line in source.splitlines() if not line.startswith("#|")]
            yield file, yaml.safe_load("\n".join(options)) or {}, "\n".join(code)


def test_every_chapter_is_included_once_and_has_facts():
    included = re.findall(r"\{\{< include report/chapters/(\w+)/(\w+)\.qmd >\}\}", TEXTS[ROOT / "index.qmd"])
    assert [folder for folder, _ in included] == [name for _, name in included] == list(facts.CHAPTERS)


@pytest.mark.parametrize("name", facts.CHAPTERS)
def test_every_figure_and_table_of_a_chapter_is_shown(name):
    used = "\n".join(code for _, _, code in cells())
    for module in ("figures", "tables"):
        if (ROOT / "report" / "chapters" / name / f"{module}.py").exists():
            there = import_module(f"report.chapters.{name}.{module}")
            shown = [
                each for each, made in inspect.getmembers(there, inspect.isfunction) if hasattr(made, "__wrapped__")
            ]
            own = [each for each in shown if getattr(there, each).__module__ == there.__name__]
            assert [each for each in own if f"{module}.{each}(" not in used] == []


def test_every_cell_has_a_label_and_what_is_shown_a_caption():
    for file, options, code in cells():
        assert "label" in options, (file.name, code)  # Quarto gives the others one by chance
        for prefix, caption in (("fig-", "fig-cap"), ("tbl-", "tbl-cap")):
            assert options["label"].startswith(prefix) == (caption in options), (file.name, code)


def test_labels_are_unique_and_references_resolve():
    labels = [options["label"] for _, options, _ in cells()]
    text = "\n".join(TEXTS.values())
    labels += re.findall(rf"\{{#({LABEL})", text)
    assert [label for label in labels if labels.count(label) > 1] == []
    referred = {label[0].lower() + label[1:] for label in re.findall(rf"@({LABEL})", text, re.IGNORECASE)}
    assert referred - set(labels) == set()


def test_every_key_that_is_cited_is_in_the_bibliography():
    prose = CELL.sub("", "\n".join(TEXTS.values()))
    cited = set(re.findall(rf"(?<![\w`.])@(?!{LABEL})([\w:-]*\w)", prose, re.IGNORECASE))
    assert len(cited) > 10
    assert cited - hand_tables.read_keys(REFERENCES) == set()


def test_chapters_hold_no_logic():
    for file, _, code in cells():
        assert not re.search(r"\b(if|for|lambda|groupby|open|Path)\b|\.csv", code), (file.name, code)


MOST = 40
"""So many sentences may stand in the report's Python; an author's words stand in the chapters."""

FIVE_WORDS = re.compile(r"(?<![\w.-])[A-Za-z][a-z’'-]*(?:,? [A-Za-z][a-z’'-]*){4}")
NO_PROSE = ("__main__.py", "printed.py", "dictionary.py")
"""The command line's help, and the columns' meanings, which are docstrings in all but name."""


def literals(text):
    """Yield the strings of a module, docstrings, errors and the alternative texts of figures apart."""
    tree = ast.parse(text)
    drawn = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "figure"]
    texts = {part for call in drawn for argument in call.args[:2] for part in ast.walk(argument)}
    names = {part.id for part in texts if isinstance(part, ast.Name)}
    apart = set(texts)
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Assign | ast.AugAssign) and names & {
            part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
        }
        if isinstance(node, ast.Expr | ast.Raise) or is_text:
            apart.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr) and node not in apart:
            apart.update(node.values)
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in apart:
            yield node.value


def test_python_holds_no_prose():
    files = [path for path in sorted((ROOT / "report").rglob("*.py")) if path.name not in NO_PROSE]
    found = [
        (path.name, each) for path in files for each in literals(path.read_text("utf-8")) if FIVE_WORDS.search(each)
    ]
    assert len(found) <= MOST, found


def test_prose_in_python_is_found():
    text = '"""A docstring of more than five words."""\nx = f"Here stand {n} of the five words that count"\n'
    assert [bool(FIVE_WORDS.search(each)) for each in literals(text)] == [True]
    assert list(literals('raise ValueError("one of the words that count for nothing")')) == []
