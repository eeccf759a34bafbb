"""How weights and caches are stored: the bits of a number, the scales between the numbers, the arithmetic on them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from measure.errors import UserError, unknown


@dataclass(frozen=True)
class Format:
    """A format of stored numbers. ``group`` of them share ``scale_bit`` bits of scales and zero points.

    ``arithmetic`` is the precision of products with such weights, as ``data/chips.csv`` names it. Formats that store
    weights alone in few bits unpack them and multiply at 16 bits.
    """

    name: str
    number_bit: int
    arithmetic: str
    group: int = 1
    scale_bit: float = 0.0

    @property
    def bit(self) -> float:
        """The stored bits of a number, with its share of the scales."""
        return self.number_bit + self.scale_bit / self.group

    @property
    def input_bit(self) -> float:
        """The bits of the other side of a product: inputs are as wide as the arithmetic."""
        return INPUT_BIT[self.arithmetic]


FORMATS = {
    each.name: each
    for each in (
        Format("fp32", 32, "fp32"),
        Format("fp16", 16, "fp16"),
        Format("bf16", 16, "bf16"),
        Format("fp8", 8, "fp8"),  # a scale for a whole matrix or row
        Format("fp8_block", 8, "fp8", 128 * 128, 32),  # DeepSeek-AI 2024, DeepSeek-V3, arXiv:2412.19437, section 3.3
        Format("int8", 8, "int8"),
        Format("int4", 4, "bf16", 128, 16),
        Format("mxfp4", 4, "bf16", 32, 8),  # OCP Microscaling Formats 1.0; inputs as gpt-oss has them, at 16 bits
        Format("nvfp4", 4, "fp4", 16, 8),  # Alvarez et al. 2025, Introducing NVFP4
    )
}
INPUT_BIT = {"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 8, "int8": 8, "fp4": FORMATS["nvfp4"].bit}
PICTURES = "language_model."  # within the names of modules
DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}  # torch's names


def format_named(flag: str, name: str) -> Format:
    """Return the format of a name, given for ``flag``."""
    if name not in FORMATS:
        raise unknown(flag, name, FORMATS)
    return FORMATS[name]


@dataclass(frozen=True)
class Quantisation:
    """The format of the quantised weights, the modules that are left out, and the format of the cache if it has one."""

    weights: Format
    ignored: tuple[str, ...] = ()
    cache: Format | None = None
    only_experts: bool = False

    def leaves_out(self, module: str) -> bool:
        """Return whether a module of a checkpoint, ``model.layers.3.self_attn.q_proj``, is not quantised.

        Networks that also see pictures call it ``model.language_model.layers``.
        """
        module = module.replace(PICTURES, "")
        return (self.only_experts and ".experts." not in module) or any(_names(each, module) for each in self.ignored)


def _names(pattern: str, module: str) -> bool:
    """Return whether a pattern names a module or a part above it: a regular expression, a glob, or dotted parts."""
    if pattern.startswith("re:"):
        return re.match(pattern[3:], module) is not None
    return fnmatchcase(f".{module}.", f"*.{pattern.replace(PICTURES, '')}.*")


def read_quantisation(settings: Mapping[str, Any], base: Format, source: str) -> Quantisation:
    """Read a ``quantization_config``. ``base`` is the format of all that is not quantised.

    Raises UserError for a method or a format that is none of the known ones.
    """
    method = str(settings.get("quant_method") or ("modelopt" if "quant_algo" in settings else ""))
    if method not in READERS:
        raise unknown(f"{source}: quant_method", method, READERS)
    try:
        found: Quantisation = READERS[method](settings, base, source)
        cache = _cache(settings)
    except (AttributeError, TypeError, ValueError):
        remedy = "give the config.json as the checkpoint has it"
        raise UserError(
            f"{source}: the quantization_config of {method} has a value of another kind; {remedy}"
        ) from None
    lists = (settings.get(each) for each in ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules"))
    ignored = tuple(str(module) for each in lists for module in each or ())
    return replace(found, ignored=ignored, cache=cache)


def _cache(settings: Mapping[str, Any]) -> Format | None:
    scheme = settings.get("kv_cache_scheme")
    if isinstance(scheme, Mapping):
        return _of_numbers(int(scheme.get("num_bits", 8)), str(scheme.get("type", "float")))
    algorithm = str(settings.get("kv_cache_quant_algo") or "").lower()
    return FORMATS.get(algorithm)


def _of_numbers(bits: int, kind: str) -> Format | None:
    return {(8, "float"): FORMATS["fp8"], (8, "int"): FORMATS["int8"], (4, "float"): FORMATS["nvfp4"]}.get((bits, kind))


def _fp8(settings: Mapping[str, Any], base: Format, source: str) -> Quantisation:
    block = settings.get("weight_block_size")
    if not block:
        return Quantisation(FORMATS["fp8"])
    rows, columns = block
    return Quantisation(replace(FORMATS["fp8_block"], group=rows * columns))


def _packed(settings: Mapping[str, Any], base: Format, source: str) -> Quantisation:
    """Read AWQ and GPTQ: a group has a scale of 16 bits and a zero point that is as wide as a weight."""
    bits, group = int(settings.get("bits", 4)), int(settings.get("group_size", 128))
    scales = (group, 16 + bits) if group > 0 else (1, 0)  # -1: a scale for a whole row
    return Quantisation(Format(f"int{bits}", bits, base.arithmetic, *scales))


def _bitsandbytes(settings: Mapping[str, Any], base: Format, source: str) -> Quantisation:
    """Read NF4 (Dettmers et al. 2023, QLoRA, section 3): blocks of 64 with a scale of 32 bits, or of 8 scaled again."""
    if settings.get("load_in_8bit") or not settings.get("load_in_4bit"):
        return Quantisation(FORMATS["int8"])
    scale_bit = 8 + 32 / 256 if settings.get("bnb_4bit_use_double_quant") else 32
    return Quantisation(Format("nf4", 4, base.arithmetic, 64, scale_bit))


def _mxfp4(settings: Mapping[str, Any], base: Format, source: str) -> Quantisation:
    """Read the format of gpt-oss, whose experts alone are stored in it."""
    return Quantisation(replace(FORMATS["mxfp4"], arithmetic=base.arithmetic), only_experts=True)


def _modelopt(settings: Mapping[str, Any], base: Format, source: str) -> Quantisation:
    algorithms = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A16_AWQ": "int4", "W8A8_SQ_PER_CHANNEL": "int8"}
    algorithm = str(settings.get("quant_algo"))
    if algorithm not in algorithms:
        raise unknown(f"{source}: quant_algo", algorithm, algorithms)
    return Quantisation(FORMATS[algorithms[algorithm]])


def _compressed(settings: Mapping[str, Any], base: Format, source: str) -> Quantisation:
    """Read compressed-tensors. The first group of a configuration stands for all of them."""
    groups = settings.get("config_groups") or {}
    weights = next((group.get("weights") for group in groups.values() if group.get("weights")), None)
    if weights is None:
        raise UserError(f"{source}: no group of config_groups has weights; give the config.json of the checkpoint")
    group = next(each for each in groups.values() if each.get("weights") is weights)
    bits, kind = int(weights.get("num_bits", 8)), str(weights.get("type", "int"))
    found = _of_numbers(bits, kind) or Format(f"{kind}{bits}", bits, base.arithmetic)
    zero_bit = 0 if weights.get("symmetric", True) else bits
    scale_bit = 8 if (bits, kind) == (4, "float") else 16 + zero_bit
    if group_size := weights.get("group_size"):
        found = replace(found, group=int(group_size), scale_bit=scale_bit)
    if not group.get("input_activations"):  # the weights alone
        found = replace(found, arithmetic=base.arithmetic)
    return Quantisation(found)


READERS = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "awq": _packed,
    "gptq": _packed,
    "bitsandbytes": _bitsandbytes,
    "mxfp4": _mxfp4,
    "modelopt": _modelopt,
    "compressed-tensors": _compressed,
}
