"""Published measurements: ``measure add-published`` and ``measure count-published``."""

import argparse
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from measure.domain.schema import TABLES, file_of
from measure.errors import as_called
from measure.machine.device import Device
from measure.published import add, count
from measure.published.records import PublishedCount, PublishedTiming
from measure.run import runner
from measure.run.tasks import Failure, Task
from measure.run.worker import Worker
from measure.timing.sampling import Sampling
from measure.verbs.flags import Verbs, add_verb, check_writable, next_step, parse_time
from measure.verbs.terminal import make_console, name_first, stop_as_by_ctrl_c
from roofwright.command_line import INTERRUPTED, data_flag


def add_verbs(verbs: Verbs) -> None:
    flags = add_verb(verbs, "add-published", add_published)
    text = f"the table, with the columns of {' or '.join(TABLES[each].name for each in add.RECORDS)}"
    flags.add_argument("file", metavar="FILE", help=text)
    flags.add_argument("--replace", action="store_true", help="replace rows that have the same key but other values")
    flags = add_verb(verbs, "count-published", count_published)
    flags.add_argument("--models", nargs="+", default=["*"], metavar="GLOB", help="count only these (default: all)")
    text = "stop after this time, such as 90s, 10m or 1h30m"
    flags.add_argument("--budget", type=parse_time, metavar="TIME", help=text)
    flags.add_argument("--force", action="store_true", help="count all again")


def add_published(flags: argparse.Namespace) -> int:
    """Check a CSV table of published measurements, and add its rows to data/published/measurements (docs/data.md). Any
    delimiter; latency_ms is converted. Adds nothing if a row is wrong or faster than its chip.
    """
    file = Path(flags.file)
    record, rows = add.read(file, flags.data)
    check_writable(flags.data)
    new = add.put(file, record, rows, flags.data, flags.replace)
    rest = ": the others are there or repeat a row" if len(new) < len(rows) else ""
    print(f"Added {len(new)} of {len(rows)} rows to {file_of(record, flags.data)}{rest}")
    if wrong := add.contradictions(rows):
        print(f"Rate × time is not the batch in {len(wrong)} of {len(rows)} rows: {name_first(wrong)}")
    if new:
        print(f"Check that bib/references.bib has an entry for {', '.join(sorted({row.source for row in new}))}.")
    if new and record is PublishedTiming:
        print(f"Next: {as_called('measure count-published')}{data_flag(flags.data)}")
    return 0


def count_published(flags: argparse.Namespace) -> int:
    """Count FLOP and bytes of the models in data/published/measurements, forward and backward, for one input at fp32.
    Stop it at any time: the same command resumes.
    """
    deadline = time.monotonic() + flags.budget if flags.budget else None
    shapes, counted = count.timed(flags.data, flags.models), set() if flags.force else count.counted(flags.data)
    tasks = [PublishedCountTask(*shape) for shape in shapes if shape not in counted]
    folder = str(file_of(PublishedCount, flags.data).parent)
    if not tasks:
        print(f"Nothing left to count: see {folder}")
        return 0
    check_writable(flags.data)
    stop_as_by_ctrl_c()
    display = runner.RunProgress(tasks, make_console())
    try:
        with closing(Worker("cpu", 1, Sampling())) as worker, display:
            display.begin_part("counts", tasks)
            summary = runner.run(tasks, worker, partial(_store, flags.data), display, deadline)
    except KeyboardInterrupt:
        print(f"\nStopped after {display.done} of {display.total}; to go on: {flags.command}")
        return INTERRUPTED
    resume = [runner.resumption(flags.command, flags.force)] if summary.left else []
    print("\n".join([*runner.lines(summary, [folder]), *resume]))
    print(next_step(flags.data))
    return 0


@dataclass(frozen=True)
class PublishedCountTask(Task):
    """Count a model at ``input_size`` pixels on each side, or at its own size (None)."""

    name: str
    input_size: int | None
    is_of_machine = False

    @property
    def label(self) -> str:
        return f"{self.name} at {self.input_size or 'its own size'}"

    def run(self, _device: Device, _sampling: Sampling, beat: Callable[[], None]) -> count.Rows:
        return count.count(self.name, self.input_size, beat)


def _store(data: Path, task: Any, outcome: count.Rows | Failure) -> None:
    if isinstance(outcome, Failure):
        outcome = PublishedCount(task.name, task.input_size, outcome.status, outcome.reason), []
    count.add(data, *outcome)
