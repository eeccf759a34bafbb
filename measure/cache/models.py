"""The models that tables name, and the built-in ones among them."""

from dataclasses import dataclass

from measure.cache.words import shape_name

IMAGE = (3, 224, 224)
"""A colour image of the size that ImageNet's classifiers are compared at."""

SOUND = (16000,)
"""One second at 16 kHz, the rate of speech recognition."""

SPEECH = (10 * SOUND[0],)
"""Ten seconds of it, a clip of a usual length."""

OWN = "own"
"""The source and the family of a user's own model."""


@dataclass(frozen=True)
class Model:
    """A model's name, the library that builds it, its family, and the shape of one input without the batch.

    Where one call takes several inputs the shape is the first one's: see ``catalog.prepare``.
    """

    name: str
    source: str
    family: str
    input_shape: tuple[int, ...]

    @property
    def selector(self) -> str:
        """Return what ``--models`` calls this model and no other."""
        return self.name if ":" in self.name else f"{self.source}:{self.name}"


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
    Model("wav2vec2_base", "torchaudio", "audio", SPEECH),
)
"""What is measured where no model is named."""

MEASURED_SHAPES = {model.name: shape_name(model.input_shape) for model in BUILT_IN}
"""The shape of one input at which each built-in model is measured, as tables write it."""

STORY = ("mobilenet_v2", "resnet18")
"""The two models that the paper's story is about: the first needs a sixth of the FLOP of the second."""

QUICK = (
    *STORY, "alexnet", "resnet50", "squeezenet1_0", "shufflenet_v2_x1_0", "mobilenet_v3_large", "vit_b_32",
)  # fmt: skip
"""The small selection of ``make report``, with every kind of layer. The models of the story are trained too."""
