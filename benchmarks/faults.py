"""Damages tables, archives and flags at random and counts what is not answered with a result or one sentence.

    python benchmarks/faults.py
    python benchmarks/faults.py --quick --seed 7

Each try damages one cell or byte of a machine's tables in a temporary copy, or a zip of them, or gives a flag an odd
value. A failure is a traceback, a sentence over 400 characters, or one about a damaged cell that names no line.
``benchmarks/kills.py`` has the kills. Exit code 1 if anything failed.
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
from measure.cache.folders import MachineFolder
from measure.errors import UserError

ROOT = Path(__file__).parents[1]
MACHINES = ROOT / "data" / "machines"
MOST_CHARACTERS = 400
CELLS = ("", "0", "-1", "nan", "inf", "1e400", "x" * 5000, "1,5", "=1+1", "<b>", "\x00", "٣", '"', "1_000", " ")
FLAGS = ("--batch-sizes", "--threads", "--seed", "--budget", "--target", "--models", "--precisions", "--variants")
TRIES = {"damaged cells": 5000, "damaged bytes": 500, "hostile archives": 200, "odd flags": 220}
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
        return "", traceback.format_exc().strip().splitlines()[-1]
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


def damaged_cell(chance: Random, folder: Path) -> tuple[Answer, bool]:
    table = chance.choice(sorted(folder.glob("*.csv")))
    lines = table.read_text("utf-8").splitlines()
    line = chance.randrange(1, min(len(lines), 200))
    cells = lines[line].split(",")
    cells[chance.randrange(len(cells))] = chance.choice(CELLS)
    lines[line] = ",".join(cells)
    table.write_text("\n".join(lines) + "\n", "utf-8")
    return MachineFolder(folder.parent, folder.name, folder).check, True


def damaged_bytes(chance: Random, folder: Path) -> tuple[Answer, bool]:
    table = chance.choice(sorted(folder.glob("*.csv")))
    content = bytearray(table.read_bytes())
    for _ in range(chance.randrange(1, 9)):
        content[chance.randrange(len(content))] = chance.randrange(256)
    table.write_bytes(content[: chance.randrange(len(content))] if chance.random() < 0.5 else content)
    return MachineFolder(folder.parent, folder.name, folder).check, False


def hostile_archive(chance: Random, folder: Path) -> tuple[Answer, bool]:
    file = folder.with_suffix(".zip")
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for table in folder.glob("*.csv"):
            archive.write(table, chance.choice(["", "../", "/", "box/", "../../etc/"]) + table.name)
    content = bytearray(file.read_bytes())
    if chance.random() < 0.7:
        content[chance.randrange(len(content))] ^= chance.randrange(1, 256)
    file.write_bytes(content[: chance.randrange(len(content))] if chance.random() < 0.3 else content)
    return command(["add-machine", str(file), "--data", str(folder.parent / "new")]), False


def odd_flag(chance: Random, folder: Path) -> tuple[Answer, bool]:
    value = "".join(chance.choice("0123456789-+.,;*[]x%\n\t٣é ") for _ in range(chance.randrange(1, 80)))
    words = ["--plan", "--device", "cpu", f"{chance.choice(FLAGS)}={value}", "--data", str(folder.parent / "none")]
    return command(words), False


FAULTS = dict(zip(TRIES, (damaged_cell, damaged_bytes, hostile_archive, odd_flag), strict=True))


def main(argv: Sequence[str]) -> int:
    """Print a table of tried and failed. Exit code 0, or 1 if something failed."""
    flags = argparse.ArgumentParser(description="Damage what people bring, and count what is not said in a sentence.")
    flags.add_argument("--quick", action="store_true", help=f"{QUICK} tries of each kind")
    flags.add_argument("--seed", type=int, default=1, metavar="N", help="of the damage (default: %(default)s)")
    chosen = flags.parse_args(argv)
    chance, failed = Random(chosen.seed), 0
    machines = sorted(path for path in MACHINES.iterdir() if path.is_dir())
    print("| kind | tried | refused | failed |\n|---|--:|--:|--:|")
    for kind, fault in FAULTS.items():
        refused, wrong = 0, Counter[str]()
        tries = QUICK if chosen.quick else TRIES[kind]
        for _ in range(tries):
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(shutil.copytree(chance.choice(machines), Path(temporary) / "machines" / "box"))
                answer, needs_line = fault(chance, folder)
                text, problem = sentence_of(answer)
                if text and needs_line and ", line " not in text and not problem:
                    problem = f"no line: {text.replace(temporary, '')[:120]}"
                refused += bool(text)
                wrong.update([problem] if problem else [])
        print(f"| {kind} | {tries} | {refused} | {wrong.total()} |", flush=True)
        for problem, count in wrong.most_common(5):
            print(f"  {count} times: {problem}", file=sys.stderr)
        failed += wrong.total()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
