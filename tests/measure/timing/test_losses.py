"""The losses of training steps, by the outputs of a network."""

import math

import pytest
import torch

from measure.models.losses import Loss


def loss_of(family):
    return Loss("net", family)


def scores(*shape):
    """All alike, so that each of the classes has the same probability."""
    return torch.zeros(shape, requires_grad=True)


@pytest.mark.parametrize(
    ("output", "classes", "shapes"),
    [
        (scores(6, 10), [10], [(6,)]),
        # Segmentation has a label for each pixel, and every output counts.
        ({"out": scores(2, 21, 4, 3), "aux": scores(2, 5, 4, 3)}, [21, 5], [(2, 4, 3), (2, 4, 3)]),
        ((scores(1, 2), torch.ones(1, 7)), [2], [(1,)]),  # an output without a gradient is left out
    ],
)
def test_equal_scores_have_the_log_of_their_number_as_loss(output, classes, shapes):
    loss = loss_of("segmentation")
    assert loss(output).item() == pytest.approx(sum(map(math.log, classes)))
    drawn = list(loss.targets)
    assert [tuple(target.shape) for target in drawn] == shapes
    assert all(0 <= target.min() <= target.max() < count for target, count in zip(drawn, classes, strict=True))
    loss(output)  # targets are drawn once
    assert [id(target) for target in loss.targets] == list(map(id, drawn))


def test_a_sequence_has_a_label_for_each_step():
    loss = loss_of("own")
    output = torch.zeros(2, 5, 7)
    output[..., 3] = 1.0
    output.requires_grad_()
    distance = loss({"scores": output, "length": torch.ones(2), "name": None})
    (labels,) = loss.targets
    assert labels.shape == (2, 5)
    # The class 3 has the score 1 and the six others 0: its probability is e / (e + 6), theirs 1 / (e + 6).
    right = (labels == 3).float().mean().item()
    assert distance.item() == pytest.approx(math.log(math.e + 6) - right)


# Features, and other outputs without classes, are fitted to numbers of their shape.
@pytest.mark.parametrize(
    ("family", "shape"), [("audio", (2, 5, 3)), ("own", ()), ("own", (4,)), ("own", (4, 1)), ("own", (4, 3, 1))]
)
def test_outputs_without_classes_are_fitted_to_numbers(family, shape):
    loss, output = loss_of(family), scores(*shape)
    distance = loss((output, None))
    (target,) = loss.targets
    assert target.shape == output.shape
    assert distance.item() == pytest.approx(target.square().mean().item())
    # The mean of (f - t)^2 over n numbers has the gradient 2 (f - t) / n.
    distance.backward()
    assert torch.allclose(output.grad, -2 * target / target.numel())


def test_outputs_without_a_gradient_and_nested_ones_are_refused():
    parts = [torch.ones(2, 4), torch.ones(3, 4)]
    nested = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    with pytest.raises(NotImplementedError, match="net has no output that a gradient flows back from"):
        loss_of("plain")(torch.ones(1, 7))
    with pytest.raises(NotImplementedError, match=r"net returns a nested tensor; .*pad it"):
        loss_of("plain")(nested)
