"""A training step of a model: forward pass and loss, backward pass, optimiser; and one round of its cell, timed.

The loss of a training step: how far a network's outputs are from random targets.
"""

from collections.abc import Callable
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
from measure.timing import stopwatch as first_call
from measure.timing.allocations import peak_byte
from measure.timing.forward import Forward
from measure.timing.sampling import Sampling, Timing, sample_stages
from measure.timing.stopwatch import StagedStopwatch

if TYPE_CHECKING:
    import torch

FITTED = ("audio", "optical flow")
"""The families whose outputs are no scores of classes."""


class Loss:
    """The sum, over all outputs that a gradient flows back from, of each one's distance to a target of its own.

    Outputs may be a tensor, or tuples, lists and dictionaries of them. Scores of classes have the cross entropy of
    random labels: classifiers' are of shape (batch, classes), those of segmentation (batch, classes, height, width),
    those of sequences (batch, steps, classes); the mean over all pixels or steps. The families in ``FITTED`` have the
    mean square of the difference to normally distributed numbers, whatever the shape: for speech that stands for CTC,
    which asks for a text, and whose time is not the network's. So have outputs of less than two dimensions or classes.
    Targets are drawn at the first call, so that later ones do not pay for it.

    Raises NotImplementedError for outputs that no gradient flows back from.
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
        classes = shape.pop(_classes_at(output))
        return torch.randint(classes, shape, device=output.device)

    def _is_fitted(self, output: "torch.Tensor") -> bool:
        """Return whether an output stands for numbers to fit, not for scores of classes."""
        return self._model.family in FITTED or output.ndim < 2 or output.shape[_classes_at(output)] < 2


def _classes_at(output: "torch.Tensor") -> int:
    """Return the dimension of the classes: that after the batch, of sequences the last."""
    return 2 if output.ndim == 3 else 1


LEARNING_RATE, MOMENTUM = 1e-3, 0.9
"""So small a rate leaves the weights near those that they began with: the values do not matter to a step's time, unless
they become so small that a processor computes with them slowly."""

MOST_HALVINGS = 20
"""The most steps for which the scale of a loss is waited for: 16 halvings bring it from its first value, 2^16, to 1."""


class TrainingStep:
    """A network in train mode with its loss and optimiser; calling this takes one step, its stages one after another.

    The outputs live until the backward pass has ended, as a program's variables do, the gradients until the update has.
    """

    def __init__(
        self, call: Forward, loss: Loss, optimizer: "torch.optim.Optimizer", scaler: "torch.amp.GradScaler"
    ) -> None:
        self.network = call.network
        self._call = call
        self._loss = loss
        self._optimizer = optimizer
        self._scaler = scaler
        self._output: Any = None
        self._distance: Any = None

    def forward(self) -> None:
        """Run the forward pass, and the loss."""
        with self._call.casting():
            self._output = self._call()
            self._distance = self._loss(self._output)

    def backward(self) -> None:
        """Run the backward pass: from the loss to the gradient of every parameter that asks for one."""
        self._scaler.scale(self._distance).backward()
        self._output = self._distance = None

    def update(self) -> None:
        """Take the optimiser's step; then there are no gradients."""
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)

    def __call__(self) -> None:
        self.forward()
        self.backward()
        self.update()

    @property
    def is_scaled(self) -> bool:
        """Whether the loss is scaled, so that small gradients do not vanish in fp16."""
        return self._scaler.is_enabled()

    def scale(self) -> float:
        """Wait for the device, and return the scale of the loss: 1 where it has none."""
        return self._scaler.get_scale()

    def resident(self) -> "list[torch.Tensor]":
        """Return what stays in memory between two steps: weights, buffers, inputs, targets, the optimiser's state."""
        states = [tensors_in(state) for state in self._optimizer.state.values()]
        return [
            *self.network.parameters(),
            *self.network.buffers(),
            *tensors_in((self._call.inputs, self._call.keywords)),
            *self._loss.targets,
            *(tensor for state in states for tensor in state),
        ]


def prepare(device: Device, model: Model, cell: Cell) -> TrainingStep:
    """Build a network in train mode on the device, with random inputs and targets.

    The optimiser is SGD with momentum, or Adam where the variant has that part, each as torch has it by default.
    ``compile`` compiles the network, forward and backward; loss and optimiser run as they are. Autocast to fp16 scales
    the loss (``torch.amp.GradScaler``, with its defaults); a network that is cast to fp16 trains without scaling.

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


@dataclass(frozen=True)
class StepTiming:
    """The timings of a step and of its stages, by phase; the most memory (byte) that a step took, where known."""

    phases: dict[str, Timing]
    peak_byte: int | None

    @property
    def executing_s(self) -> float:
        """The time that passed within steps, those of warm-up included."""
        return self.phases[STEP].executing_s


def measure(device: Device, model: Model, cell: Cell, sampling: Sampling, beat: Callable[[], None]) -> StepTiming:
    """Time training steps after ``device.prepare``, and trace the memory of one more.

    Raises what ``prepare`` does, and whatever torch raises where it does not fit or is not supported.
    """
    step = prepare(device, model, cell)

    def with_signs_of_life() -> None:
        step.forward()
        beat()
        step.backward()
        beat()
        step.update()
        beat()

    beat()
    first_call.make(step, cell.variant, device, beat)
    scale = _settled_scale(step, with_signs_of_life)
    stopwatch = StagedStopwatch(
        step,
        device.synchronize,
        beat=beat,
        events=device.events(),
        clear=forward.cache_clearer(device, cell),
        stages=(step.forward, step.backward, step.update),
        is_asynchronous=device.is_asynchronous,
    )
    timings = sample_stages(stopwatch, sampling, device.sensors())
    phases = dict(zip((STEP, *STAGES), timings, strict=True))
    if step.scale() < scale:
        for phase in (STEP, UPDATE):
            phases[phase] = replace(phases[phase], flags=(*phases[phase].flags, SKIPPED))
    return StepTiming(phases, peak_byte(with_signs_of_life, step.resident(), device))


def _settled_scale(step: TrainingStep, take: Callable[[], object]) -> float:
    """Take steps until one keeps the scale of the loss, and return it: its first value is often too large.

    A step with gradients that are not finite halves the scale, and leaves the optimiser out (``GradScaler``). The scale
    doubles after 2000 steps of others only, so one that has become smaller tells that steps were left out, and one that
    has not that they were too few to matter.
    """
    scale = step.scale()
    for _ in range(MOST_HALVINGS if step.is_scaled else 0):
        before = scale
        take()
        scale = step.scale()
        if scale >= before:
            break
    return scale
