import math

import pytest

from measure.domain.models import IMAGE, Model

torch = pytest.importorskip("torch", reason="losses are torch's")
from measure.timing.training import Loss  # noqa: E402


def loss_of(family):
    return Loss(Model("net", "torchvision", family, IMAGE))


def scores(*shape):
    """All alike, so that each of the classes has the same probability."""
    return torch.zeros(shape, requires_grad=True)


def test_the_cross_entropy_of_scores_that_are_all_alike_is_the_logarithm_of_their_number():
    loss = loss_of("residual")
    assert loss(scores(6, 10)).item() == pytest.approx(math.log(10))
    (labels,) = loss.targets
    assert labels.shape == (6,)
    assert not labels.is_floating_point()
    assert 0 <= labels.min() <= labels.max() < 10


def test_segmentation_has_a_label_for_each_pixel_and_every_output_counts():
    loss = loss_of("segmentation")
    output = {"out": scores(2, 21, 4, 3), "aux": scores(2, 5, 4, 3)}
    assert loss(output).item() == pytest.approx(math.log(21) + math.log(5))
    assert [target.shape for target in loss.targets] == [(2, 4, 3), (2, 4, 3)]
    assert [int(target.max()) < classes for target, classes in zip(loss.targets, (21, 5), strict=True)] == [True, True]


def test_features_are_fitted_to_numbers_of_their_shape():
    loss = loss_of("audio")
    features = torch.zeros(2, 5, 3, requires_grad=True)
    distance = loss((features, None))
    (target,) = loss.targets
    assert target.shape == features.shape
    assert distance.item() == pytest.approx(target.square().mean().item())
    # The mean of (f - t)^2 over n numbers has the gradient 2 (f - t) / n.
    distance.backward()
    assert torch.allclose(features.grad, -2 * target / 30)


def test_targets_are_drawn_once():
    loss = loss_of("plain")
    output = scores(64, 1000)
    loss(output)
    (labels,) = loss.targets
    loss(output)
    assert loss.targets[0] is labels


def test_outputs_without_a_gradient_are_left_out_and_none_at_all_is_refused():
    loss = loss_of("plain")
    assert loss((scores(1, 2), torch.ones(1, 7))).item() == pytest.approx(math.log(2))
    with pytest.raises(NotImplementedError, match="net has no output that a gradient flows back from"):
        loss_of("plain")(torch.ones(1, 7))


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


@pytest.mark.parametrize("shape", [(), (4,), (4, 1), (4, 3, 1)])
def test_what_has_no_classes_is_fitted_to_numbers(shape):
    loss = loss_of("own")
    output = scores(*shape)
    distance = loss((output,))
    (target,) = loss.targets
    assert target.shape == output.shape
    assert distance.item() == pytest.approx(target.square().mean().item())
