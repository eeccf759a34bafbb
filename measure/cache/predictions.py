"""The tables of how latencies are predicted: written by ``python -m measure fit`` from what was timed and counted."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from measure.cache.schema import NUMBER, Column, one_of, table
from measure.domain.words import INFERENCE, LAYER_KINDS, STEP

PRODUCT_KINDS = ("convolution", "depthwise convolution", "linear", "attention", "recurrent")
"""The kinds of layer that multiply matrices."""

ARITHMETIC = tuple(f"{kind} arithmetic" for kind in PRODUCT_KINDS)
MEMORY = tuple(f"{kind} memory" for kind in LAYER_KINDS)
UNFUSED, LAUNCHES, CALL, COPY, UPDATE = "unfused memory", "launches", "call", "input copy", "parameter update"
TERMS = (*ARITHMETIC, *MEMORY, UNFUSED, LAUNCHES, CALL, COPY, UPDATE)
"""The terms whose sum is a latency.

The arithmetic of a kind of layer is its FLOP over the peak, its memory its bytes over the bandwidth; their coefficients
say how many times longer it takes than a roof allows. ``unfused memory`` is the memory of what a compiler would fuse,
in eager mode; ``launches`` are microseconds an operator, ``call`` microseconds a call, ``input copy`` nanoseconds a
byte of the input where it is copied to the device, ``parameter update`` the bytes of the parameters over the bandwidth
in a training step.
"""

BY_MODEL, BY_FAMILY, BY_DEVICE, ONE_KNOWN, BY_SOURCE, PUT_ASIDE = CHECKS = (
    "model", "family", "device", "device with one time", "source", "put aside",
)  # fmt: skip
"""What is left out of a fit, and then predicted."""

OURS, LIKE_FLOP, LIKE_PARAMETERS, LIKE_ROOFLINE, LIKE_REGRESSION, LIKE_RESNET50 = METHODS = (
    "terms", "FLOP over peak", "parameters", "roofline", "regression on FLOP", "scaled from ResNet50",
)  # fmt: skip
"""How a latency is predicted: by the terms, and by what others do."""

ALL_BATCHES = "all"
BATCH_CLASSES = {"1": (1, 1), "2 to 15": (2, 15), "16 to 127": (16, 127), "128 and more": (128, 10**9)}
"""The batch sizes by which errors are told: from and to."""


class Setting(NamedTuple):
    """What latencies have in common that one set of coefficients is fitted to.

    ``device`` is a chip of ``data/chips.csv`` or a machine of the cache, or one of ``POOLS`` for all devices of a kind;
    ``source`` and ``software`` are empty of a pool.
    """

    device: str
    source: str
    software: str
    precision: str
    variant: str
    phase: str


def newest(settings: Iterable[Setting]) -> list[Setting]:
    """Return of settings that differ in the software alone the one with the newest."""
    found: dict[Setting, Setting] = {}
    for setting in settings:
        alike = setting._replace(software="")
        if alike not in found or release(setting) > release(found[alike]):
            found[alike] = setting
    return list(found.values())


def release(setting: Setting) -> tuple[int, ...]:
    """Return the version of a setting's software as numbers that sort: 2.9.1 before 2.14."""
    return tuple(int(part) for part in setting.software.split("+")[0].split(".") if part.isdigit())


POOLS = {"cpu": "any CPU", "gpu": "any GPU", "soc": "any system on a chip"}
"""The devices that a fit to all of a kind is for, by kind of chip; of another kind none was timed."""

HALF = "16 bits"
"""The precision of a pool of fp16 and bf16, which chips compute alike."""

HERE = "measured"
"""The source of what this program timed."""

Device = Annotated[str, "the chip in `data/chips.csv` or the machine; `any GPU`: all GPUs that were timed"]
TimedBy = Annotated[str, Column("who timed it: a key of `bib/references.bib`; `measured`: this program", empty="")]
Software = Annotated[str, Column("the version of torch", empty="")]
Format = Annotated[str, "the precision; of a pool `fp32`, or `16 bits` for fp16 and bf16"]
VariantOrAny = Annotated[str, Column("how the model is run; empty of a pool: eager and compiled", empty="")]
Phase = Annotated[str, Column("a forward pass, or a whole training step", form=one_of((INFERENCE, STEP)))]


@dataclass(frozen=True)
class OfSetting:
    """The columns that say which setting a row is of."""

    device: Device
    source: TimedBy
    software: Software
    precision: Format
    variant: VariantOrAny
    phase: Phase

    @property
    def setting(self) -> Setting:
        return Setting(*(getattr(self, name) for name in Setting._fields))


@table("prediction/coefficients.csv", key=(*Setting._fields, "term"))
@dataclass(frozen=True)
class Coefficient(OfSetting):
    """What a term is multiplied by in a setting, with the 90 % interval of a bootstrap over models or devices."""

    term: Annotated[str, "what is multiplied: a term of `docs/prediction.md`"]
    models: Annotated[int, Column("how many models were timed", NUMBER)]
    calls: Annotated[int, Column("how many latencies it is fitted to", NUMBER)]
    value: Annotated[float, Column("the coefficient", NUMBER)]
    low: Annotated[float, Column("the lower end of its interval", NUMBER)]
    high: Annotated[float, Column("the upper end of its interval", NUMBER)]


@table("prediction/errors.csv", key=("left_out", "method", *Setting._fields, "batches"))
@dataclass(frozen=True)
class PredictionError(OfSetting):
    """How far predictions are off what was timed and left out of the fit.

    An error is the prediction over the latency, less 1; its absolute value counts.
    """

    left_out: Annotated[str, Column("what was left out", form=one_of(CHECKS))]
    method: Annotated[str, Column("what predicts", form=one_of(METHODS))]
    batches: Annotated[str, Column("the batch sizes", form=one_of((ALL_BATCHES, *BATCH_CLASSES)))]
    models: Annotated[int, Column("how many models were predicted", NUMBER)]
    calls: Annotated[int, Column("how many latencies", NUMBER)]
    median_error: Annotated[float, Column("the median of the absolute errors", NUMBER)]
    p90_error: Annotated[float, Column("what nine in ten do not exceed", NUMBER)]
    coverage: Annotated[
        float | None, Column("the share of latencies within the 90 % interval; empty: the method has none", NUMBER)
    ]
    median_ratio: Annotated[float, Column("half of the latencies are less than this times the prediction", NUMBER)]
    low_ratio: Annotated[float, Column("5 % of the latencies are less than this times the prediction", NUMBER)]
    high_ratio: Annotated[float, Column("5 % are more than this times it", NUMBER)]


@table("prediction/kinds.csv", key=(*Setting._fields, "layer_kind"))
@dataclass(frozen=True)
class KindCost(OfSetting):
    """What a kind of layer takes in a setting, by the coefficients, with the 90 % interval of the same bootstrap."""

    layer_kind: Annotated[str, Column("the kind of layer", form=one_of(LAYER_KINDS))]
    models: Annotated[int, Column("how many models have such layers", NUMBER)]
    roof_times: Annotated[
        float, Column("the time of all such layers over the least that the roof allows each model's", NUMBER)
    ]
    roof_times_low: Annotated[float, Column("the lower end of its interval", NUMBER)]
    roof_times_high: Annotated[float, Column("the upper end of its interval", NUMBER)]
    share: Annotated[float, Column("the median over these models of the kind's share of the latency", NUMBER)]
