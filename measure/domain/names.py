"""Networks' names as people write them: ``resnet18`` is ResNet-18. Tables of data keep the libraries' names."""

import re
from functools import cache

from measure.domain.models import NAME

NAMES = {
    "alexnet": "AlexNet", "googlenet": "GoogLeNet", "inception_v3": "Inception-v3", "fcn_resnet50": "FCN-ResNet-50",
    "shufflenet_v2_x1_0": "ShuffleNet-v2", "squeezenet1_0": "SqueezeNet", "mnasnet1_0": "MnasNet",
    "mobilenet_v2": "MobileNet-v2", "mobilenet_v3_large": "MobileNet-v3", "mobilenet_v3_small": "MobileNet-v3-small",
    "regnet_y_400mf": "RegNet-Y-400MF", "convnext_tiny": "ConvNeXt-Tiny", "convnext_small": "ConvNeXt-Small",
    "convnext_base": "ConvNeXt-Base", "wav2vec2_base": "wav2vec 2.0",
    "wide_resnet50_2": "Wide-ResNet-50", "wide_resnet101_2": "Wide-ResNet-101", "resnext50_32x4d": "ResNeXt-50",
    "resnext101_32x8d": "ResNeXt-101", "vit_base_patch16_224": "ViT-B/16", "coat_tiny": "CoaT-Tiny",
    "vit_base_patch32_224": "ViT-B/32", "vit_base_patch32_clip_224": "ViT-B/32 (CLIP)",
}  # fmt: skip
SIZES = {"t": "Tiny", "s": "Small", "b": "Base"}
PATTERNS = (
    (r"resnet(\d+)", r"ResNet-\1"), (r"vgg(\d+)", r"VGG-\1"), (r"vgg(\d+)_bn", r"VGG-\1-BN"),
    (r"densenet(\d+)", r"DenseNet-\1"), (r"shufflenet_v2_x(\d)_(\d)", r"ShuffleNet-v2-\1.\2"),
    (r"mnasnet(\d)_(\d+)", r"MnasNet-\1.\2"), (r"squeezenet(\d)_(\d)", r"SqueezeNet-\1.\2"),
    (r"swin_(v2_)?([tsb])", lambda m: f"Swin-{'v2-' * bool(m[1])}{SIZES[m[2]]}"),
    (r"efficientnet_b(\d)", r"EfficientNet-B\1"), (r"vit_([a-z])_(\d+)", lambda m: f"ViT-{m[1].upper()}/{m[2]}"),
)  # fmt: skip
TEXT_NAMES = {"gpt2": "GPT-2", "bert_base": "BERT", "llama_1b": "Llama-1B"}


@cache
def model_name(model: str) -> str:
    """Return a network's name as people write it; an unknown one is returned as it is.

    ``timm:`` before a name that torchvision has too is kept as an addition: the two differ.
    """
    source, _, name = model.rpartition(":")
    if match := NAME.fullmatch(name):
        size = TEXT_NAMES.get(match["size"], match["size"])
        return f"{size} {match['phase']}"
    written = NAMES.get(name)
    for pattern, replacement in PATTERNS:
        if written is None and (match := re.fullmatch(pattern, name)):
            written = match.expand(replacement) if isinstance(replacement, str) else replacement(match)
    if written is None:
        return model
    return f"{written} ({source})" if source else written
