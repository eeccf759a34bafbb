"""Tests whether a measurement that is killed again and again loses rows, or duplicates them.

    python benchmarks/kills.py
    python benchmarks/kills.py --kills 20 --seed 7 --sleeps

``python -m measure`` counts and times two small networks into a temporary folder. It is killed and restarted a hundred
times, and then left to finish. ``WAYS`` lists the kills; half come at any moment, half within milliseconds of a write.
After each kill every process must end by itself, every table must be readable, every earlier row must still be there,
no key may occur twice, and each run must have its samples. No log may stay in the folder for temporary files, at the
latest after the next run. A measurement that finishes before it is killed is followed by another in a new folder. The
measured values mean nothing. With ``--sleeps`` a cell is a short sleep, and a kill takes a tenth of the time: plan,
lock, runner, worker and cache are the real ones.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, cycle
from pathlib import Path
from random import Random
from typing import Any

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))  # a checkout counts, installed or not

from measure.cache.folders import MachineFolder, Workloads, machine_names
from measure.cache.records import Environment, KernelTime, OperatorTime, Profile, RoofMeasurement, Run, Sample
from measure.cache.schema import TABLES
from measure.cache.table import read
from measure.cache.workload_records import Layer, Operator, Workload
from measure.errors import UserError
from measure.run.task import KILLED
from roofwright.command_line import INTERRUPTED

ROOT = Path(__file__).parents[1]
SELECTION = (  # without roofs: one measured under load is measured again, and so changes by right
    "--device cpu --quick --target 50% --sections workload inference training operators "
    "--batch-sizes 1 2 --training-batch-sizes 2 --models helpers.small_network:network squeezenet1_0"
)
SLEEPS = (  # three rounds whatever a busy machine makes of the sleeps: a wide interval would ask for more
    "--device cpu --sections inference --variants eager --models alexnet resnet18 vgg11 --batch-sizes 1 --max-rounds 3"
)
KILLS = 100
LONGEST_S = 14.0
"""The longest that a measurement lives, of which starting torch takes some seconds."""

LONGEST_SLEEPS_S = 1.5

DELAY_S = 0.005
"""How soon after it sees a write the kill comes at the latest: the tables of a round are written within that."""

ENDING_S = 60.0
"""How long processes may take to end after the first of them was killed: one that imports torch ends after that."""

WAYS = {
    "everything": "SIGKILL to all processes at once",
    "group": "SIGKILL to the group of the first process, as a shell ends a job",
    "worker": "SIGKILL to one of the processes that the first one started, which must go on",
    "terminate": "SIGTERM to the first process, as a system does that shuts down",
    "interrupt": "SIGINT to the group, as Ctrl-C does",
}
ENDINGS = {
    "everything": (-signal.SIGKILL,),
    "group": (-signal.SIGKILL,),
    "worker": (-signal.SIGKILL,),
    "terminate": (INTERRUPTED, -signal.SIGTERM),  # the second before it has set up how to end
    "interrupt": (INTERRUPTED, -signal.SIGINT),
}
"""The exit codes of each way."""

NOTHING_RAN = "Fatal Python error: init_"
"""What an interpreter says, with exit code 1, that Ctrl-C ends before it runs any of our code."""

HEEDING = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
"""A shell's background job, which this program may be, ignores Ctrl-C, and so would what it starts."""

GOES_ON_S = 3.0
"""How long a measurement lives at most after its worker was killed."""

Rows = dict[tuple[Any, ...], Any]


class Violation(Exception):  # noqa: N818 - of what this program is about
    """A broken promise, in one sentence."""


def kept(data: Path) -> Rows:
    """Return every committed row of a cache by table and key. Raises Violation where rows contradict each other."""
    workloads = Workloads(data)
    tables: list[Iterable[Any]] = [workloads.rows(Workload), workloads.rows(Layer), workloads.rows(Operator)]
    for name in machine_names(data):
        folder = MachineFolder(data, name)
        runs = folder.rows(Run)
        tables += [folder.rows(Environment), folder.rows(RoofMeasurement), runs, folder.rows(Sample)]
        tables += [folder.rows(Profile), folder.rows(OperatorTime), folder.rows(KernelTime)]
    rows: Rows = {}
    for row in chain.from_iterable(tables):
        key = (type(row), *(getattr(row, name) for name in TABLES[type(row)].key))
        if key in rows:
            raise Violation(f"{_said(key)} stands twice")
        rows[key] = row
    samples: dict[tuple[Any, ...], set[int]] = {key[1:]: set() for key in rows if key[0] is Run}
    for key in rows:
        if key[0] is Sample:
            samples[key[1:-1]].add(key[-1])
    for cell, numbers in samples.items():
        run = rows[Run, *cell]
        if numbers != set(range(len(numbers))) or (run.status == "ok") != bool(numbers):
            raise Violation(f"{_said((Run, *cell))}, which is {run.status}, has the samples {sorted(numbers)}")
    return rows


