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

FITTED = ("audio", "optical flow")
"""The families whose outputs are numbers to fit, not scores of classes."""

LEARNING_RATE, MOMENTUM = 1e-3, 0.9
"""A small rate keeps the weights near their first values. Values do not change a step's time unless they become so
small that a processor slows down on them."""

MOST_HALVINGS = 20
"""The most steps for the scale of a loss to settle. 16 halvings bring it from its first value, 2^16, to 1."""


class Loss:
    """The sum of the distances between all outputs that have a gradient and random targets.

    Outputs are a tensor, or tuples, lists and dictionaries of them. Scores of classes have the cross entropy of random
    labels, as the mean over pixels or steps: shape (batch, classes), segmentation (batch, classes, height, width),
    sequences (batch, steps, classes). The families in ``FITTED`` have the mean square difference to normal numbers, as
    have outputs with fewer than two dimensions or classes. For speech that replaces CTC, which needs a text and whose
    time is not the network's. Targets are drawn in the first call, so later calls do not pay for them.

    Raises NotImplementedError if no output has a gradient.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.targets: list[torch.Tensor] = []

    def __call__(self, output: Any) -> "torch.Tensor":
        outputs = [each for each in tensors_in(output) if each.requires_grad and each.is_floating_point()]
        if not outputs:
            raise NotImplementedError(f"{self._model.name} has no output that a gradient flows back from")
        if not self.targets:
            self.targets = [self._target(tensor) for tensor in outputs]
        return reduce(add, map(self._distance, outputs, self.targets))

    def _distance(self, output: "torch.Tensor", target: "torch.Tensor") -> "torch.Tensor":
        from torch.nn import functional

        if self._is_fitted(output):
            return functional.mse_loss(output, target)
        if output.ndim == 3:
            return functional.cross_entropy(output.flatten(0, 1), target.flatten())
        return functional.cross_entropy(output, target)

    def _target(self, output: "torch.Tensor") -> "torch.Tensor":
        import torch

        if self._is_fitted(output):
            return torch.randn_like(output)
        shape = list(output.shape)
        classes = shape.pop(_class_dimension(output))
        return torch.randint(classes, shape, device=output.device)

    def _is_fitted(self, output: "torch.Tensor") -> bool:
        return self._model.family in FITTED or output.ndim < 2 or output.shape[_class_dimension(output)] < 2


def _class_dimension(output: "torch.Tensor") -> int:
    return 2 if output.ndim == 3 else 1


class TrainingStep:
    """A network in train mode with its loss and optimiser. A call takes one step, stage by stage.

    As in a user's program, the outputs live until the backward pass ends, and the gradients until the update.
    """

    def __init__(
        self, call: Forward, loss: Loss, optimizer: "torch.optim.Optimizer", scaler: "torch.amp.GradScaler"
    ) -> None:
        self.network = call.network
        self._call, self._loss, self._optimizer, self._scaler = call, loss, optimizer, scaler
        self._output: Any = None
        self._distance: Any = None

    @property
    def stages(self) -> Mapping[str, Callable[[], object]]:
        return dict(zip(STAGES, (self.forward, self.backward, self.update), strict=True))

    def forward(self) -> None:
        """Run the forward pass and the loss."""
        with self._call.casting():
            self._output = self._call()
            self._distance = self._loss(self._output)

    def backward(self) -> None:
        """Compute the gradient of every parameter that requires one."""
        self._scaler.scale(self._distance).backward()
        self._output = self._distance = None

    def update(self) -> None:
        """Take the optimiser's step and drop the gradients."""
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)

    def __call__(self) -> None:
        self.forward()
        self.backward()
        self.update()

    @property
    def is_scaled(self) -> bool:
        """Whether the loss is scaled so that small gradients do not vanish in fp16."""
        return self._scaler.is_enabled()

    def scale(self) -> float:
        """Wait for the device and return the scale of the loss, 1 if it is not scaled."""
        return self._scaler.get_scale()

    def resident(self) -> "list[torch.Tensor]":
        """Return the tensors that stay between steps: weights, buffers, inputs, targets, the optimiser's state."""
        return [
            *self.network.parameters(),
            *self.network.buffers(),
            *tensors_in((self._call.inputs, self._call.keywords)),
            *self._loss.targets,
            *(tensor for state in self._optimizer.state.values() for tensor in tensors_in(state)),
        ]


