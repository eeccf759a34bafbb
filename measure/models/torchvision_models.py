"""The models of torchvision: classification, segmentation, detection, video and optical flow.

The quantized ones are left out: they are the classification models again, in integers, for CPUs only.
"""

import fnmatch
from typing import TYPE_CHECKING, Any

from measure.domain.models import IMAGE, Model

if TYPE_CHECKING:
    import torch
    from torch import nn

CLASSIFICATION_FAMILIES = {
    "plain": ("alexnet", "vgg"),
    "residual": ("resnet", "resnext", "wide_resnet", "densenet", "regnet", "convnext"),
    "inception": ("googlenet", "inception"),
    "compact": ("squeezenet", "shufflenet", "mobilenet", "mnasnet", "efficientnet"),
    "transformer": ("vit", "swin", "maxvit"),
}
"""The family of a classification model by the beginnings of its name; another kind of model is a family itself."""

VIDEO_FRAMES = 16
"""The frames at which torchvision counts all its video models (``meta["_ops"]``); MViT takes no other number."""

FLOW_IMAGE = (3, 512, 512)
"""The size of each of the two images at which torchvision counts RAFT (``meta["_ops"]``)."""

DETECTION_SIZES = {
    "fasterrcnn_mobilenet_v3_large_320_fpn": 320,
    "ssd300_vgg16": 300,
    "ssdlite320_mobilenet_v3_large": 320,
}
DETECTION_SIZE = 800
"""The side of the square image at which torchvision counts its detectors: what each scales its images to."""

SETTINGS: dict[str, dict[str, Any]] = {
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"init_weights": False},
}
"""The arguments with which a model has the published parameters, and is built quickly."""


def _kinds() -> dict[str, str]:
    """Return the kind of each model, by its name."""
    from torchvision import models

    modules = {
        "classification": models,
        "segmentation": models.segmentation,
        "detection": models.detection,
        "video": models.video,
        "optical flow": models.optical_flow,
    }
    return {name: kind for kind, module in modules.items() for name in models.list_models(module)}


def matching(pattern: str) -> list[str]:
    """Return the names that a name or a glob selects."""
    return fnmatch.filter(_kinds(), pattern)


def describe(name: str) -> Model:
    """Return the model, at 3 x 224 x 224 if it classifies or segments images, else at its native size."""
    kind = _kinds()[name]
    if kind == "classification":
        families = (family for family, names in CLASSIFICATION_FAMILIES.items() if name.startswith(names))
        return Model(name, "torchvision", next(families, "other"), IMAGE)
    return Model(name, "torchvision", kind, IMAGE if kind == "segmentation" else native_shape(name))


def native_shape(name: str) -> tuple[int, ...]:
    """Return the shape of one input that the default weights take.

    That is the crop of classification and video, the resized image of segmentation (square here), and the size
    at which torchvision counts detection and optical flow, which take images of any size.
    """
    from torchvision import models

    kind = _kinds()[name]
    if kind == "optical flow":
        return FLOW_IMAGE
    if kind == "detection":
        side = DETECTION_SIZES.get(name, DETECTION_SIZE)
        return (3, side, side)
    transforms = models.get_model_weights(name).DEFAULT.transforms()
    if kind == "video":
        return (3, VIDEO_FRAMES, *transforms.crop_size)
    (side,) = transforms.crop_size if kind == "classification" else transforms.resize_size
    return (3, side, side)


def build(model: Model) -> "nn.Module":
    """Build the network with random weights and as many parameters as its published weights have.

    Heads that only help in training are part of the published count: they keep their parameters, and never run.
    """
    from torchvision import models

    settings = dict(SETTINGS.get(model.name, {}))
    kind = _kinds()[model.name]
    if kind in ("segmentation", "detection"):
        settings["weights_backbone"] = None
    if model.name.startswith(("fcn", "deeplabv3")):
        settings["aux_loss"] = True
    if model.name.startswith("vit"):
        settings["image_size"] = model.input_shape[-1]  # it learns one position for each patch
    network = models.get_model(model.name, weights=None, **settings)
    for head in ("aux_classifier", "AuxLogits"):
        if getattr(network, head, None) is not None:
            _set_aside(network, head)
    if kind == "detection" and model.name.endswith("_fpn"):
        _freeze_normalisation(network)
    return network


def _set_aside(network: "nn.Module", head: str) -> None:
    """Move a head to where the network's ``forward`` does not look for it."""
    network.auxiliary_head = getattr(network, head)
    setattr(network, head, None)
    network.aux_logits = False  # without it inception_v3 returns a pair in training


def _freeze_normalisation(module: "nn.Module") -> None:
    """Make the scale and shift of batch normalisation constants, as in the published detectors.

    torchvision does so only where it loads weights for the backbone.
    """
    from torch import nn
    from torchvision.ops import FrozenBatchNorm2d

    for name, child in module.named_children():
        if isinstance(child, nn.BatchNorm2d):
            setattr(module, name, FrozenBatchNorm2d(child.num_features, child.eps))
        else:
            _freeze_normalisation(child)


def make_inputs(model: Model, batch: int, device: str, dtype: "torch.dtype | None") -> tuple[Any, ...]:
    """Return images or clips of shape (batch, *input_shape); a list of images for detection; two for RAFT."""
    import torch

    images = torch.randn(batch, *model.input_shape, device=device, dtype=dtype)
    kind = _kinds()[model.name]
    if kind == "detection":
        return (list(images),)
    return (images, torch.randn_like(images)) if kind == "optical flow" else (images,)
