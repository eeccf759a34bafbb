"""A task of a run: its identity, turn, measurement and rows. ``sections.py`` lists all kinds of tasks."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import Any, ClassVar, Self

from measure.domain.latency import Cell
from measure.errors import one_line
from measure.machine.device import Device
from measure.run.request import Request
from measure.run.run_cache import KILLED_STATUS, RunCache
from measure.timing.sampling import Sampling

BEFORE, AFTER = -1, 10**9  # the blocks before all rounds and after them


class Tier(IntEnum):
    """The order of tasks in a run with a budget: wherever it ends, the paper has gained the most."""

    COUNTS = 0  # FLOP and bytes of the first models
    FIRST_ROOF = 1  # one matrix product and one stream through memory: enough to draw a roof
    FIRST_CELLS = 2  # one cell of every model, before any model has a second
    SECOND_CELLS = 3  # a second batch size of every model
    STEPS = 4  # a training step of the two leading models
    PROFILES = 5  # the operators of the two leading models
    OTHER_CELLS = 6  # the other cells, and profiles of the other models, model by model
    LONG = 7  # cells that would each take a large share of the budget, the shortest first
    ROUNDS = 8  # the second and third rounds
    ROOFS = 9  # finer roofs at the precision of the models, and the clock
    REST = 10  # roofs of caches and of other precisions, and further rounds of cells with wide intervals


@dataclass(frozen=True)
class Failure:
    """Why a task has no result: the status of its rows, and a reason, which is cut to one short line."""

    status: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", one_line(self.reason))


KILLED = Failure(
    KILLED_STATUS,
    "the process was killed (signal 9), and the system counted no kill for want of memory; the next run tries it again",
)

Columns = dict[str, Any]

TASK_COLUMNS: Columns = {  # the keys of a task in ``--plan --json``, with the value where a key does not apply
    "model": None, "batch_sizes": [], "phase": None, "precision": None, "variant": None, "round": None,
    "autocast": None, "roof_kernel": None, "size": None, "pace": None,
}  # fmt: skip


class Task(ABC):
    """Something to measure and to keep in the cache.

    ``help`` says in ``--help`` what the section measures. ``is_of_machine`` is False if the result is the same on every
    machine. ``trains`` marks sections that run training steps. ``label`` names the task to users. ``effort`` is its
    time relative to other tasks', for the time left. ``columns`` are some of ``TASK_COLUMNS``, for ``--plan --json``.
    """

    section: ClassVar[str]
    help: ClassVar[str]
    is_of_machine: ClassVar[bool] = True
    trains: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def missing(cls, request: Request, cache: RunCache) -> list[Self]:
        """Return the requested tasks that the cache lacks; with ``request.force`` all requested tasks."""

    @property
    @abstractmethod
    def label(self) -> str: ...

    @property
    @abstractmethod
    def effort(self) -> float: ...

    @property
    @abstractmethod
    def columns(self) -> Columns: ...

    @property
    def block(self) -> int:
        """Tasks of a block run in random order; a block ends before the next begins."""
        return BEFORE

    def tier(self, request: Request) -> Tier:
        """Return the task's turn in a run with a budget."""
        return Tier.REST

    @property
    def round_of(self) -> Cell | None:
        """The cell that this task is a round of: its rounds take equally long, and fail together."""
        return None

    @property
    def libraries(self) -> tuple[str, ...]:
        """The modules whose import takes seconds; a fork server imports them before it forks the task's process."""
        return ("torch",)

    def process(self, device_kind: str) -> Hashable:
        """Return a key: consecutive tasks with equal keys share a process. None asks for a process of its own."""
        return type(self), self.block

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that must be set before the process starts."""
        return {}

    @abstractmethod
    def run(self, device: Device, sampling: Sampling, beat: Callable[[], None]) -> Any:
        """Do the task in this process, after ``device.prepare``. Raises whatever a library raises."""

    @abstractmethod
    def store(self, cache: RunCache, outcome: Any) -> None:
        """Write a result or a Failure into the cache."""

    @abstractmethod
    def summary(self, result: Any) -> str:
        """Describe a result in a few words."""

    def describe(self, outcome: Any) -> str:
        """Describe an outcome in a few words."""
        return f"{outcome.status}: {outcome.reason}" if isinstance(outcome, Failure) else self.summary(outcome)


def status_columns(outcome: Any) -> Columns:
    """Return the columns ``status`` and ``reason`` of an outcome."""
    return asdict(outcome) if isinstance(outcome, Failure) else {"status": "ok", "reason": None}