def _said(key: tuple[Any, ...]) -> str:
    return f"{key[0].__name__} {' '.join(map(str, key[1:]))}"


def check_nothing_is_lost(before: Rows, now: Rows) -> None:
    """Raise Violation that names the first row that is missing or changed. What was killed is tried again."""
    for key, row in before.items():
        if now.get(key) != row and getattr(row, "status", "") != KILLED.status:
            raise Violation(f"{_said(key)} is {'changed' if key in now else 'lost'}")


def is_half_written(data: Path) -> bool:
    """Return whether anything is uncommitted: a torn line, a table's next version, samples without their run."""
    folders = [MachineFolder(data, name) for name in machine_names(data)]
    return (
        any(data.rglob("*.part"))
        or any(not path.read_bytes().endswith(b"\n") for path in data.rglob("*.csv"))
        or any(len(read(each.folder / "samples.csv", Sample)) > len(each.rows(Sample)) for each in folders)
    )


@dataclass(frozen=True)
class Kill:
    """A way of ``WAYS``, and when: in seconds from the start, or ``delay_s`` after the first write from then on."""

    way: str
    after_s: float
    delay_s: float | None
    goes_on_s: float


def kills(chance: Random, count: int, longest_s: float) -> list[Kill]:
    """Return kills of all ways in turn."""
    return [
        Kill(
            way,
            chance.uniform(0, longest_s),
            chance.uniform(0, DELAY_S) if number // len(WAYS) % 2 else None,
            chance.uniform(0, GOES_ON_S),
        )
        for number, way in zip(range(count), cycle(WAYS), strict=False)
    ]


class Measurement:
    """A command that measures into a folder and may be killed."""

    def __init__(self, command: Sequence[str], data: Path) -> None:
        self.data = data
        self._command = [*command, "--data", str(data), "--machine", "box"]
        self._log = data.with_suffix(".log")

    def is_killed(self, kill: Kill) -> bool:
        """Start and kill it; return False if it finished first.

        Raises Violation where it failed by itself, or leaves a process or a log behind.
        """
        with self._log.open("w") as log, self._started(log) as measurement:
            try:
                measurement.wait(kill.after_s)
            except subprocess.TimeoutExpired:
                if kill.delay_s is not None:
                    self._wait_for_a_write(measurement)
                    time.sleep(kill.delay_s)
            others = _others(measurement.pid)
            has_lost_its_worker = kill.way == "worker" and bool(others)
            if has_lost_its_worker:
                _end(Random(kill.after_s).choice(others))
                with suppress(subprocess.TimeoutExpired):
                    measurement.wait(kill.goes_on_s)
                others += _others(measurement.pid)
            if measurement.poll() is None:
                match kill.way:
                    case "terminate":
                        measurement.terminate()
                    case "interrupt":
                        os.killpg(measurement.pid, signal.SIGINT)
                    case _:
                        os.killpg(measurement.pid, signal.SIGKILL)
            for process in others if kill.way == "everything" else ():
                _end(process)
            measurement.wait()
        said = self._log.read_text()
        is_by_us = measurement.returncode in (0, *ENDINGS[kill.way]) or NOTHING_RAN in said
        if not is_by_us or (measurement.returncode == INTERRUPTED and "Traceback" in said):
            raise Violation(f"{kill.way}: the measurement ended with {measurement.returncode}: {self._last_line()}")
        self._wait_for_the_ends(others, kill.way, measurement.pid)
        return measurement.returncode != 0 or has_lost_its_worker

    def _wait_for_the_ends(self, processes: Sequence[psutil.Process], way: str, pid: int) -> None:
        """Raise Violation if a process lives on, or if a log of the first, ``pid``, stays that it could remove.

        The logs of runs that could not are removed by the next one that gets as far as a log of its own.
        """
        ends = time.monotonic() + ENDING_S
        while True:
            alive = sum(not _has_ended(process) for process in processes)
            logs = self._logs(f"{pid}-*") if INTERRUPTED in ENDINGS[way] else []
            if not alive and not logs:
                break
            if time.monotonic() > ends:
                raise Violation(f"{way}: {alive} processes live on after {ENDING_S:g} s, and {len(logs)} logs stay")
            time.sleep(0.01)

    def _logs(self, whose: str = "*") -> list[Path]:
        return [*self._log.parent.glob(f"roofwright-{whose}.log")]

    def run_to_its_end(self) -> None:
        """Raises Violation where it fails, or leaves something unmeasured or without a result."""
        for _ in range(2):  # the second time nothing is left to do
            with self._log.open("w") as log, self._started(log) as measurement:
                if measurement.wait() != 0:
                    raise Violation(f"the measurement did not come to its end: {self._last_line()}")
        if not self._log.read_text().startswith("Nothing left to measure"):
            raise Violation(f"something was left: {self._last_line()}")
        if logs := self._logs():
            raise Violation(f"{len(logs)} logs stay")
        for key, row in kept(self.data).items():
            if isinstance(row, Run | RoofMeasurement | Workload | Profile) and row.status != "ok":
                raise Violation(f"{_said(key)} is {row.status}: {row.reason}")

    def _started(self, log: Any) -> "subprocess.Popen[bytes]":
        """Leader of a group of its own. What its processes leave in the folder for temporary files goes with ours."""
        environment = os.environ | {"TMPDIR": str(self._log.parent), "PYTHONPATH": str(ROOT / "tests")}
        return subprocess.Popen(
            self._command, cwd=ROOT, stdout=log, stderr=log, env=environment, start_new_session=True, preexec_fn=HEEDING
        )

    def _wait_for_a_write(self, measurement: "subprocess.Popen[bytes]") -> None:
        before = self._byte()
        while measurement.poll() is None and self._byte() == before:
            time.sleep(0.0005)

    def _byte(self) -> int:
        return sum(path.stat().st_size for path in self.data.rglob("*.csv"))

    def _last_line(self) -> str:
        return (self._log.read_text().strip().splitlines() or ["it said nothing"])[-1]


