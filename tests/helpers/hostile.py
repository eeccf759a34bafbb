"""A cache in which every text that may be anything is what no reader of Markdown, HTML, Typst or Vega may take up."""

import shutil
from dataclasses import fields, replace
from pathlib import Path

from helpers import profiled_papers, training_papers
from helpers.counted_papers import GAP, LEAN, counter_rows, kernel_times
from helpers.places import ROOT, TESTS
from helpers.rows import cell_columns
from measure.cache.folders import MachineFolder, machine_names
from measure.cache.hand_kept import Chip
from measure.cache.predictions import ALL_BATCHES, BY_MODEL, METHODS, Coefficient, KindCost, PredictionError, Setting
from measure.cache.records import OperatorTime, Profile
from measure.cache.schema import MACHINE, TABLES
from measure.cache.table import read, write
from measure.cache.trace_records import TRACE, TraceDevice, TraceOperator, TraceStep
from measure.cache.workload_records import Operator
from measure.domain.words import EAGER, INFERENCE
from report.paper.counting_programs import OURS
from report.paper.hand_tables import CITING
from report.paper.printed import CaseCount

TEXT = (
    '<script>alert(1)</script> <img src=x onerror=alert(1)> <!--<script> &lt; &#60; #eval("1") #{1} $x^2$ | =cmd() '
    "*b* _i_ `c` ~~s~~ ^n^ [l](javascript:a) ![p](u.png){width=1} [@lean2016] @fig-on-roof \\alpha \\(y\\) "
    "{{< meta title >}} {=html} `r`{=typst} ... -- '+alert(1)+' \\'+alert(1)\n\n::: note\n\n    code\n\n"
    "a\u2028b\u0085c\ufffed\x1b[31me\n\n1. x"
)
RECORDS = {
    record: facts.path.removeprefix(f"{MACHINE}/").replace(TRACE, "traces/example") for record, facts in TABLES.items()
}
"""All records, with the file of each in a data folder or a machine's."""

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


def _with_kernels(gpu):
    """Adds kernels and their counters, those of ``counted_papers``, to the profile of lean."""
    cell = cell_columns("lean", 1, INFERENCE, EAGER, "gpu-1")
    (profile,) = [row for row in gpu.rows(Profile) if (row.model, row.phase, row.status) == ("lean", INFERENCE, "ok")]
    times = [row for row in gpu.rows(OperatorTime) if (row.model, row.phase) == ("lean", INFERENCE)]
    gpu.put_profile(replace(profile, busy_s=0.1e-3), times, kernel_times(cell))
    gpu.put_hardware_counters(*counter_rows(cell, LEAN, GAP))


def predictions():
    """A row of each table of what predicts latencies."""
    device = Setting("Bead 2", "epoch_hw", "2.4", "fp16", EAGER, INFERENCE)
    error = PredictionError(*device, BY_MODEL, METHODS[0], ALL_BATCHES, 1, 1, 0.1, 0.1, 1.0, 1.0, 1.0, 1.0)
    return {
        Coefficient: Coefficient(*device, "call", 1, 1, 1.0, 1.0, 1.0),
        KindCost: KindCost(*device, "linear", 1, 1.0, 1.0, 1.0, 1.0),
        PredictionError: error,
    }


def trace():
    """A row of each table of a trace."""
    group = {"calls": 1, "kernels": 1, "time_s": 1e-3, "copy_s": 0.0, "gap_s": 0.0}
    unknown = dict.fromkeys(("shape", "precision", "reason", "flop", "other_flop", "recompute_flop", "byte", "kernel"))
    device = dict.fromkeys(TABLES[TraceDevice].columns) | {"rank": 0, "device": 0, "world_size": 1, "fingerprint": "f"}
    return {
        TraceDevice: TraceDevice(**device),
        TraceStep: TraceStep(0, 0, 0, None, 1e-3, 1e-3),
        TraceOperator: TraceOperator(0, 0, 0, INFERENCE, "linear", "mm", **group, **unknown),
    }


def hostile_data(data: Path) -> Path:
    """Writes the cache into a folder that is not there yet."""
    shutil.copytree(TESTS / "data", data)
    chips = [row for name in ("chips.csv", "more-chips.csv") for row in read(data / name, Chip)]
    write(data / "chips.csv", Chip, chips)
    shutil.copytree(ROOT / "data" / "published", data / "published")
    case = CaseCount("Attention", "counter", None, "ok", None, "2 * 3", 6, 5.0)
    for record, row in (predictions() | trace() | {CaseCount: case}).items():
        (data / RECORDS[record]).parent.mkdir(parents=True, exist_ok=True)
        write(data / RECORDS[record], record, [row])
    for name, environment in (("example-cpu", "cpu-new"), ("example-gpu", "gpu-1")):
        folder = MachineFolder(data, name)
        training_papers.put_steps(folder, environment)
        profiled_papers.put_profiles(MachineFolder(data, name), environment)
    _with_kernels(MachineFolder(data, "example-gpu"))
    write(data / "workload/operators.csv", Operator, [*profiled_papers.operators(), *training_papers.operators()])
    homes = [data, *(data / "machines" / name for name in machine_names(data))]
    for record, name in RECORDS.items():
        for home in homes:
            if (home / name).exists():
                write(home / name, record, spoilt(read(home / name, record)))
    return data


def covered(data: Path) -> set[tuple[type, str]]:
    """The columns of which some cell in the cache ends with the text."""
    homes = [data, *(data / "machines" / name for name in machine_names(data))]
    return {
        (record, field.name)
        for record, name in RECORDS.items()
        for home in homes
        for row in read(home / name, record)
        for field in fields(record)
        if str(getattr(row, field.name)).endswith(TEXT)
    }