def prepare(device: Device, model: Model, cell: Cell) -> TrainingStep:
    """Build a network in train mode on the device, with random inputs and targets.

    The optimiser is SGD with momentum, or Adam in a variant with that part; other options are torch's defaults.
    ``compile`` compiles the network's forward and backward pass, not loss and optimiser. Autocast to fp16 scales the
    loss by ``torch.amp.GradScaler``; a network cast to fp16 trains without scaling.

    Raises what ``forward.prepare`` does.
    """
    import torch

    call = forward.prepare(device, model, cell)
    call.network.train()
    parameters = call.network.parameters()
    if variants.ADAM in variants.parts(cell.variant):
        optimizer: torch.optim.Optimizer = torch.optim.Adam(parameters, LEARNING_RATE)
    else:
        optimizer = torch.optim.SGD(parameters, LEARNING_RATE, MOMENTUM)
    scaler = torch.amp.GradScaler(device.kind, enabled=call.autocast == torch.float16)
    return TrainingStep(call, Loss(model), optimizer, scaler)


def prepare_phase(device: Device, model: Model, cell: Cell) -> Forward | TrainingStep:
    """Prepare a training step or a forward pass, by the cell's phase. Raises what ``forward.prepare`` does."""
    return prepare(device, model, cell) if cell.phase == STEP else forward.prepare(device, model, cell)


@dataclass(frozen=True)
class StepTiming:
    """The timings of a step and of its stages, by phase, and the peak memory (byte) of a step if known."""

    phases: dict[str, Timing]
    peak_byte: int | None

    @property
    def executing_s(self) -> float:
        """The time spent in steps, warm-up included."""
        return self.phases[STEP].executing_s


def measure(device: Device, model: Model, cell: Cell, sampling: Sampling, beat: Callable[[], None]) -> StepTiming:
    """Time training steps, then trace the memory of one more. Call ``device.prepare`` first.

    Raises what ``prepare`` does, and whatever torch raises if the cell does not fit or is not supported.
    """
    step = prepare(device, model, cell)

    def step_with_beats() -> None:
        for stage in step.stages.values():
            stage()
            beat()

    beat()
    run_first_call(step, cell.variant, device, beat)
    scale = _settle_scale(step, step_with_beats)
    stopwatch = StagedStopwatch(
        step,
        device.synchronize,
        beat=beat,
        events=device.events(),
        clear=forward.cache_clearer(device, cell),
        stages=tuple(step.stages.values()),
        is_asynchronous=device.is_asynchronous,
    )
    timings = sample_stages(stopwatch, sampling, device.sensors())
    phases = dict(zip((STEP, *STAGES), timings, strict=True))
    if step.scale() < scale:
        for phase in (STEP, UPDATE):
            phases[phase] = replace(phases[phase], flags=(*phases[phase].flags, SKIPPED))
    return StepTiming(phases, measure_peak_byte(step_with_beats, step.resident(), device))


def _settle_scale(step: TrainingStep, take: Callable[[], object]) -> float:
    """Take steps until one keeps the scale of the loss, which often begins too large. Return the scale.

    A step with gradients that are not finite halves the scale and skips the optimiser (``GradScaler``). The scale
    doubles only after 2000 other steps. So a scale that has fallen since shows that steps were skipped, and one that
    has not that too few were to matter.
    """
    scale = step.scale()
    for _ in range(MOST_HALVINGS if step.is_scaled else 0):
        before = scale
        take()
        scale = step.scale()
        if scale >= before:
            break
    return scale
