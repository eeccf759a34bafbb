"""The loss of a training step: how far a network's outputs are from random targets."""

from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from measure.counting.traffic import tensors_in
from measure.models.model import Model

if TYPE_CHECKING:
    import torch

FITTED = ("audio", "optical flow")
"""The families whose outputs are no scores of classes."""


class Loss:
    """The sum, over all outputs that a gradient flows back from, of each one's distance to a target of its own.

    Outputs of classifiers have scores of shape (batch, classes) and the cross entropy of random labels, those of
    segmentation (batch, classes, height, width) and the same, the mean over all pixels. The families in ``FITTED`` have
    the mean square of the difference to normally distributed numbers, whatever the shape: for speech that stands for
    CTC, which asks for a text, and whose time is not the network's. Targets are drawn at the first call, so that later
    ones do not pay for it.

    Raises NotImplementedError for outputs that no gradient flows back from.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.targets: list[torch.Tensor] = []

    def __call__(self, output: Any) -> "torch.Tensor":
        from torch.nn import functional

        outputs = [tensor for tensor in tensors_in(output) if tensor.requires_grad]
        if not outputs:
            raise NotImplementedError(f"{self._model.name} has no output that a gradient flows back from")
        if not self.targets:
            self.targets = [self._target(tensor) for tensor in outputs]
        distance = functional.mse_loss if self._model.family in FITTED else functional.cross_entropy
        parts = [distance(tensor, target) for tensor, target in zip(outputs, self.targets, strict=True)]
        return reduce(add, parts)

    def _target(self, output: "torch.Tensor") -> "torch.Tensor":
        import torch

        if self._model.family in FITTED:
            return torch.randn_like(output)
        batch, classes, *pixels = output.shape
        return torch.randint(classes, (batch, *pixels), device=output.device)
