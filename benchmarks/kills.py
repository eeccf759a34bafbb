"""Kills a measurement again and again, and checks that it neither loses nor duplicates a row.

    python benchmarks/kills.py
    python benchmarks/kills.py --kills 20 --seed 7 --sleeps

``python -m measure`` counts and times two small networks into a temporary folder. It is killed and restarted a hundred
times (``WAYS``), half of them within milliseconds of a write, and then left to finish. After each kill every process
must end by itself, every table must be readable, every earlier row must still be there, no key may occur twice, and
each run must have its samples. Logs must be gone after the next run. A measurement that finishes before its kill is
followed by another in a new folder. With ``--sleeps`` short sleeps replace the networks, and a kill takes a tenth of
the time; plan, lock, runner, worker and cache are the real ones. Exit code 1 if a check fails.
"""

import argparse
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Sequence
from itertools import chain, cycle, islice
from pathlib import Path
from random import Random
from typing import Any

from harness import ROOT, Command, Failure, count, kill

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.table import read
from measure.domain.records import Profile, RoofMeasurement, Run, Sample
from measure.domain.schema import TABLES
from measure.domain.workload_records import Layer, Operator, Workload
from measure.run.tasks import KILLED
from roofwright.command_line import INTERRUPTED

NETWORKS = (  # without roofs, which are measured again after a measurement under load
    "-m measure --device cpu --quick --target 50% --sections workload inference training operators --batch-sizes 1 2 "
    "--training-batch-sizes 2 --models helpers.small_network:network squeezenet1_0"
)
SLEEPS = (  # with just three rounds: sleeps on a busy machine have wide intervals, which ask for more
    f"{ROOT}/benchmarks/sleeps.py --device cpu --sections inference --variants eager --models alexnet resnet18 vgg11 "
    "--batch-sizes 1 --max-rounds 3"
)
LONGEST_S, LONGEST_SLEEPS_S = 14.0, 1.5  # life of a measurement, with some seconds to start torch
DELAY_S = 0.005  # from a write to the kill at most; a round's tables are written within it
ENDING_S = 60.0  # for the other processes to end after the first; one may have to import torch before
GOES_ON_S = 3.0  # life of a measurement after its worker was killed, at most
NOTHING_RAN = "Fatal Python error: init_"  # with exit code 1, if Ctrl-C ends Python before our code runs

WAYS = {
    "everything": signal.SIGKILL,  # to all processes at once
    "group": signal.SIGKILL,  # to the group of the first process, as a shell ends a job
    "worker": signal.SIGKILL,  # to a process that the first one started, which must go on; then to the group
    "terminate": signal.SIGTERM,  # to the first, as a system that shuts down
    "interrupt": signal.SIGINT,  # to the group, as Ctrl-C does
}
"""The signal of each way. Processes handle the last two once they have set up how to end."""

Rows = dict[tuple[Any, ...], Any]


def committed(data: Path) -> Rows:
    """Return every committed row of a cache by table and key. Raises Failure if rows contradict each other."""
    tables = [Workloads(data).rows(table) for table in (Workload, Layer, Operator)]
    for name in machine_names(data):
        tables += MachineFolder(data, name).tables().values()
    rows: Rows = {}
    for row in chain.from_iterable(tables):
        key = (type(row), *(getattr(row, name) for name in TABLES[type(row)].key))
        if key in rows:
            raise Failure(f"{_text(key)} is there twice")
        rows[key] = row
    samples: dict[tuple[Any, ...], set[int]] = {key[1:]: set() for key in rows if key[0] is Run}
    for key in rows:
        if key[0] is Sample:
            samples[key[1:-1]].add(key[-1])
    for cell, numbers in samples.items():
        run = rows[Run, *cell]
        if numbers != set(range(len(numbers))) or (run.status == "ok") != bool(numbers):
            raise Failure(f"{_text((Run, *cell))} is {run.status} and has the samples {sorted(numbers)}")
    return rows


def _text(key: tuple[Any, ...]) -> str:
    return f"{key[0].__name__} {' '.join(map(str, key[1:]))}"


def check_nothing_is_lost(before: Rows, now: Rows) -> None:
    """Raise Failure that names the first row that is missing or changed. A killed cell is measured again."""
    for key, row in before.items():
        if now.get(key) != row and getattr(row, "status", "") != KILLED.status:
            raise Failure(f"{_text(key)} is {'changed' if key in now else 'lost'}")


def is_half_written(data: Path) -> bool:
    """Look for uncommitted data: a torn line, a table's next version, samples without their run."""
    folders = [MachineFolder(data, name) for name in machine_names(data)]
    return (
        any(data.rglob("*.part"))
        or any(not path.read_bytes().endswith(b"\n") for path in data.rglob("*.csv"))
        or any(len(read(each.folder / "samples.csv", Sample)) > len(each.rows(Sample)) for each in folders)
    )


