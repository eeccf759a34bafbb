"""Prepare a training step (forward pass and loss, backward pass, optimiser), and time one round of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from measure.counting.memory import tensors_in
from measure.domain import variants
from measure.domain.latency import Cell
from measure.domain.models import Model
from measure.domain.words import SKIPPED, STAGES, STEP, UPDATE
from measure.machine.device import Device
from measure.timing import forward
from measure.timing.allocations import measure_peak_byte
from measure.timing.forward import Forward
from measure.timing.sampling import Sampling, Timing, sample_stages
from measure.timing.stopwatch import StagedStopwatch, run_first_call

if TYPE_CHECKING:
    import torch

REGRESSION = ("audio", "optical flow")  # families fitted to numbers; for speech, CTC would need a text
LEARNING_RATE, MOMENTUM = 1e-3, 0.9  # a small rate keeps weights near their first values: denormal ones are slow
MOST_HALVINGS = 20  # steps for the scale of a loss to settle; 16 halvings bring it from 2^16 to 1


class Loss:
    """The sum of the distances between all outputs that have a gradient and random targets.

    Scores of classes have the mean cross entropy of random labels: shape (batch, classes), segmentation (batch,
    classes, height, width), sequences (batch, steps, classes). Other outputs, and those of families in ``REGRESSION``,
    have the mean square difference to normal numbers. Targets are drawn in the first call, which is not timed. Raises
    NotImplementedError if no output has a gradient.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.targets: list[torch.Tensor] = []

    def __call__(self, output: Any) -> "torch.Tensor":
        from torch.nn.functional import cross_entropy, mse_loss

        outputs = [each for each in tensors_in(output) if each.requires_grad and each.is_floating_point()]
        if not outputs:
            raise NotImplementedError(f"{self._model.name} has no output that a gradient flows back from")
        if not self.targets:
            self.targets = [self._draw_target(tensor) for tensor in outputs]
        distances = []
        for scores, target in zip(outputs, self.targets, strict=True):
            if scores.ndim == 3 and not target.is_floating_point():
                scores, target = scores.flatten(0, 1), target.flatten()
            distances.append((mse_loss if target.is_floating_point() else cross_entropy)(scores, target))
        return reduce(add, distances)

    def _draw_target(self, output: "torch.Tensor") -> "torch.Tensor":
        import torch

        dimension = 2 if output.ndim == 3 else 1
        if self._model.family in REGRESSION or output.ndim < 2 or output.shape[dimension] < 2:
            return torch.randn_like(output)
        classes, shape = output.shape[dimension], (*output.shape[:dimension], *output.shape[dimension + 1 :])
        return torch.randint(classes, shape, device=output.device)


class TrainingStep:
    """A cell's network in train mode, with random inputs and targets. A call takes one step, stage by stage.

    As in a user's program, the outputs live until the backward pass ends, and the gradients until the update. Autocast
    to fp16 scales the loss; a network cast to fp16 trains without scaling. Raises what ``forward.prepare`` does.
    """

    def __init__(self, device: Device, model: Model, cell: Cell) -> None:
        import torch

        self._call, self._loss = forward.prepare(device, model, cell), Loss(model)
        self.network = self._call.network.train()
        parameters = self.network.parameters()
        if variants.uses_adam(cell.variant):
            self._optimizer: torch.optim.Optimizer = torch.optim.Adam(parameters, LEARNING_RATE)
        else:
            self._optimizer = torch.optim.SGD(parameters, LEARNING_RATE, MOMENTUM)
        self._scaler = torch.amp.GradScaler(device.kind, enabled=self._call.autocast == torch.float16)
        self.is_scaled = self._scaler.is_enabled()
        self._output: Any = None
        self._distance: Any = None

    @property
    def stages(self) -> Mapping[str, Callable[[], object]]:
        return dict(zip(STAGES, (self.forward, self.backward, self.update), strict=True))

    def forward(self) -> None:
        with self._call.casting():
            self._output = self._call()
            self._distance = self._loss(self._output)

    def backward(self) -> None:
        self._scaler.scale(self._distance).backward()
        self._output = self._distance = None

    def update(self) -> None:
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)

    def __call__(self) -> None:
        self.forward()
        self.backward()
        self.update()

    def scale(self) -> float:
        """Wait for the device and return the scale of the loss, 1 if it is not scaled."""
        return self._scaler.get_scale()

    def resident(self) -> "list[torch.Tensor]":
        """Return the tensors that stay between steps: weights, buffers, inputs, targets, the optimiser's state."""
        values = [self._call.inputs, self._call.keywords, self._loss.targets, *self._optimizer.state.values()]
        return [*self.network.parameters(), *self.network.buffers(), *tensors_in(values)]


def prepare(device: Device, model: Model, cell: Cell) -> Forward | TrainingStep:
    """Prepare a training step or a forward pass, by the cell's phase. Raises as ``forward.prepare`` does."""
    return TrainingStep(device, model, cell) if cell.phase == STEP else forward.prepare(device, model, cell)


@dataclass(frozen=True)
class StepTiming:
    """The timings of a step and of its stages, by phase, and the peak memory (byte) of a step if known."""

    phases: dict[str, Timing]
    peak_byte: int | None

    @property
    def executing_s(self) -> float:
        return self.phases[STEP].executing_s


def measure(device: Device, model: Model, cell: Cell, sampling: Sampling, beat: Callable[[], None]) -> StepTiming:
    """Time training steps, then trace the memory of one more. Like ``forward.measure`` otherwise."""
    step = TrainingStep(device, model, cell)
    stages = tuple(step.stages.values())

    def step_with_beats() -> None:
        for stage in stages:
            stage()
            beat()

    beat()
    run_first_call(step, cell.variant, device, beat)
    scale = _settle_scale(step, step_with_beats)
    clear = forward.cache_clearer(device, cell)
    stopwatch = StagedStopwatch(
        step, device.synchronize, beat=beat, events=device.events(), clear=clear, stages=stages,
        is_asynchronous=device.is_asynchronous,
    )  # fmt: skip
    phases = dict(zip((STEP, *STAGES), sample_stages(stopwatch, sampling, device.sensors()), strict=True))
    if step.scale() < scale:
        for phase in (STEP, UPDATE):
            phases[phase] = replace(phases[phase], flags=(*phases[phase].flags, SKIPPED))
    return StepTiming(phases, measure_peak_byte(step_with_beats, step.resident(), device))


def _settle_scale(step: TrainingStep, take: Callable[[], object]) -> float:
    """Take steps until one keeps the scale of the loss, which often begins too large. Return the scale.

    A step whose gradients overflow halves the scale and skips the optimiser. The scale doubles only after 2000 other
    steps, so a scale that has fallen since shows that steps were skipped.
    """
    scale = step.scale()
    for _ in range(MOST_HALVINGS if step.is_scaled else 0):
        before = scale
        take()
        scale = step.scale()
        if scale >= before:
            break
    return scale
