"""The loss of a training step: the distance between the outputs of a network and targets."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from measure.models.tensors import held_tensors

if TYPE_CHECKING:
    import torch

REGRESSION = ("audio", "optical flow")  # families fitted to numbers; for speech, CTC would need a text


@dataclass
class Loss:
    """The sum of the distances between all outputs that have a gradient and random targets.

    Targets are drawn in the first call, which is not timed. ``name`` and ``family`` are the network's. Raises
    NotImplementedError if no output has a gradient.
    """

    name: str
    family: str
    targets: "list[torch.Tensor]" = field(default_factory=list)

    def __call__(self, output: Any) -> "torch.Tensor":
        outputs = [each for each in held_tensors(output) if each.requires_grad and each.is_floating_point()]
        if not outputs:
            raise NotImplementedError(f"{self.name} has no output that a gradient flows back from")
        if any(each.is_nested for each in outputs):
            raise NotImplementedError(f"{self.name} returns a nested tensor; the loss takes dense ones: pad it")
        if not self.targets:
            self.targets = [make_target(tensor, self.family) for tensor in outputs]
        return distance(outputs, self.targets)


def distance(outputs: "Sequence[torch.Tensor]", targets: "Sequence[torch.Tensor]") -> "torch.Tensor":
    """Sum the distances between outputs and targets: the mean cross entropy of labels, the mean square of numbers."""
    from torch.nn.functional import cross_entropy, mse_loss

    distances = []
    for scores, target in zip(outputs, targets, strict=True):
        if scores.ndim == 3 and not target.is_floating_point():
            scores, target = scores.flatten(0, 1), target.flatten()
        distances.append((mse_loss if target.is_floating_point() else cross_entropy)(scores, target))
    return reduce(add, distances)


def make_target(output: "torch.Tensor", family: str, is_random: bool = True) -> "torch.Tensor":
    """Return labels or numbers for an output. Unless random, no number is drawn: the first class, or 0, everywhere."""
    import torch

    dimension = class_dimension(output, family)
    if dimension is None:
        return torch.randn_like(output) if is_random else torch.zeros_like(output)
    shape = (*output.shape[:dimension], *output.shape[dimension + 1 :])
    if is_random:
        return torch.randint(output.shape[dimension], shape, device=output.device)
    return output.new_zeros(shape, dtype=torch.int64)


def class_dimension(output: "torch.Tensor", family: str) -> int | None:
    """Return the dimension of an output that counts classes; None if the output is fitted to numbers.

    Scores of classes have the shape (batch, classes), segmentation (batch, classes, height, width), sequences (batch,
    steps, classes).
    """
    dimension = 2 if output.ndim == 3 else 1
    is_fitted = family in REGRESSION or output.ndim < 2 or output.shape[dimension] < 2
    return None if is_fitted else dimension
