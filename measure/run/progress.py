"""What a user sees of a run: a bar on a terminal, one line a task where the output is piped."""

import time
from collections.abc import Iterable
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from measure.cache.records import STEP, STREAM_ARRAYS, Ceiling
from measure.hardware_counters.counted_cell import CountedCell
from measure.profiling.profile import Profiled
from measure.run.plan import Cell, RoundTask, Task
from measure.run.worker import Failure, Outcome
from measure.timing.sampling import Timing
from measure.timing.statistics import estimate_median
from measure.timing.training import StepTiming


def duration(seconds: float) -> str:
    """A time for people: ``40 s``, ``12 min``, ``1 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


def latency(seconds: float) -> str:
    """A latency for people, three significant digits: ``1.23 s``, ``45.6 ms``, ``789 µs``."""
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
    unit, size = next((pair for pair in units if seconds >= 0.9995 * pair[1]), units[-1])
    return f"{seconds / size:#.3g}".rstrip(".") + f" {unit}"


def describe(outcome: Outcome) -> str:
    """A task's outcome in a few words."""
    if isinstance(outcome, Failure):
        return f"{outcome.status}: {outcome.reason}"
    if isinstance(outcome, StepTiming):
        return describe(outcome.phases[STEP])
    if isinstance(outcome, Timing):
        estimate = estimate_median(outcome.latencies_s)
        width = estimate.relative_half_width
        spread = "no interval" if width is None else f"±{100 * width:.1f} %"
        return f"{latency(estimate.median)} ({spread}, {len(outcome.latencies_s)} samples)"
    if isinstance(outcome, Profiled):
        share = sum(each.time_s for each in outcome.operators) / outcome.profiled_s
        times = f"{latency(outcome.plain_s)}, profiled {latency(outcome.profiled_s)}"
        return f"{times}, {share:.0%} of it in operators"
    if isinstance(outcome, CountedCell):
        kernels = outcome.counted.kernels
        return (
            f"{sum(each.calls for each in kernels)} kernels, {latency(sum(each.time_s for each in kernels))}"
        )
    if isinstance(outcome, Ceiling):
        assert outcome.latency_s is not None
        if outcome.kernel == "chain":
            return f"{outcome.size / outcome.latency_s / 1e9:.3f} additions/ns"
        if outcome.kernel in STREAM_ARRAYS:
            return f"{outcome.byte / outcome.latency_s / 1e9:.1f} GB/s"
        return f"{outcome.flop / outcome.latency_s / 1e9:.1f} GFLOP/s"
    counted = outcome[0].workload
    assert counted.forward_flop is not None
    return f"{counted.forward_flop / counted.batch / 1e9:.2f} GFLOP an input"


class TimeLeft:
    """Estimates the time left: a cell's later rounds take what its first took, other tasks what their effort says."""

    def __init__(self, tasks: Iterable[Task]) -> None:
        self._left = list(tasks)
        self._done: list[tuple[float, float]] = []
        self._cells: dict[Cell, float] = {}

    def done(self, task: Task, seconds: float) -> None:
        self._left.remove(task)
        self._done.append((task.effort, seconds))
        if isinstance(task, RoundTask):
            self._cells[task.cell] = seconds

    def skip(self, task: Task) -> None:
        self._left.remove(task)

    def seconds(self) -> float | None:
        """None until a task is done. The latest tasks count, since they resemble the next ones most."""
        latest = self._done[-12:]
        if not latest:
            return None
        rate = sum(seconds for _, seconds in latest) / sum(effort for effort, _ in latest)
        known = [self._cells.get(task.cell) if isinstance(task, RoundTask) else None for task in self._left]
        return sum(
            task.effort * rate if seconds is None else seconds
            for task, seconds in zip(self._left, known, strict=True)
        )

    def text(self) -> str:
        left = self.seconds()
        return "" if left is None else f"about {duration(left)} left"


class RunProgress:
    """Shows a run's progress; a context manager, so that the terminal is left in order."""

    def __init__(self, tasks: list[Task], console: Console) -> None:
        self._console = console
        self._total = len(tasks)
        self.done = 0
        """The tasks that have ended, skipped ones among them."""
        self._time_left = TimeLeft(tasks)
        self._began = 0.0
        self._bar = Bar(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=console,
            disable=not console.is_interactive,
        )
        self._shown: TaskID = self._bar.add_task("", total=self._total, left="")

    def __enter__(self) -> "RunProgress":
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, task: Task) -> None:
        self._began = time.monotonic()
        self._bar.update(self._shown, description=task.label)

    def end(self, task: Task, outcome: Outcome) -> None:
        self.done += 1
        self._time_left.done(task, time.monotonic() - self._began)
        self._bar.update(self._shown, advance=1, left=self._time_left.text())
        line = f"{task.label}: {describe(outcome)}"
        if not self._console.is_interactive:
            line = f"[{self.done}/{self._total}] {line}; {self._time_left.text()}"
        self.say(line, "red" if isinstance(outcome, Failure) else None)

    def skip(self, task: Task) -> None:
        """Of a round that is not measured because one before failed."""
        self.done += 1
        self._time_left.skip(task)
        self._bar.update(self._shown, advance=1, left=self._time_left.text())

    def say(self, text: str, style: str | None = None) -> None:
        """Prints a line above the bar, in a style where the terminal has colours and NO_COLOR is not set."""
        self._console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)
