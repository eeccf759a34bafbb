"""The chapters: their cells, and the code that they call."""

import re

import yaml

from helpers.places import ROOT
from report import figures, findings, published, tables
from report.charts import chooser, show

CHAPTERS = [ROOT / "index.qmd", *sorted((ROOT / "report/chapters").glob("*.qmd"))]
CELL = re.compile(r"^```\{python\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`\{python\} ([^`]+)`")
SHARED = {
    "figures": figures, "findings": findings, "published": published, "tables": tables,
    "chooser": chooser, "show": show,
}  # fmt: skip


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
