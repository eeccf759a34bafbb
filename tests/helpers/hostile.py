"""A cache in which every text that may be anything is what no reader of Markdown, HTML, Typst or Vega may take up."""

import shutil
from dataclasses import fields, replace
from pathlib import Path

from helpers.places import ROOT
from helpers.world import WORLD
from measure.cache.schema import MACHINE, TABLES
from measure.cache.table import read, write
from measure.cache.trace_records import TRACE
from report.paper.counting_programs import OURS
from report.paper.hand_tables import CITING

TEXT = (
    '<script>alert(1)</script> <img src=x onerror=alert(1)> <!--<script> &lt; &#60; #eval("1") #{1} $x^2$ | =cmd() '
    "*b* _i_ `c` ~~s~~ ^n^ [l](javascript:a) ![p](u.png){width=1} [@lean2016] @fig-on-roof \\alpha \\(y\\) "
    "{{< meta title >}} {=html} `r`{=typst} ... -- '+alert(1)+' \\'+alert(1)\n\n::: note\n\n    code\n\n"
    "a\u2028b\u0085c\ufffed\x1b[31me\n\n1. x"
)
KEPT = {"hardware_id": (), "program": (OURS,)}
"""What is kept as it is: this program is told from other counting programs by its name."""

NAMING = {*CITING, "id"}
"""Columns of tables that are written by hand whose texts name something: keys of the bibliography, rules for claims."""


def free_columns(record):
    """The columns of texts that may be anything."""
    facts = TABLES[record]
    free = [name for name, column in facts.columns.items() if column.type is str and column.form is None]
    return [name for name in free if not (facts.by_hand and name in NAMING)]


def spoilt(rows):
    """The rows with the text behind each text that may be anything, and in its place where no row has one."""
    if not rows:
        return rows
    for name in free_columns(type(rows[0])):
        unknown = not any(getattr(row, name) for row in rows)
        changed = []
        for row in rows:
            old = getattr(row, name)
            keeps = old in KEPT.get(name, ()) or not (old or unknown)
            changed.append(row if keeps else replace(row, **{name: f"{old or ''}{TEXT}"}))
        rows = changed
    return rows


def files(data: Path):
    """Yield each record with its tables in a data folder."""
    for record, about in TABLES.items():
        pattern = about.path.replace(MACHINE, "machines/*").replace(TRACE, "traces/*")
        yield from ((record, path) for path in sorted(data.glob(pattern)))


def hostile_data(data: Path) -> Path:
    """Writes the world with such texts into a folder that is not there yet, and the claims of studies."""
    shutil.copytree(WORLD, data)
    shutil.copy(ROOT / "data" / "published" / "claims.csv", data / "published")
    for record, path in files(data):
        write(path, record, spoilt(read(path, record)))
    return data


def covered(data: Path) -> set[tuple[type, str]]:
    """The columns of which some cell in the cache ends with the text."""
    return {
        (record, field.name)
        for record, path in files(data)
        for row in read(path, record)
        for field in fields(record)
        if str(getattr(row, field.name)).endswith(TEXT)
    }
