"""The models, cells and sections of a run, and the precisions and variants that are usual on a machine."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product

from measure.domain import precisions, variants
from measure.domain.cell import Cell
from measure.domain.models import QUICK, STORY, Model
from measure.domain.records import Environment
from measure.domain.variants import SGD
from measure.domain.words import EAGER, FULL_PRECISION, INFERENCE, ROUNDS, TARGET, TF32
from measure.errors import UserError
from measure.machine import container, processor


@dataclass(frozen=True)
class Request:
    """The models, cells and sections to measure. Empty ``variants`` or ``precisions`` mean those usual on the machine.

    Each cell gets ``rounds``, and up to ``most_rounds`` while its interval is wider than ± ``target`` of its latency.
    """

    models: Sequence[Model]
    batch_sizes: Sequence[int]
    precisions: Sequence[str]
    sections: Collection[str]
    variants: Sequence[str] = (EAGER,)
    training_models: Sequence[Model] = ()  # among ``models``
    training_batch_sizes: Sequence[int] = ()
    optimizers: Sequence[str] = (SGD,)
    rounds: int = ROUNDS
    most_rounds: int = 0
    target: float = TARGET
    quick: bool = False
    force: bool = False
    has_named_batches: bool = False  # by the user; they wait for no other cells
    has_named_models: bool = False  # by the user; else data-parallel steps are those of the leading models
    budget_s: float | None = None  # None: the run ends when all is measured
    device_kind: str = "cpu"

    def on(self, environment: Environment) -> "Request":
        """Return the request with the precisions and variants that are usual on this machine filled in."""
        return replace(
            self,
            precisions=self.precisions or precisions.default_precisions(environment),
            variants=self.variants or variants.usual_variants(environment),
            device_kind=environment.device,
        )

    @property
    def leading(self) -> Sequence[Model]:
        """The two models of the paper's story; else the first two, from the quick selection if it has any."""
        story = [model for model in self.models if model.name in STORY]
        return story if len(story) == len(STORY) else sorted(self.models, key=lambda each: each.name not in QUICK)[:2]

    def rank(self, model: Model) -> int:
        """Return 0 for leading models, 1 for the quick selection, 2 for the rest (1 if few or none of it are asked)."""
        if model in self.leading:
            return 0
        quick = {each.name for each in self.models} & set(QUICK)
        return 1 if len(self.models) <= len(QUICK) or model.name in quick or not quick else 2

    @property
    def second_batch(self) -> int | None:
        """The largest batch size up to 64, which fills most devices, or the next larger; None if there is but one."""
        larger = [size for size in self.batch_sizes if size > min(self.batch_sizes)]
        return max((size for size in larger if size <= 64), default=min(larger, default=None))

    def is_base(self, cell: Cell) -> bool:
        """Return whether a cell has the first precision and the first variant of the request."""
        return (cell.precision, cell.variant) == (self.precisions[0], self.variants[0])

    def cells(self, phase: str) -> list[tuple[Model, Cell]]:
        models, sizes, ways = self.models, self.batch_sizes, self.variants
        if phase != INFERENCE:
            models, sizes = self.training_models, self.training_batch_sizes
            ways = [variants.with_optimizer(way, each) for each in self.optimizers for way in self.variants]
        return [
            (model, Cell(model.name, batch, precision, phase, way))
            for batch, precision, way, model in product(sizes, self.precisions, ways, models)
        ]

    def check_device(self, environment: Environment) -> None:
        """Raise UserError if the machine's device cannot run any cell of the request."""
        request = self.on(environment)
        if TF32 in request.precisions and environment.device != "cuda":
            raise UserError("--precisions: tf32 is a format of NVIDIA's GPUs; leave it out or use --device cuda")
        if environment.capability and not any(precisions.is_native(environment, each) for each in request.precisions):
            lacking = f"{' and '.join(request.precisions)} (compute capability {environment.capability})"
            raise UserError(f"--precisions: {environment.name} has no units for {lacking}; use fp32 or fp16")
        if any(map(variants.is_autocast, request.variants)) and set(request.precisions) <= {FULL_PRECISION, TF32}:
            raise UserError("--variants: autocast casts to fp16 or bf16; give --precisions bf16 with it")


def parse_threads(text: str | None) -> int:
    """Return the number of threads that ``--threads`` asks for on this machine; by default ``default_threads``."""
    most = processor.visible_cores()
    if text is None:
        return container.default_threads()
    if text not in map(str, range(1, most + 1)):
        raise UserError(f"--threads: {text!r} is not a valid number of threads; use 1 to {most}, this machine's cores")
    return int(text)
