"""What a run is made of: the request, the cache that it fills, and the tasks that fill it.

A section is a subclass of ``Task`` with a ``section``, in a module of ``measure/run/sections``; its instances are the
tasks, which say what they are, do themselves and put what comes of it into the cache.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import IntEnum
from typing import Any, ClassVar, Self

from measure.cache.folders import MachineFolder, Workloads
from measure.cache.records import Cell, Environment
from measure.domain import precisions
from measure.domain.models import QUICK, STORY, Model
from measure.domain.values import now
from measure.domain.variants import SGD, usual, with_optimizer
from measure.domain.words import EAGER, INFERENCE, ROUNDS, TARGET, shape_name
from measure.errors import one_line
from measure.machine.device import Device
from measure.machine.environment import version
from measure.timing.sampling import Sampling

BEFORE, AFTER = -1, 10**9
"""The blocks of what is done before all rounds, and after them."""

FILLING_BATCH = 64
"""A batch size that fills most devices."""


class Tier(IntEnum):
    """The order of a run with a budget: what a page of the paper gains most from comes first.

    Wherever the budget ends, the paper has a roofline with points, latencies, and, if it lasted that long, a training
    step and the operators of a model. More rounds and finer roofs only sharpen what is there.
    """

    COUNTS = 0
    """FLOP and bytes of the first models."""
    FIRST_ROOF = 1
    """One matrix product and one stream through memory: a roof to draw against."""
    FIRST_CELLS = 2
    """One cell of every model, before any model has a second."""
    SECOND_CELLS = 3
    """A second batch size of every model."""
    STEPS = 4
    """A training step of the two leading models."""
    PROFILES = 5
    """The operators of the two leading models."""
    OTHER_CELLS = 6
    """The other cells, and profiles of the other models, model by model."""
    LONG = 7
    """Cells that would take a good part of the budget each, the shortest first."""
    ROUNDS = 8
    """The second and third rounds."""
    ROOFS = 9
    """Finer roofs at the precision that models run in, and the clock."""
    REST = 10
    """Caches, other precisions of products, and further rounds of the cells that need them."""


@dataclass(frozen=True)
class Request:
    """What a user asked for; ``training_models`` are those of ``models`` that are trained.

    Without ``variants`` or ``precisions`` those are run that are usual on the machine. Cells get ``rounds``, and
    further ones up to ``most_rounds`` while the interval between them is wider than ± ``target`` of the latency.
    ``budget_s`` is the time that the run may take, if it has an end. ``device_kind`` is what it is asked of.
    """

    models: Sequence[Model]
    batch_sizes: Sequence[int]
    precisions: Sequence[str]
    sections: Collection[str]
    variants: Sequence[str] = (EAGER,)
    training_models: Sequence[Model] = ()
    training_batch_sizes: Sequence[int] = ()
    optimizers: Sequence[str] = (SGD,)
    rounds: int = ROUNDS
    most_rounds: int = 0
    target: float = TARGET
    quick: bool = False
    force: bool = False
    budget_s: float | None = None
    device_kind: str = "cpu"

    def on(self, environment: Environment) -> "Request":
        """Return what is asked of this machine."""
        return replace(
            self,
            precisions=self.precisions or precisions.default_precisions(environment),
            variants=self.variants or usual(environment),
            device_kind=environment.device,
        )

    @property
    def leading(self) -> Sequence[Model]:
        """The two models of the paper's story, or the first two: those of the quick selection before others."""
        story = [model for model in self.models if model.name in STORY]
        return story if len(story) == len(STORY) else sorted(self.models, key=lambda each: each.name not in QUICK)[:2]

    def rank(self, model: Model) -> int:
        """Return which models come first: 0 for the leading ones, 1 for the quick selection, 2 for the rest.

        All others rank 1 where few models are asked for, or none of the quick selection.
        """
        if model in self.leading:
            return 0
        quick = {each.name for each in self.models} & set(QUICK)
        return 1 if len(self.models) <= len(QUICK) or model.name in quick or not quick else 2

    @property
    def second_batch(self) -> int | None:
        """The batch size that every model has next after its smallest: one that fills most devices, if asked for."""
        larger = [size for size in self.batch_sizes if size > min(self.batch_sizes)]
        return max((size for size in larger if size <= FILLING_BATCH), default=min(larger, default=None))

    def is_base(self, cell: Cell) -> bool:
        """Return whether a cell has the first precision and the first variant that the request asks for."""
        return (cell.precision, cell.variant) == (self.precisions[0], self.variants[0])

    def cells(self, phase: str) -> list[tuple[Model, Cell]]:
        """Return the cells of inference or of training steps."""
        models, sizes, ways = self.models, self.batch_sizes, self.variants
        if phase != INFERENCE:
            models, sizes = self.training_models, self.training_batch_sizes
            ways = [with_optimizer(way, optimizer) for optimizer in self.optimizers for way in self.variants]
        return [
            (model, Cell(model.name, batch, precision, phase, way))
            for batch in sizes
            for precision in self.precisions
            for way in ways
            for model in models
        ]


@dataclass(frozen=True)
class Failure:
    """Why a task has no result: one of the statuses of a run, and a reason, whose text is made one short line."""

    status: str
    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", one_line(self.reason))


KILLED = Failure(
    "killed",
    "the process was killed (signal 9), and the system counted no kill for want of memory; the next run tries it again",
)
"""An outcome that says nothing of the task, which the next sitting does again."""


Columns = dict[str, Any]


