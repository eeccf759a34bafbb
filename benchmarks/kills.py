"""Tests whether a measurement that is killed again and again loses rows, or duplicates them.

    python benchmarks/kills.py
    python benchmarks/kills.py --kills 20 --seed 7 --sleeps

``python -m measure`` counts and times two small networks into a temporary folder. It is killed and restarted a hundred
times, and then left to finish. ``WAYS`` lists the kills; half come at any moment, half within milliseconds of a write.
After each kill every process must end by itself, every table must be readable, every earlier row must still be there,
no key may occur twice, and each run must have its samples. No log may stay in the folder for temporary files, at the
latest after the next run. A measurement that finishes before it is killed is followed by another in a new folder. The
measured values mean nothing. With ``--sleeps`` a cell is a short sleep, and a kill takes a tenth of the time: plan,
lock, runner, worker and cache are the real ones. Exit code 1 if a promise is broken.
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain, cycle, islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout counts, installed or not

from harness import ROOT, Command, Failure

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.table import read
from measure.domain.records import Environment, KernelTime, OperatorTime, Profile, RoofMeasurement, Run, Sample
from measure.domain.schema import TABLES
from measure.domain.workload_records import Layer, Operator, Workload
from measure.errors import UserError
from measure.run.tasks import KILLED
from roofwright.command_line import INTERRUPTED

NETWORKS = (  # without roofs: one measured under load is measured again, and so changes by right
    "--device cpu --quick --target 50% --sections workload inference training operators --batch-sizes 1 2 "
    "--training-batch-sizes 2 --models helpers.small_network:network squeezenet1_0"
)
SLEEPS = (  # three rounds whatever a busy machine makes of the sleeps: a wide interval would ask for more
    "--device cpu --sections inference --variants eager --models alexnet resnet18 vgg11 --batch-sizes 1 --max-rounds 3"
)
LONGEST_S, LONGEST_SLEEPS_S = 14.0, 1.5
"""The longest that a measurement lives. Starting torch takes some seconds of it."""

DELAY_S = 0.005
"""A kill comes this soon after a write at the latest: a round's tables are written within that."""

ENDING_S = 60.0
"""Processes may take this long to end after the first of them was killed: one that imports torch ends after that."""

GOES_ON_S = 3.0
"""A measurement lives at most this long after its worker was killed."""

NOTHING_RAN = "Fatal Python error: init_"
"""Printed, with exit code 1, by an interpreter that Ctrl-C ends before it runs any of our code."""


class Way(NamedTuple):
    signal: int
    codes: tuple[int, ...]


KILL = Way(signal.SIGKILL, (-signal.SIGKILL,))
WAYS = {
    "everything": KILL,  # to all processes at once
    "group": KILL,  # to the group of the first process, as a shell ends a job
    "worker": KILL,  # to a process that the first one started, which must go on; then to the group
    "terminate": Way(signal.SIGTERM, (INTERRUPTED, -signal.SIGTERM)),  # to the first, as a system that shuts down
    "interrupt": Way(signal.SIGINT, (INTERRUPTED, -signal.SIGINT)),  # to the group, as Ctrl-C does
}
"""The signal of each way, and the exit codes; the negative ones before the first process has set up how to end."""

Rows = dict[tuple[Any, ...], Any]


def command(*, sleeps: bool) -> list[str]:
    """Return the words of a measurement of networks, or of sleeps."""
    program = [str(ROOT / "benchmarks" / "sleeps.py")] if sleeps else ["-m", "measure"]
    return [sys.executable, *program, *(SLEEPS if sleeps else NETWORKS).split()]


