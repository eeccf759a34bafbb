"""The loss of a training step: how far a network's outputs are from random targets."""

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from measure.cache.models import Model
from measure.counting.traffic import tensors_in

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
