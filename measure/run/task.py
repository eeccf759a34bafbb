"""A task of a run, its outcome, and the cache it is planned from and stored in. ``sections.py`` lists all kinds."""

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Self

from measure.cache.folders import MachineFolder, Workloads
from measure.domain.cell import Cell
from measure.domain.records import Environment
from measure.domain.values import now
from measure.errors import UserError, one_line
from measure.machine.device import Device
from measure.machine.environment import folder_name, version
from measure.run.request import Request
from measure.timing.sampling import Sampling

BEFORE, AFTER = -1, 10**9  # the blocks before all rounds and after them


class Tier(Enum):
    """The turns of a run with a budget and their titles: wherever it ends, the paper has gained the most."""

    COUNTS = "counts"  # FLOP and bytes of the first models
    FIRST_LATENCY = "a first latency"  # of a leading model: a budget that ends in the roofs has shown something
    FIRST_ROOF = "a first roof"  # one matrix product and one stream through memory: enough to draw a roof
    FIRST_CELLS = "batch {first}"  # one cell of every model, before any model has a second
    SECOND_CELLS = "batch {second}"  # a second batch size of every model
    NAMED_CELLS = "other batch sizes"  # of every model, if the user named the batch sizes
    STEPS = "training steps"  # of the two leading models
    PROFILES = "operators"  # of the two leading models
    OTHER_CELLS = "other cells"  # and profiles of the other models, model by model
    LONG = "long cells"  # each would take a large share of the budget; the shortest first
    ROUNDS = "further rounds"  # the second and third
    MORE_ROUNDS = "more rounds"  # of cells with wide intervals, or that other programs disturbed
    ROOFS = "finer roofs"  # at the precision of the models, and the clock
    REST = "caches and other precisions"


@dataclass(frozen=True)
class Failure:
    """Why a task has no result: the status of its rows, and a reason, which is cut to one short line."""

    status: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", one_line(self.reason))


KILLED = Failure(
    "killed",
    "the process was killed from outside, and the system counted no kill for want of memory; the next run tries again",
)

Columns = dict[str, Any]


class Task:
    """Something to measure and to keep in the cache. ``label`` names it to users."""

    section: ClassVar[str]
    help: ClassVar[str]  # what the section measures, for ``--help``
    is_of_machine: ClassVar[bool] = True  # False if the result is the same on every machine
    trains: ClassVar[bool] = False  # whether the section runs training steps

    @classmethod
    def missing(cls, request: Request, cache: "RunCache") -> list[Self]:
        """Return the requested tasks that the cache lacks; with ``request.force`` all requested tasks."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        raise NotImplementedError

    @property
    def columns(self) -> Columns:
        """What the task measures, for ``--plan --json``: some of ``verbs.listing.TASK_KEYS``."""
        return {}

    @property
    def block(self) -> int:
        """Tasks of a block run in random order; a block ends before the next begins."""
        return BEFORE

    def tier(self, request: Request) -> Tier:
        """Return the task's turn in a run with a budget."""
        return Tier.REST

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

    def run(self, device: Device, sampling: Sampling, beat: Callable[[], None]) -> Any:
        """Do the task in this process, after ``device.prepare``. Raises whatever a library raises."""
        raise NotImplementedError

    def store(self, cache: "RunCache", outcome: Any) -> None:
        """Write a result or a Failure into the cache."""
        raise NotImplementedError

    def summary(self, result: Any) -> str:
        """Describe a result in a few words."""
        raise NotImplementedError

    def describe(self, outcome: Any) -> str:
        return f"{outcome.status}: {outcome.reason}" if isinstance(outcome, Failure) else self.summary(outcome)


@dataclass(frozen=True)
class RunCache:
    """The tables of one run on one machine, called a session. ``seed`` decides the order of its cells."""

    workloads: Workloads
    folder: MachineFolder
    environment: Environment
    seed: int = 0
    session: str = field(default_factory=now)  # when it began
    version: str = field(default_factory=version)

    def put(self, task: Task, outcome: Any) -> None:
        """Write a task's result or Failure."""
        if task.is_of_machine:
            self.folder.put_environment(self.environment)
        task.store(self, outcome)

    def rows(self, table: Sequence[Any]) -> list[Any]:
        """Keep the rows that this environment measured."""
        return [row for row in table if row.environment_id == self.environment.environment_id]

    def tried(self, table: Sequence[Any]) -> list[Any]:
        """Keep the same rows, without failures that are tried again: of tasks that were killed in an earlier session,
        and of another version of this program.
        """
        return [
            row
            for row in self.rows(table)
            if row.status == "ok"
            or row.session == self.session
            or (row.status != KILLED.status and row.version == self.version)
        ]

    def key(self, cell: Cell) -> Columns:
        """Return the columns that identify the cell of a row."""
        return {"environment_id": self.environment.environment_id, **cell._asdict()}

    def signature(self, outcome: Any) -> Columns:
        """Return the columns that say how a row's task ended, when, in which session, by which version."""
        status = asdict(outcome) if isinstance(outcome, Failure) else {"status": "ok", "reason": None}
        return {**status, "recorded_at": now(), "session": self.session, "seed": self.seed, "version": self.version}

    def places(self, tasks: Collection[Task]) -> list[str]:
        """Return the folders that the tasks' rows go into."""
        return sorted({str(self.folder.folder if task.is_of_machine else self.workloads.folder) for task in tasks})


def machine_folder(data: Path, name: str | None, environment: Environment) -> MachineFolder:
    """Return this machine's folder. Raises UserError if another machine measured into the folder of that name."""
    folder = MachineFolder(data, name or folder_name(environment))
    if folder.folder.is_file():
        raise UserError(f"--machine: {folder.folder} is a file; name a folder")
    others = {row.name for row in folder.rows(Environment) if row.hardware_id != environment.hardware_id}
    if others:
        raise UserError(f"--machine: {folder.folder} holds another machine ({others.pop()}); choose another name")
    return folder
