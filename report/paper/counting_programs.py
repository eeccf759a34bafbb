"""Compare what programs count, of torchvision's classification models, with what torchvision publishes."""

import re

import pandas as pd

from report.markdown import percent

OURS = "roofwright"

NAMES = {
    OURS: "Roofwright", "torch": "FlopCounterMode", "fvcore": "fvcore", "ptflops-aten": "ptflops (aten)",
    "ptflops-pytorch": "ptflops (pytorch)", "thop": "thop", "torchinfo": "torchinfo", "calflops": "calflops",
    "deepspeed": "DeepSpeed",
}  # fmt: skip
"""The programs as the paper calls them, in its order."""

PUBLISHED_MAC_STEP = 1_000_000  # torchvision publishes 10^9 multiply-adds with three decimals (``meta["_ops"]``)

TOLERANCE = 0.01
"""The deviation up to which a count is called right, where that is more than the published count's rounding."""

LINES = {
    "without normalisation": {"AlexNet": "alexnet", "VGG": r"vgg\d+", "SqueezeNet": "squeezenet.*"},
    "batch normalisation": {
        "VGG, normalised": r"vgg\d+_bn", "GoogLeNet": "googlenet", "Inception v3": "inception_v3",
        "ResNet": r"resnet\d+", "Wide ResNet": "wide_resnet.*", "ResNeXt": "resnext.*", "DenseNet": "densenet.*",
        "RegNet": "regnet.*", "ShuffleNet v2": "shufflenet.*", "MnasNet": "mnasnet.*", "MobileNet v2": "mobilenet_v2",
        "MobileNet v3": "mobilenet_v3.*", "EfficientNet": r"efficientnet_b\d", "EfficientNet v2": "efficientnet_v2.*",
    },
    "layer normalisation": {"ConvNeXt": "convnext.*"},
    "attention": {"MaxViT": "maxvit.*", "ViT": "vit.*", "Swin": r"swin_[^v].*", "Swin v2": "swin_v2.*"},
}  # fmt: skip
"""Lines of models by the pattern of their names, grouped by the kind of layer that programs disagree about."""


def name(program: str) -> str:
    return NAMES.get(program, program)


def signed(deviation: float) -> str:
    """Return a relative deviation with its sign: ``+6.28 %``, ``−35.7 %``."""
    return ("+" if deviation > 0 else "") + percent(deviation, 3).replace("-", "−")


def _line(model: str) -> str:
    lines = (line for group in LINES.values() for line in group.items())
    return next((line for line, pattern in lines if re.fullmatch(pattern, model)), model)


def derive(results: pd.DataFrame) -> pd.DataFrame:
    """Return the results with each model's line, its count's deviation, and whether it is ``right`` and ``equal``.

    Equal is a count that rounds to the published one; right one that deviates from it by no more than ``TOLERANCE``,
    or than its rounding: the smallest model's count is published as 40 million to the nearest million.
    """
    counted = results.forward_mac.astype(float)
    off, rounding = (counted - results.published_mac).abs(), PUBLISHED_MAC_STEP / 2
    return results.assign(
        line=[_line(model) for model in results.model],
        deviation=counted / results.published_mac - 1,
        equal=off <= rounding,
        right=(off <= TOLERANCE * results.published_mac) | (off <= rounding),
    )


SCORE = (
    "program", "version", "models", "counted", "right", "equal", "same_parameters", "build_s", "count_s", "peak_byte",
)  # fmt: skip


def scores(results: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each program: its ``models``, how many it counted, right and equal, in which time and memory."""
    rows = []
    for program, counts in results.groupby("program", sort=False):
        same = counts.parameter_count.astype(float) == counts.published_parameter_count
        rows.append((
            program, counts.version.iloc[0], len(counts), int((counts.status == "ok").sum()), int(counts.right.sum()),
            int(counts.equal.sum()), float(same.sum()) if counts.parameter_count.notna().any() else None,
            counts.build_s.sum(min_count=1), counts.count_s.sum(min_count=1), counts.peak_byte.max(),
        ))  # fmt: skip
    return pd.DataFrame(rows, columns=[*SCORE])