def _others(pid: int) -> list[psutil.Process]:
    """Return the processes that a process started."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _end(process: psutil.Process) -> None:
    with suppress(psutil.NoSuchProcess):
        process.kill()


def _has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@dataclass
class Tally:
    """The outcome of the kills."""

    kills: int = 0
    half_written: int = 0
    ends: int = 0
    rows: int = 0


def torment(command: Sequence[str], folder: Path, planned: Iterable[Kill], say: Callable[[str], None]) -> Tally:
    """Kill a measurement as planned, let it finish, and check its cache after each kill. Raises Violation."""
    tally, before = Tally(), Rows()
    measurement = Measurement(command, folder / "0")
    for kill in planned:
        while not measurement.is_killed(kill):
            tally.ends += 1
            check_nothing_is_lost(before, kept(measurement.data))
            measurement.run_to_its_end()
            measurement, before = Measurement(command, folder / str(tally.ends)), {}
            kill = replace(kill, after_s=kill.after_s / 2)  # else a quick machine would always be done before
        now = kept(measurement.data)
        check_nothing_is_lost(before, now)
        before = now
        tally.kills += 1
        tally.half_written += is_half_written(measurement.data)
        if tally.kills % 10 == 0:
            say(f"{tally.kills} kills, {len(now)} rows, {tally.ends} measurements that came to their end before")
    measurement.run_to_its_end()
    now = kept(measurement.data)
    check_nothing_is_lost(before, now)
    tally.rows = len(now)
    return tally


def sleeping() -> list[str]:
    """Return the command of a measurement whose cells are sleeps."""
    return [sys.executable, str(ROOT / "tests/helpers/measurement.py"), *SLEEPS.split()]


def main(argv: Sequence[str]) -> int:
    """Exit code 0, or 1 if something was lost, duplicated or unreadable, or did not end."""
    flags = argparse.ArgumentParser(description="Kill a measurement again and again, and check what it lost.")
    flags.add_argument("--kills", type=int, default=KILLS, metavar="N", help="how often (default: %(default)s)")
    flags.add_argument("--seed", type=int, default=1, metavar="N", help="of the moments (default: %(default)s)")
    flags.add_argument("--sleeps", action="store_true", help="sleep in place of networks")
    chosen = flags.parse_args(argv)
    planned = kills(Random(chosen.seed), chosen.kills, LONGEST_SLEEPS_S if chosen.sleeps else LONGEST_S)
    began = time.monotonic()
    try:
        with tempfile.TemporaryDirectory() as folder:
            command = sleeping() if chosen.sleeps else [sys.executable, "-m", "measure", *SELECTION.split()]
            tally = torment(command, Path(folder), planned, lambda text: print(text, flush=True))
    except (UserError, Violation) as problem:
        print(f"VIOLATION (seed {chosen.seed}): {problem}")
        return 1
    print(
        f"{tally.kills} kills in {(time.monotonic() - began) / 60:.0f} min, "
        f"{', '.join(f'{sum(kill.way == way for kill in planned)} {way}' for way in WAYS)}, "
        f"{sum(kill.delay_s is not None for kill in planned)} just after a write: "
        f"{tally.half_written} times something stood half written. "
        f"No row was lost, none stood twice, every table was readable, every worker ended, no log stayed; "
        f"at its end the measurement was complete, with {tally.rows} rows."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