class Task(ABC):
    """Something to do, and to keep in the cache.

    Of the class, ``order`` is the section's place in a plan, ``help`` what it does; a run that names no sections has
    those that are usual. ``is_of_machine`` is False where the result
    is the same on every machine, ``trains`` says that training steps are run, ``cluster_gap`` why it cannot be done on
    a cluster. Of the task, ``label`` is what users see, ``effort`` a guess of its time relative to other tasks', for
    the estimate of the time left.
    """

    section: ClassVar[str]
    order: ClassVar[int]
    help: ClassVar[str]
    is_usual: ClassVar[bool] = True
    is_of_machine: ClassVar[bool] = True
    trains: ClassVar[bool] = False
    cluster_gap: ClassVar[str | None] = None

    sections: ClassVar[dict[str, "type[Task]"]] = {}
    """Every section, by name."""

    def __init_subclass__(cls) -> None:
        if "section" in vars(cls):
            Task.sections[cls.section] = cls

    @classmethod
    @abstractmethod
    def missing(cls, request: Request, cache: "Cache") -> list[Self]:
        """Return the tasks that the request asks for and the cache does not hold, or all of them by force."""

    @classmethod  # noqa: B027 - most sections need nothing
    def check(cls, device: Device) -> None:
        """Raise UserError where the section cannot be measured on the device, before anything is."""

    @property
    @abstractmethod
    def label(self) -> str: ...

    @property
    @abstractmethod
    def effort(self) -> float: ...

    @property
    def block(self) -> int:
        """The place in a plan: tasks of a block are done in a random order, all of them before those of the next."""
        return BEFORE

    def tier(self, request: Request) -> Tier:
        """Return when the task has its turn in a run with a budget, which goes tier by tier."""
        return Tier.REST

    @property
    def round_of(self) -> Cell | None:
        """The cell that the task is one of several rounds of: it takes as long as the others, and fails with them."""
        return None

    @property
    def libraries(self) -> tuple[str, ...]:
        """The modules that it imports for seconds, and that its process may have imported before."""
        return ("torch",)

    def process(self, device_kind: str) -> Hashable:
        """Return what tasks have in common that do with one process; None for a task that needs its own."""
        return type(self), self.block

    @property
    def variables(self) -> dict[str, str]:
        """The environment variables that the process must have from its start."""
        return {}

    @property
    @abstractmethod
    def columns(self) -> Columns:
        """What the task is, as ``--plan --json`` names it: some of ``NAMED``."""

    @abstractmethod
    def run(self, device: Device, sampling: Sampling, beat: Callable[[], None]) -> Any:
        """Do the task in this process, after ``device.prepare``. Raises whatever a library raises."""

    @abstractmethod
    def store(self, cache: "Cache", outcome: Any) -> None:
        """Put the result, or why there is none, into the cache."""

    @abstractmethod
    def summary(self, result: Any) -> str:
        """Return a result in a few words."""

    def describe(self, outcome: Any) -> str:
        """Return an outcome in a few words."""
        if isinstance(outcome, Failure):
            return f"{outcome.status}: {outcome.reason}"
        return self.summary(outcome)

    def as_json(self) -> Columns:
        """Return what ``--plan --json`` shows: every key, null where it does not apply."""
        return {"section": self.section, "label": self.label, **NAMED, **self.columns}


NAMED: Columns = {
    "model": None, "batch_sizes": [], "phase": None, "precision": None, "variant": None, "round": None,
    "autocast": None, "roof_kernel": None, "size": None, "pace": None,
}  # fmt: skip
"""The keys of a task in JSON, in their order, and their values where they do not apply."""


@dataclass(frozen=True)
class Sitting:
    """One run of the command: when it began, by what version, and the seed of the order of its cells."""

    sitting: str = field(default_factory=now)
    seed: int = 0
    version: str = field(default_factory=version)


@dataclass(frozen=True)
class Cache:
    """Where the results of one machine are, and the workloads, which are those of all; and who measures now."""

    workloads: Workloads
    folder: MachineFolder
    environment: Environment
    sitting: Sitting = field(default_factory=Sitting)

    def put(self, task: Task, outcome: Any) -> None:
        """Put a task's outcome into the cache, a failure as well as a result."""
        if task.is_of_machine:
            self.folder.put_environment(self.environment)
        task.store(self, outcome)

    def rows(self, table: Sequence[Any]) -> list[Any]:
        """Return the rows of a table that this environment measured."""
        return [row for row in table if row.environment_id == self.environment.environment_id]

    def tried(self, table: Sequence[Any]) -> list[Any]:
        """Return these rows, less those whose process was killed in an earlier sitting: they are done again."""
        sitting = self.sitting.sitting
        return [row for row in self.rows(table) if row.status != KILLED.status or row.sitting == sitting]

    def key(self, cell: Cell) -> Columns:
        """Return the columns that say of which cell a row is."""
        return {"environment_id": self.environment.environment_id, **cell._asdict()}

    def row(self, model: Model, cell: Cell, outcome: Any) -> Columns:
        """Return the columns that every row of a cell has: which it is, at which input, whether there is a result."""
        shape = shape_name(model.input_shape)
        return {**self.key(cell), **became(outcome), **self.signature(), "input_shape": shape}

    def signature(self) -> Columns:
        """Return the columns that say when a row was measured, in which sitting, and by what version."""
        return {"recorded_at": now(), **asdict(self.sitting)}

    def places(self, tasks: Collection[Task]) -> list[str]:
        """Return the folders that the tasks' results go into."""
        counted = self.workloads.folder
        return sorted({str(self.folder.folder if task.is_of_machine else counted) for task in tasks})


def became(outcome: Any) -> Columns:
    """Return the columns of a row that say whether there is a result, and why not."""
    return asdict(outcome) if isinstance(outcome, Failure) else {"status": "ok", "reason": None}
