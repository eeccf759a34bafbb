"""The chapters and the code behind them fit: all that is called is there, and all that is there is called."""

import inspect
import re

import pytest
import yaml
from counted_papers import counted
from papers import REFERENCES, ROOT, empty, tiny, wide
from profiled_papers import profiled
from test_figures import MODULES as FIGURES
from test_findings import MODULES as FINDINGS
from training_papers import trained

from report import (
    benchmark_tables,
    bibliography,
    chip_tables,
    counter_tables,
    figures,
    findings,
    kernel_tables,
    published_tables,
    roof_tables,
    show,
    tables,
    training_tables,
    utilisation_tables,
    workload_tables,
)

CHAPTERS = [ROOT / "index.qmd", *sorted((ROOT / "report").glob("*.qmd"))]
CELL = re.compile(r"^```\{python\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`\{python\} ([^`]+)`")
SHARED = {
    "benchmark_tables": benchmark_tables,
    "chip_tables": chip_tables,
    "counter_tables": counter_tables,
    "roof_tables": roof_tables,
    "figures": figures,
    "findings": findings,
    "kernel_tables": kernel_tables,
    "published_tables": published_tables,
    "tables": tables,
    "show": show,
    "training_tables": training_tables,
    "utilisation_tables": utilisation_tables,
    "workload_tables": workload_tables,
}


def text_of(chapter):
    return chapter.read_text(encoding="utf-8")


def cells():
    for chapter in CHAPTERS:
        for source in CELL.findall(text_of(chapter)):
            options = [line.removeprefix("#| ") for line in source.splitlines() if line.startswith("#|")]
            code = [line for line in source.splitlines() if not line.startswith("#|")]
            yield chapter.name, yaml.safe_load("\n".join(options)) or {}, "\n".join(code)


def calls():
    return [code for _, _, code in cells() if not code.startswith("from")] + [
        expression for chapter in CHAPTERS for expression in INLINE.findall(text_of(chapter))
    ]


@pytest.mark.parametrize("paper", [tiny, wide, profiled, trained, counted, empty])
def test_every_call_of_a_chapter_runs(paper, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in calls():
        shown = eval(call, dict(SHARED, data=paper()))
        assert (
            shown._repr_markdown_() if isinstance(shown, str) else shown._repr_mimebundle_()["text/markdown"]
        )


def test_every_figure_table_and_finding_is_in_a_chapter():
    used = "\n".join(calls())
    written = (
        tables, benchmark_tables, chip_tables, counter_tables, kernel_tables, published_tables, roof_tables,
        training_tables, utilisation_tables, workload_tables,
    )  # fmt: skip
    drawn = (
        *FIGURES,
        figures.waterfall,
        figures.ratios,
        figures.pies,
        figures.layer_shares,
        figures.strips,
        figures.kernels,
        figures.published,
    )
    told = (
        *FINDINGS,
        findings.waterfall,
        findings.steps,
        findings.layer_costs,
        findings.training_memory,
        findings.kernels,
        findings.published,
        findings.claims,
        findings.conclusions,
    )
    for package, modules in (("figures", drawn), ("findings", told), ("", written)):
        for module in modules:
            for name, function in inspect.getmembers(module, inspect.isfunction):
                if function.__module__ == module.__name__ and hasattr(function, "__wrapped__"):
                    short = ".".join(filter(None, [package, module.__name__.split(".")[-1], name]))
                    assert f"{short}(" in used, f"no chapter uses {short}"


def test_every_cell_with_a_picture_or_table_has_a_label_and_a_caption():
    for chapter, options, code in cells():
        if "figures." in code:
            assert options["label"].startswith("fig-"), (chapter, code)
            assert options["fig-cap"]
        elif "tables." in code:
            assert options["label"].startswith("tbl-"), (chapter, code)
            assert options["tbl-cap"]


def test_labels_are_unique_and_references_resolve():
    labels = [options["label"] for _, options, _ in cells() if "label" in options]
    text = "\n".join(text_of(chapter) for chapter in CHAPTERS)
    labels += re.findall(r"\{#((?:fig|tbl|sec|eq)-[\w-]+)\}", text)
    assert len(set(labels)) == len(labels)
    assert set(re.findall(r"@((?:fig|tbl|sec|eq)-[\w-]+)", text)) <= set(labels)


def test_every_key_that_is_cited_is_in_the_bibliography():
    keys = bibliography.read_keys(REFERENCES)
    for chapter in CHAPTERS:
        cited = set(re.findall(r"@(?!(?:fig|tbl|sec|eq)-)([\w:-]+)", CELL.sub("", text_of(chapter))))
        assert cited <= keys, (chapter.name, cited - keys)


def test_every_chapter_is_included_once():
    included = re.findall(r"\{\{< include (\S+) >\}\}", text_of(CHAPTERS[0]))
    assert sorted(included) == [f"report/{chapter.name}" for chapter in CHAPTERS[1:]]


def test_chapters_hold_no_logic():
    for chapter, _, code in cells():
        assert not re.search(r"\b(if|for|groupby|open|Path)\b|\.csv", code), (chapter, code)
