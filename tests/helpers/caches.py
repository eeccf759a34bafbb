"""Caches for whole papers, cut from the project's own data: what a reader might have measured."""

import shutil
from pathlib import Path

from helpers.places import ROOT
from helpers.world import Change, Row, change_rows
from measure.domain.models import QUICK, STORY
from report import __main__ as report_command
from report.paper import REFERENCE

ONE = ("resnet18", "1", "inference", "eager", "fp32")
CELL = ("model", "batch", "phase", "variant", "precision")


def nothing_measured(data: Path) -> None:
    """Write what every clone has, without the machines."""
    shutil.copytree(ROOT / "data", data, ignore=shutil.ignore_patterns("machines"))


def one_cell(data: Path) -> None:
    """Write one network, measured and counted at one batch size."""
    nothing_measured(data)
    for table in ("models", "layers", "operators"):
        change_rows(
            data / "workload" / f"{table}.csv", lambda row: row if (row["model"], row["batch"]) == ONE[:2] else None
        )
    _put_machine(data, "student", lambda row: row if tuple(row[name] for name in CELL) == ONE else None)


def made_by_report(data: Path) -> None:
    """Write what ``make report`` measures in minutes: a few networks, two batch sizes, few rounds."""
    nothing_measured(data)
    _put_machine(data, "student", _quick)


def three_machines(data: Path) -> None:
    """Write the reference machine, one that is three times as slow, and a GPU that is twenty times as fast."""
    nothing_measured(data)
    _put_machine(data, REFERENCE, lambda row: row)
    _put_machine(data, "slower", _quick, 3.0, name="Intel Xeon", recorded_at="2027-01-01T00:00:00+00:00")
    _put_machine(data, "gpu", _quick, 0.05, name="Tesla T4", device="cuda", capability="7.5", vector_extension="")


def _quick(row: Row) -> Row | None:
    sizes = ("1", "64") if row["phase"] == "inference" else ("32",)
    models = QUICK if row["phase"] == "inference" and "stage" not in row and "steps" not in row else STORY
    is_kept = row["model"] in models and row["batch"] in sizes and row["variant"] == "eager"
    return row if is_kept and row["precision"] == "fp32" and int(row.get("round", 0)) < 3 else None


def _put_machine(data: Path, folder_name: str, kept: Change, factor: float = 1.0, **environment: str) -> None:
    """Copy the reference machine with some of its cells, each time multiplied by a factor."""
    folder = data / "machines" / folder_name
    shutil.copytree(ROOT / "data" / "machines" / REFERENCE, folder)
    times = {"latency_s", "latency_low_s", "latency_high_s", "plain_s", "profiled_s", "busy_s", "time_s"}

    def slower(row: Row) -> Row:
        return row | {each: repr(factor * float(row[each])) for each in times & row.keys() if row[each]}

    change_rows(folder / "machine.csv", lambda row: row | environment)
    change_rows(folder / "roofs.csv", slower)
    for table in ("runs", "samples", "profiles", "operators"):
        change_rows(folder / f"{table}.csv", lambda row: None if kept(row) is None else slower(row))


def render(data: Path, folder: Path, *flags: str) -> Path:
    """Render the paper of a cache in a folder of its own, strictly; return the folder of its files."""
    folder.mkdir(parents=True)
    for name in ("_quarto.yml", "index.qmd", "published.qmd", "bib", "data", "measure", "report"):
        (folder / name).symlink_to(ROOT / name)  # pictures are drawn beside them
    out = folder / "site"
    words = ["--strict", "--engine", "embedded", "--data", str(data), "--out", str(out), *flags]
    assert report_command.main(words, folder) == 0
    return out
