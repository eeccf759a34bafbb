"""The tables of how latencies are predicted: ``python -m measure fit`` writes them from timings and counts."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from measure.cache import schema
from measure.cache.schema import NUMBER, Column, one_of, table
from measure.domain.words import INFERENCE, LAYER_KINDS, PRODUCT_KINDS, STEP

# The terms whose sum is a latency; ``docs/prediction.md`` defines them
ARITHMETIC = tuple(f"{kind} arithmetic" for kind in PRODUCT_KINDS)
MEMORY = tuple(f"{kind} memory" for kind in LAYER_KINDS)
UNFUSED, LAUNCHES, CALL, COPY, UPDATE = "unfused memory", "launches", "call", "input copy", "parameter update"
TERMS = (*ARITHMETIC, *MEMORY, UNFUSED, LAUNCHES, CALL, COPY, UPDATE)

# What a fit leaves out and then predicts
BY_MODEL, BY_FAMILY, BY_DEVICE, ONE_KNOWN, BY_SOURCE, PUT_ASIDE = CHECKS = (
    "model", "family", "device", "device with one time", "source", "put aside",
)  # fmt: skip

# Our method of prediction, and other people's
OURS, LIKE_FLOP, LIKE_PARAMETERS, LIKE_ROOFLINE, LIKE_REGRESSION, LIKE_RESNET50 = METHODS = (
    "terms", "FLOP over peak", "parameters", "roofline", "regression on FLOP", "scaled from ResNet50",
)  # fmt: skip

# First and last batch size of each class that has errors of its own
ALL_BATCHES = "all"
BATCH_CLASSES = {"1": (1, 1), "2 to 15": (2, 15), "16 to 127": (16, 127), "128 and more": (128, 10**9)}

POOLS = {"cpu": "any CPU", "gpu": "any GPU", "soc": "any system on a chip"}  # all devices of a kind, by kind of chip
HALF = "16 bits"  # the precision of a pool of fp16 and bf16, which chips compute alike
HERE = "measured"  # the source of this program's timings


class Setting(NamedTuple):
    """The conditions of the latencies that share one set of coefficients."""

    device: str  # a chip of ``data/chips.csv``, a machine of the cache, or a pool
    source: str  # empty for a pool, as is ``software``
    software: str
    precision: str
    variant: str
    phase: str


def release(setting: Setting) -> tuple[int, ...]:
    """Return the version of a setting's software as numbers that sort: 2.9.1 before 2.14."""
    return tuple(int(part) for part in setting.software.split("+")[0].split(".") if part.isdigit())


@dataclass(frozen=True)
class OfSetting:
    """The columns that identify a setting."""

    device: Annotated[str, "the chip in `data/chips.csv` or the machine; `any GPU`: all timed GPUs"]
    source: Annotated[str, Column("a key of `bib/references.bib`; `measured`: this program", empty="")]
    software: Annotated[str, Column("the version of torch", empty="")]
    precision: Annotated[str, "the precision; for a pool `fp32`, or `16 bits` for fp16 and bf16"]
    variant: Annotated[str, Column("how the model is run; empty for a pool: eager and compiled", empty="")]
    phase: Annotated[str, Column("a forward pass, or a whole training step", form=one_of((INFERENCE, STEP)))]

    @property
    def setting(self) -> Setting:
        return Setting(*(getattr(self, name) for name in Setting._fields))


@table("prediction/coefficients.csv", key=(*Setting._fields, "term"))
class Coefficient(OfSetting):
    """The coefficient of a term in a setting, with the 90 % interval of a bootstrap over models or devices."""

    term: Annotated[str, "a term of `docs/prediction.md`"]
    models: Annotated[int, Column("the number of timed models", NUMBER)]
    calls: Annotated[int, Column("the number of fitted latencies", NUMBER)]
    value: Annotated[float, Column("the coefficient", NUMBER)]
    low: Annotated[float, Column("the lower end of its interval", NUMBER)]
    high: Annotated[float, Column("the upper end of its interval", NUMBER)]


@table("prediction/errors.csv", key=("left_out", "method", *Setting._fields, "batches"))
class PredictionError(OfSetting):
    """The errors of predictions of latencies that the fit left out.

    An error is the absolute value of prediction over latency, less 1.
    """

    left_out: Annotated[str, Column("the part of the timings that the fit left out", form=one_of(CHECKS))]
    method: Annotated[str, Column("the method of prediction", form=one_of(METHODS))]
    batches: Annotated[str, Column("the batch sizes", form=one_of((ALL_BATCHES, *BATCH_CLASSES)))]
    models: Annotated[int, Column("the number of predicted models", NUMBER)]
    calls: Annotated[int, Column("the number of predicted latencies", NUMBER)]
    median_error: Annotated[float, Column("the median error", NUMBER)]
    p90_error: Annotated[float, Column("the 90th percentile of the errors", NUMBER)]
    coverage: Annotated[float | None, Column("the share of latencies within the 90 % interval, if any", NUMBER)]
    median_ratio: Annotated[float, Column("the median of latency over prediction", NUMBER)]
    low_ratio: Annotated[float, Column("the 5th percentile of latency over prediction", NUMBER)]
    high_ratio: Annotated[float, Column("the 95th percentile of latency over prediction", NUMBER)]


@table("prediction/kinds.csv", key=(*Setting._fields, "layer_kind"))
class KindCost(OfSetting):
    """The cost of a kind of layer in a setting, by the coefficients, with the 90 % interval of their bootstrap."""

    layer_kind: schema.LayerKind
    models: Annotated[int, Column("the number of models with such layers", NUMBER)]
    roof_times: Annotated[float, Column("the time of these layers over their least time by the roof", NUMBER)]
    roof_times_low: Annotated[float, Column("the lower end of its interval", NUMBER)]
    roof_times_high: Annotated[float, Column("the upper end of its interval", NUMBER)]
    share: Annotated[float, Column("the kind's share of the latency, the median over these models", NUMBER)]