def is_killed(words: list[str], data: Path, way: str, chance: Random, after_s: float, *, at_a_write: bool) -> bool:
    """Start a measurement and kill it; return False if it finished first.

    Raises Failure if it failed by itself, or leaves a process or a log behind.
    """
    lost_worker, is_handled = False, WAYS[way] != signal.SIGKILL
    with Command(words, data.parent, ROOT / "tests") as measurement:
        first = measurement.process
        if not measurement.ends_within(after_s) and at_a_write:
            before = _byte(data)
            while first.poll() is None and _byte(data) == before:
                time.sleep(0.0005)
            time.sleep(chance.uniform(0, DELAY_S))
        if way == "worker" and (workers := [each for each in measurement.alive() if each.pid != first.pid]):
            kill(chance.choice(workers))
            lost_worker = True
            measurement.ends_within(chance.uniform(0, GOES_ON_S))
        if first.poll() is None and way == "terminate":
            first.terminate()
        elif first.poll() is None:
            os.killpg(first.pid, WAYS[way])
        for process in measurement.alive() if way == "everything" else ():
            kill(process)
        code = first.wait()
        if code not in (0, -WAYS[way], INTERRUPTED if is_handled else 0) and NOTHING_RAN not in measurement.error:
            raise Failure(f"{way}: the measurement ended with {code}: {measurement.error[-300:]}")
        if code == INTERRUPTED and "Traceback" in measurement.error:
            raise Failure(f"{way}: {measurement.error[-300:]}")
        # The next run removes a log that a killed run could not
        measurement.check_it_is_gone(ENDING_S, f"roofwright-{first.pid}-*.log" if is_handled else "")
    return code != 0 or lost_worker


def _byte(data: Path) -> int:
    return sum(path.stat().st_size for path in data.rglob("*.csv"))


def check_it_ends(words: list[str], data: Path) -> None:
    """Raise Failure if the measurement fails, or leaves something unmeasured or without a result."""
    for _ in range(2):  # the second time nothing is left to do
        with Command(words, data.parent, ROOT / "tests") as measurement:
            if measurement.process.wait() != 0:
                raise Failure(f"the measurement did not end well: {measurement.error[-300:]}")
    if not measurement.out.startswith("Nothing left to measure"):
        raise Failure(f"something was left to measure: {measurement.out[-300:]}")
    if any(data.parent.glob("roofwright-*.log")):
        raise Failure("logs stay")
    for key, row in committed(data).items():
        if isinstance(row, Run | RoofMeasurement | Workload | Profile) and row.status != "ok":
            raise Failure(f"{_text(key)} is {row.status}: {row.reason}")


def torment(words: str, folder: Path, kills: int, chance: Random, longest_s: float) -> tuple[Path, Counter[str]]:
    """Kill a measurement in all ways in turn, let it end, and check its cache after each kill. Raises Failure.

    Return the last cache and the counts of the report.
    """
    counted, before, data = Counter[str](), Rows(), folder / "0"
    for number, way in enumerate(islice(cycle(WAYS), kills)):
        after_s, is_over = chance.uniform(0, longest_s), False
        while not is_over:
            into = [sys.executable, *words.split(), "--data", str(data), "--machine", "box"]
            is_over = is_killed(into, data, way, chance, after_s, at_a_write=number // len(WAYS) % 2 == 1)
            now = committed(data)
            check_nothing_is_lost(before, now)
            before = now
            if not is_over:
                check_it_ends(into, data)
                counted["ended before"] += 1
                data, before = folder / str(counted["ended before"]), Rows()
                after_s /= 2  # else a quick machine would always be done before
        counted["kills"] += 1
        counted["met something half written"] += is_half_written(data)
    check_it_ends(into, data)
    now = committed(data)
    check_nothing_is_lost(before, now)
    counted["rows at the end"] = len(now)
    return data, counted


def main(argv: Sequence[str]) -> int:
    flags = argparse.ArgumentParser(description="Kill a measurement again and again; check that nothing is lost.")
    flags.add_argument("--kills", type=int, default=100, metavar="N", help="how often (default: %(default)s)")
    flags.add_argument("--seed", type=int, default=1, metavar="N", help="of the moments (default: %(default)s)")
    flags.add_argument("--sleeps", action="store_true", help="sleep instead of running networks")
    chosen = flags.parse_args(argv)
    words, longest_s = (SLEEPS, LONGEST_SLEEPS_S) if chosen.sleeps else (NETWORKS, LONGEST_S)

    def attempt(folder: Path) -> str:
        _, counted = torment(words, folder, chosen.kills, Random(chosen.seed), longest_s)
        return "; ".join(f"{name}: {number}" for name, number in counted.items())

    return int(count([(f"{chosen.kills} kills", attempt)]) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
