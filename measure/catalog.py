"""The models that can be measured, by name: the built-in list and ``timm:NAME``.

Weights are random: the time of these networks does not depend on their values, and nothing is downloaded.
"""

import difflib
import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from measure.errors import UserError

if TYPE_CHECKING:
    import torch
    from torch import nn

IMAGE = (3, 224, 224)
AUDIO = (16000,)
"""One second of sound at 16 kHz."""


@dataclass(frozen=True)
class Model:
    """A model's name, the library that builds it, its family, and the shape of one input without the batch."""

    name: str
    source: str
    family: str
    input_shape: tuple[int, ...]


BUILT_IN = (
    Model("alexnet", "torchvision", "plain", IMAGE),
    Model("vgg11", "torchvision", "plain", IMAGE),
    Model("vgg16", "torchvision", "plain", IMAGE),
    Model("vgg19", "torchvision", "plain", IMAGE),
    Model("resnet18", "torchvision", "residual", IMAGE),
    Model("resnet50", "torchvision", "residual", IMAGE),
    Model("wide_resnet101_2", "torchvision", "residual", IMAGE),
    Model("densenet121", "torchvision", "residual", IMAGE),
    Model("googlenet", "torchvision", "inception", IMAGE),
    Model("inception_v3", "torchvision", "inception", (3, 299, 299)),
    Model("squeezenet1_0", "torchvision", "compact", IMAGE),
    Model("shufflenet_v2_x1_0", "torchvision", "compact", IMAGE),
    Model("mobilenet_v2", "torchvision", "compact", IMAGE),
    Model("mobilenet_v3_large", "torchvision", "compact", IMAGE),
    Model("mnasnet1_0", "torchvision", "compact", IMAGE),
    Model("efficientnet_b0", "torchvision", "compact", IMAGE),
    Model("efficientnet_b7", "torchvision", "compact", IMAGE),
    Model("regnet_y_400mf", "torchvision", "residual", IMAGE),
    Model("convnext_tiny", "torchvision", "residual", IMAGE),
    Model("fcn_resnet50", "torchvision", "segmentation", IMAGE),
    Model("vit_b_16", "torchvision", "transformer", IMAGE),
    Model("vit_b_32", "torchvision", "transformer", IMAGE),
    Model("swin_t", "torchvision", "transformer", IMAGE),
    Model("wav2vec2_base", "torchaudio", "audio", AUDIO),
)

SETTINGS: dict[str, dict[str, Any]] = {
    "googlenet": {"aux_logits": False, "init_weights": False},
    "inception_v3": {"init_weights": False},
    "fcn_resnet50": {"weights_backbone": None, "aux_loss": True},
}
"""What torchvision has to be told so that a model has the published parameters, and is built quickly."""

QUICK = (
    "alexnet",
    "resnet18",
    "resnet50",
    "squeezenet1_0",
    "shufflenet_v2_x1_0",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "vit_b_32",
)
"""The small selection of ``make report``: every kind of layer, a few minutes on two cores."""


def find(patterns: Iterable[str]) -> list[Model]:
    """The models that names, globs and ``timm:NAME`` select, in the catalog's order, each once.

    Raises UserError for a name that is unknown, with the nearest known ones.
    """
    chosen: dict[str, Model] = {}
    for pattern in patterns:
        if pattern.startswith("timm:"):
            chosen[pattern] = _timm_model(pattern)
            continue
        matches = [model for model in BUILT_IN if fnmatch.fnmatchcase(model.name, pattern)]
        if not matches:
            raise UserError(f"--models: no model is called {pattern!r}; {_nearest(pattern)}")
        chosen |= {model.name: model for model in matches}
    order = {model.name: place for place, model in enumerate(BUILT_IN)}
    return sorted(chosen.values(), key=lambda model: order.get(model.name, len(order)))


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), [model.name for model in BUILT_IN], n=3, cutoff=0.5)
    if near:
        return f"the nearest are {', '.join(near)} (all: python -m measure --list)"
    return "python -m measure --list shows them all"


def _timm_model(name: str) -> Model:
    try:
        import timm
    except ImportError:
        raise UserError(
            f"--models: {name!r} needs timm; install it with pip install 'ridgepoint[timm]'"
        ) from None
    plain = name.removeprefix("timm:")
    if not timm.is_model(plain):
        near = difflib.get_close_matches(plain, timm.list_models(), n=3)
        hint = f"the nearest are {', '.join(near)}" if near else "timm.list_models() shows them all"
        raise UserError(f"--models: timm has no model {plain!r}; {hint}")
    settings = timm.models.get_pretrained_cfg(plain, allow_unregistered=False)
    return Model(name, "timm", "other", tuple(settings.input_size) if settings else IMAGE)


def build(model: Model) -> "nn.Module":
    """The network in eval mode with random weights, on torch's default device.

    Auxiliary classifiers are built where the published parameter count has them, and are not executed.
    """
    if model.source == "torchaudio":
        import torchaudio

        return getattr(torchaudio.models, model.name)().eval()
    if model.source == "timm":
        import timm

        return timm.create_model(model.name.removeprefix("timm:"), pretrained=False).eval()
    import torchvision

    network = torchvision.models.get_model(model.name, weights=None, **SETTINGS.get(model.name, {}))
    if getattr(network, "aux_classifier", None) is not None:
        return _without_auxiliary(network).eval()
    return network.eval()


def _without_auxiliary(network: "nn.Module") -> "nn.Module":
    """A segmentation network whose auxiliary head, a help in training only, keeps its parameters but never runs."""
    from torch import nn

    class MainHead(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self, images: "torch.Tensor") -> "torch.Tensor":
            scores = network.classifier(network.backbone(images)["out"])
            return nn.functional.interpolate(
                scores, size=images.shape[-2:], mode="bilinear", align_corners=False
            )

    return MainHead()


def build_on_meta(model: Model) -> "nn.Module":
    """The network without memory for its weights, to count on."""
    import torch

    if model.name.startswith("regnet"):  # reads numbers out of tensors while it is built
        return build(model).to("meta")
    with torch.device("meta"):
        return build(model)


def make_input(model: Model, batch: int, device: str, dtype: "torch.dtype | None" = None) -> "torch.Tensor":
    """Random input of shape (batch, *input_shape)."""
    import torch

    return torch.randn(batch, *model.input_shape, device=device, dtype=dtype)
