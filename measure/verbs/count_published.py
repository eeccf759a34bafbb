"""Count FLOP and bytes of the models in data/published/measurements, forward and backward, for one input at fp32.
Stop it at any time: the same command resumes.

--models GLOB+  count only these (default: all)
--budget TIME  stop after this time, such as 90s, 10m or 1h30m
--force  count again what has been counted
"""

import argparse
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from measure.cache import table
from measure.cache.schema import TABLES, file_of
from measure.cache.workload_records import Operator
from measure.counting import count
from measure.domain.models import Model
from measure.domain.values import si
from measure.domain.words import FULL_PRECISION
from measure.errors import UserError, as_called, chosen
from measure.machine.device import Device
from measure.models import catalog
from measure.models.libraries import TIMM
from measure.published.records import PublishedCount, PublishedKind, PublishedTiming
from measure.run import runner
from measure.run.task import Failure, Task
from measure.run.worker import Worker
from measure.timing.sampling import Sampling
from measure.verbs.flags import check_writable, parse_time
from measure.verbs.terminal import make_console, stop_as_by_ctrl_c
from roofwright.command_line import INTERRUPTED, data_flag

BATCHES = (1, 64)  # the difference gives the bytes of each further input; some operators copy only a large batch
Shape = tuple[str, int | None]  # a model and its input size; None: the model's own size
DEFAULTS = {"models": ["*"]}


def main(flags: argparse.Namespace) -> int:
    """Return exit code 0, or 130 when stopped from the keyboard. Raises UserError for bad input."""
    deadline = time.monotonic() + parse_time("--budget", flags.budget) if flags.budget else None
    counts = PublishedCounts(flags.data)
    tasks = planned(flags.data, flags.models, set() if flags.force else counts.counted())
    if not tasks:
        print(f"Nothing left to count: see {counts.folder}")
        return 0
    check_writable(flags.data)
    stop_as_by_ctrl_c()
    display = runner.RunProgress(tasks, make_console())
    try:
        with closing(Worker("cpu", 1, Sampling())) as worker, display:
            display.begin_part("counts", tasks)
            summary = runner.run(tasks, worker, counts.put, display, deadline)
    except KeyboardInterrupt:
        print(f"\nStopped after {display.done} of {display.total}; to go on: {flags.command}")
        return INTERRUPTED
    resume = [runner.resumption(flags.command, flags.force)] if summary.left else []
    print("\n".join([*runner.lines(summary, [str(counts.folder)]), *resume]))
    print(f"Next: {as_called('report')}{data_flag(flags.data)}")
    return 0


def planned(data: Path, globs: Sequence[str], counted: set[Shape]) -> list["PublishedCountTask"]:
    """Return tasks for the timed models and sizes without counts, in the table's order."""
    path = file_of(PublishedTiming, data)
    timed = dict.fromkeys((row.model, row.input_size) for row in table.read(path, PublishedTiming))
    if not timed:
        raise UserError(f"{path}: holds no timings; add some with {as_called('measure add-published')}")
    models = chosen("--models", globs, {model for model, _ in timed})
    return [PublishedCountTask(*shape) for shape in timed if shape[0] in models and shape not in counted]


@dataclass(frozen=True)
class PublishedCountTask(Task):
    """Counts a model at ``input_size`` pixels on each side; None: the model's own size."""

    name: str
    input_size: int | None
    is_of_machine = False

    @property
    def label(self) -> str:
        return f"{self.name} at {self.input_size or 'its own size'}"

    @property
    def model(self) -> Model:
        """The model at that size. Raises NotImplementedError if the installed libraries lack it."""
        try:
            (model,) = catalog.find([self.name if ":" in self.name else f"torchvision:{self.name}"])
        except UserError as problem:
            raise NotImplementedError(str(problem).removeprefix("--models: ")) from None
        size = self.input_size
        return model if size is None else replace(model, input_shape=(model.input_shape[0], size, size))

    def run(self, _device: Device, _sampling: Sampling, beat: Callable[[], None]) -> list[count.Count]:
        return count.count_all(self.model, BATCHES, FULL_PRECISION, None, beat, may_run=False)  # rows are of any input

    def store(self, cache: Any, outcome: list[count.Count] | Failure) -> None:
        if isinstance(outcome, Failure):
            cache.add(PublishedCount(self.name, self.input_size, outcome.status, outcome.reason), [])
            return
        one, many = outcome
        shared = {field.name for field in fields(PublishedCount)} - {"model", "input_size"}  # with a workload
        columns: dict[str, Any] = {column: getattr(one.workload, column) for column in shared}
        if self.name.startswith(TIMM.prefix):
            columns["family"] = TIMM.module_of(self.name)
        of_many = _sum_by_kind(many.operators)
        kinds = []
        for key, sums in _sum_by_kind(one.operators).items():
            further_byte = max(round((of_many[key]["byte"] - sums["byte"]) / (BATCHES[1] - 1)), 0)
            kinds.append(PublishedKind(self.name, self.input_size, *key, **sums, further_byte=further_byte))
        cache.add(PublishedCount(self.name, self.input_size, **columns), kinds)

    def summary(self, result: list[count.Count]) -> str:
        first = result[0].workload
        return si(first.forward_flop or 0, "FLOP") + (f"; {first.reason}" if first.reason else "")


def _sum_by_kind(operators: Sequence[Operator]) -> dict[tuple[str, str], dict[str, Any]]:
    """Sum operators by stage and kind of layer."""
    sums: dict[tuple[str, str], Any] = defaultdict(Counter)
    for row in operators:
        of_one = {"calls": 1, "flop": row.flop, "other_flop": row.other_flop, "byte": row.byte}
        sums[row.stage, row.layer_kind].update({column: row.calls * number for column, number in of_one.items()})
    return sums


class PublishedCounts:
    """The two tables, which several processes may fill. A model's row follows its kinds, and commits them."""

    def __init__(self, data: Path) -> None:
        self._path = file_of(PublishedCount, data)
        self._kinds = table.ChildTable(file_of(PublishedKind, data), PublishedKind, TABLES[PublishedCount].key)
        self.folder = self._path.parent

    def counted(self) -> set[Shape]:
        return {(row.model, row.input_size) for row in table.read(self._path, PublishedCount)}

    def add(self, counted: PublishedCount, kinds: Sequence[PublishedKind]) -> None:
        """Add a model at a size, or replace its earlier rows and those that a kill left."""
        with table.in_turn(self.folder):
            self._kinds.owners = None  # another process may have written
            self._kinds.put([(counted, kinds)])
            table.put(self._path, PublishedCount, table.read(self._path, PublishedCount), [counted])

    def put(self, task: Task, outcome: Any) -> None:
        task.store(self, outcome)  # type: ignore[arg-type]