def kept(data: Path) -> Rows:
    """Return every committed row of a cache by table and key. Raises Failure where rows contradict each other."""
    workloads = Workloads(data)
    tables: list[Iterable[Any]] = [workloads.rows(table) for table in (Workload, Layer, Operator)]
    for name in machine_names(data):
        folder = MachineFolder(data, name)
        own = (Environment, RoofMeasurement, Run, Sample, Profile, OperatorTime, KernelTime)
        tables += [folder.rows(table) for table in own]
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
    """Return whether anything is uncommitted: a torn line, a table's next version, samples without their run."""
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
    lost_worker = False
    with Command(words, data.parent, ROOT / "tests") as measurement:
        first = measurement.process
        if not measurement.ends_within(after_s) and at_a_write:
            before = _byte(data)
            while first.poll() is None and _byte(data) == before:
                time.sleep(0.0005)
            time.sleep(chance.uniform(0, DELAY_S))
        if way == "worker" and (workers := [each for each in measurement.alive() if each.pid != first.pid]):
            chance.choice(workers).kill()
            lost_worker = True
            measurement.ends_within(chance.uniform(0, GOES_ON_S))
        if first.poll() is None and way == "terminate":
            first.terminate()
        elif first.poll() is None:
            os.killpg(first.pid, WAYS[way].signal)
        for process in measurement.alive() if way == "everything" else ():
            process.kill()
        code = first.wait()
        if code not in (0, *WAYS[way].codes) and NOTHING_RAN not in measurement.error:
            raise Failure(f"{way}: the measurement ended with {code}: {measurement.error[-300:]}")
        if code == INTERRUPTED and "Traceback" in measurement.error:
            raise Failure(f"{way}: {measurement.error[-300:]}")
        # The next run removes a log that its own could not.
        measurement.check_it_is_gone(
            ENDING_S, f"roofwright-{first.pid}-*.log" if INTERRUPTED in WAYS[way].codes else ""
        )
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
    for key, row in kept(data).items():
        if isinstance(row, Run | RoofMeasurement | Workload | Profile) and row.status != "ok":
            raise Failure(f"{_text(key)} is {row.status}: {row.reason}")


def torment(words: list[str], folder: Path, kills: int, chance: Random, longest_s: float) -> tuple[Path, Counter[str]]:
    """Kill a measurement in all ways in turn, let it end, and check its cache after each kill. Raises Failure.

    Return the last cache and what was counted.
    """
    counted, before, data = Counter[str](), Rows(), folder / "0"
    for number, way in enumerate(islice(cycle(WAYS), kills)):
        after_s, is_over = chance.uniform(0, longest_s), False
        while not is_over:
            into = [*words, "--data", str(data), "--machine", "box"]
            is_over = is_killed(into, data, way, chance, after_s, at_a_write=number // len(WAYS) % 2 == 1)
            now = kept(data)
            check_nothing_is_lost(before, now)
            before = now
            if not is_over:
                check_it_ends(into, data)
                counted["ended before"] += 1
                data, before = folder / str(counted["ended before"]), {}
                after_s /= 2  # else a quick machine would always be done before
        counted["kills"] += 1
        counted["met something half written"] += is_half_written(data)
    check_it_ends([*words, "--data", str(data), "--machine", "box"], data)
    now = kept(data)
    check_nothing_is_lost(before, now)
    counted["rows at the end"] = len(now)
    return data, counted


def main(argv: Sequence[str]) -> int:
    flags = argparse.ArgumentParser(description="Kill a measurement again and again, and check what it lost.")
    flags.add_argument("--kills", type=int, default=100, metavar="N", help="how often (default: %(default)s)")
    flags.add_argument("--seed", type=int, default=1, metavar="N", help="of the moments (default: %(default)s)")
    flags.add_argument("--sleeps", action="store_true", help="sleep instead of running networks")
    chosen = flags.parse_args(argv)
    words, longest_s = command(sleeps=chosen.sleeps), LONGEST_SLEEPS_S if chosen.sleeps else LONGEST_S
    try:
        with tempfile.TemporaryDirectory() as folder:
            _, counted = torment(words, Path(folder), chosen.kills, Random(chosen.seed), longest_s)
    except (UserError, Failure) as problem:
        print(f"FAILED (seed {chosen.seed}): {problem}")
        return 1
    print("; ".join(f"{name}: {number}" for name, number in counted.items()))
    print("No row was lost or doubled, every table was readable, every process ended, and no log stayed.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
