"""Damages tables, archives and flags at random and counts what is not answered with a result or one sentence.

    python benchmarks/faults.py
    python benchmarks/faults.py --quick --seed 7

Each try damages one cell or some bytes of a table in a copy of the tests' small cache, which has every kind, or a zip
of a machine, or gives a flag an odd value. A machine's tables go through the checks of ``add-machine``, and like all
others through everything that the paper reads. A failure is a traceback, a sentence over 400 characters, or one about a
damaged cell that names no line. ``benchmarks/kills.py`` has the kills, ``benchmarks/misbehaving.py`` the models that
misbehave. Exit code 1 if anything failed.
"""

import argparse
import contextlib
import io
import shutil
import sys
import tempfile
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout counts, installed or not

from measure import __main__ as measuring
from measure.cache.folders import Workloads
from measure.cache.workload_records import Workload
from measure.errors import UserError
from measure.published import contributed_checks
from report.paper import load

ROOT = Path(__file__).parents[1]
WORLD = ROOT / "tests" / "data" / "world"
REFERENCES = ROOT / "bib" / "references.bib"
MOST_CHARACTERS = 400
CELLS = (
    "", "0", "-1", "1", "nan", "inf", "1e400", "1e-300", "9" * 30, "x", "x" * 5000, "1,5", "=1+1", "<b>", "\x00", "٣",
    '"', "1_000", " ", "ok", "error", "2026-13-99",
)  # fmt: skip
FLAGS = ("--batch-sizes", "--threads", "--seed", "--budget", "--target", "--models", "--precisions", "--variants")
TRIES = {"damaged cells": 4500, "damaged bytes": 500, "hostile archives": 200, "odd flags": 220}
QUICK = 20

Answer = Callable[[], object]


def sentence_of(answer: Answer) -> tuple[str, str]:
    """Return the sentence that an action ends with, and what is wrong with it; empty texts for none."""
    try:
        answer()
    except UserError as problem:
        text = str(problem)
        wrong = f"{len(text)} characters" if len(text) > MOST_CHARACTERS else "two lines" if "\n" in text else ""
        return text, wrong
    except Exception:
        lines = traceback.format_exc().strip().splitlines()
        place = next((f", {line.strip()}" for line in lines[::-1] if "/measure/" in line or "/report/" in line), "")
        return "", lines[-1] + place
    return "", ""


def command(words: Sequence[str]) -> Answer:
    """Return the call of a command, whose error line is raised as UserError."""

    def call() -> None:
        error = io.StringIO()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
            code = measuring.main(list(words))
        if code == 2:
            raise UserError(error.getvalue().strip().rpartition("\n")[2])

    return call


def reading(table: Path, data: Path) -> Answer:
    """Return the reading of a table by all who read it."""

    def read() -> None:
        machine = table.parent.name if table.parent.parent.name == "machines" else "none"
        if machine != "none":
            contributed_checks.check(table.parent, Workloads(data).rows(Workload))
        load(data, REFERENCES, [machine], everything=True)  # others' measurements are as they were, and take time

    return read


def table_of(chance: Random, data: Path) -> Path:
    return chance.choice(sorted(path for path in data.rglob("*.csv") if path.stat().st_size))


def damaged_cell(chance: Random, data: Path) -> tuple[Answer, bool]:
    table = table_of(chance, data)
    lines = table.read_text("utf-8").splitlines()
    line = chance.randrange(1, len(lines))
    cells = lines[line].split(",")
    cells[chance.randrange(len(cells))] = chance.choice(CELLS)
    lines[line] = ",".join(cells)
    table.write_text("\n".join(lines) + "\n", "utf-8")
    return reading(table, data), True


def damaged_bytes(chance: Random, data: Path) -> tuple[Answer, bool]:
    table = table_of(chance, data)
    content = bytearray(table.read_bytes())
    for _ in range(chance.randrange(1, 9)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    table.write_bytes(content[: chance.randrange(len(content))] if chance.random() < 0.5 else content)
    return reading(table, data), False


def hostile_archive(chance: Random, data: Path) -> tuple[Answer, bool]:
    file = data / "box.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for table in chance.choice(sorted((data / "machines").iterdir())).glob("*.csv"):
            archive.write(table, chance.choice(["", "../", "/", "box/", "../../etc/"]) + table.name)
    content = bytearray(file.read_bytes())
    if chance.random() < 0.7:
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
    file.write_bytes(content[: chance.randrange(len(content))] if chance.random() < 0.3 else content)
    return command(["add-machine", str(file), "--data", str(data / "new")]), False


def odd_flag(chance: Random, data: Path) -> tuple[Answer, bool]:
    value = "".join(chance.choice("0123456789-+.,;*[]x%\n\t٣é ") for _ in range(chance.randrange(1, 80)))
    words = ["--plan", "--device", "cpu", f"{chance.choice(FLAGS)}={value}", "--data", str(data / "none")]
    return command(words), False


FAULTS = dict(zip(TRIES, (damaged_cell, damaged_bytes, hostile_archive, odd_flag), strict=True))


def main(argv: Sequence[str]) -> int:
    """Print a table of tried and failed. Exit code 0, or 1 if something failed."""
    flags = argparse.ArgumentParser(description="Damage what people bring, and count what is not said in a sentence.")
    flags.add_argument("--quick", action="store_true", help=f"{QUICK} tries of each kind")
    flags.add_argument("--seed", type=int, default=1, metavar="N", help="of the damage (default: %(default)s)")
    chosen = flags.parse_args(argv)
    chance, failed = Random(chosen.seed), 0
    print("| kind | tried | refused | failed |\n|---|--:|--:|--:|")
    for kind, fault in FAULTS.items():
        refused, wrong = 0, Counter[str]()
        tries = QUICK if chosen.quick else TRIES[kind]
        for _ in range(tries):
            with tempfile.TemporaryDirectory() as temporary:
                data = Path(shutil.copytree(WORLD, Path(temporary) / "data"))
                answer, needs_line = fault(chance, data)
                text, problem = sentence_of(answer)
                if text and needs_line and ", line " not in text and not problem:
                    problem = "no line: " + text[:300]
                refused += bool(text)
                wrong.update([problem.replace(temporary, "")] if problem else [])
        print(f"| {kind} | {tries} | {refused} | {wrong.total()} |", flush=True)
        for problem, count in wrong.most_common():
            print(f"  {count} times: {problem}", file=sys.stderr, flush=True)
        failed += wrong.total()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
