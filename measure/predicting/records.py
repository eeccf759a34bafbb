"""The tables behind predicted latencies: ``python -m measure fit`` writes them from timings and counts."""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

from measure.domain.schema import NUMBER, Column, one_of, table
from measure.domain.words import FULL_PRECISION, INFERENCE, STEP, stored_as

# The terms of the device's time, which is their sum; ``docs/prediction.md`` defines them
ARITHMETIC = "convolution arithmetic", "depthwise arithmetic", "dense arithmetic"
MEMORY = PRODUCT, OTHER, UNFUSED = "product memory", "other memory", "unfused memory"
LAUNCHES, HOST_MEMORY = "launches", "host memory"
TERMS = (*ARITHMETIC, *MEMORY, LAUNCHES, HOST_MEMORY)

# The held-out data that a fit predicts
BY_FAMILY, BY_DEVICE, BY_BOTH, ONE_KNOWN, FIVE_KNOWN, PUT_ASIDE = CHECKS = (
    "family", "device", "device and network", "device with one time", "device with five times", "put aside",
)  # fmt: skip

# Our method of prediction, and other people's
OURS, LIKE_FLOP, LIKE_ROOFLINE = METHODS = "terms", "FLOP over peak", "roofline"

# First and last batch size of each class that has errors of its own
ALL = "all"
BATCH_CLASSES = {"1": (1, 1), "2 to 15": (2, 15), "16 to 127": (16, 127), "128 and more": (128, 10**9)}
SOME = 20  # a setting with so many models is checked by itself
KNOWN_TIMES = 5  # of a device left out, for the intervals of several known times
# The sorts of networks that have errors of their own: by their work if they read images; decoding is of one token
SORTS = DENSE, DEPTHWISE, CONVOLUTIONAL, LANGUAGE, DECODING, AUDIO = (
    "dense", "depthwise", "convolutional", "language", "decoding", "audio",
)  # fmt: skip

TOKENS = "any GPU, tokens"  # the pool of published tokens a second of language models
POOLS = {"cpu": "any CPU", "gpu": "any GPU", "soc": "any system on a chip", "tokens": TOKENS}
HALF = "16 bits"  # the precision of a pool of fp16 and bf16, which chips compute alike
HERE = "measured"  # the source of this program's timings
COUNTED = "prediction/counted"  # the folder of counts that no paper shows
ANY = "any"  # the precision of a host, because it launches alike at all precisions


class Setting(NamedTuple):
    """The conditions of the latencies that share one set of coefficients."""

    device: str  # a chip of ``data/chips.csv``, a machine of the cache, or a pool
    source: str  # empty for a pool, as is ``software``
    software: str
    precision: str
    variant: str
    phase: str


def pool_of(chip_kind: str, precision: str, phase: str) -> Setting:
    """Return the setting that all devices of a kind share, at precisions of equal width."""
    bits = FULL_PRECISION if stored_as(precision) == FULL_PRECISION else HALF
    return Setting(POOLS.get(chip_kind, f"any {chip_kind}"), "", "", bits, "", phase)


def batch_class(batch: int) -> str:
    return next(name for name, (least, most) in BATCH_CLASSES.items() if least <= batch <= most)


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
    """The coefficient of a term in a setting; of a machine's ``launches``, the time of its host (µs) an operator."""

    term: Annotated[str, Column("a term of `docs/prediction.md`", form=one_of(TERMS))]
    models: Annotated[int, Column("the number of timed models", NUMBER)]
    value: Annotated[float, Column("the coefficient", NUMBER)]


@table("prediction/networks.csv", key=("device", "precision", "phase", "network"))
class NetworkFactor:
    """The factor of a network on the device's part of its times, over the time that the coefficients predict.

    It is the median over devices, drawn to 1 as by one more device.
    """

    device: Annotated[str, "the pool of `coefficients.csv`"]
    precision: Annotated[str, "the precision of the pool"]
    phase: Annotated[str, Column("a forward pass, or a whole training step", form=one_of((INFERENCE, STEP)))]
    network: Annotated[str, "the network, without its library and the tag of its weights"]
    factor: Annotated[float, Column("the factor", NUMBER)]


@table("prediction/errors.csv", key=("left_out", "method", *Setting._fields, "batches", "sort"))
class PredictionError(OfSetting):
    """The errors of predictions of latencies that the fit left out.

    An error is the absolute value of prediction over latency, less 1.
    """

    left_out: Annotated[str, Column("the part of the timings that the fit left out", form=one_of(CHECKS))]
    method: Annotated[str, Column("the method of prediction", form=one_of(METHODS))]
    batches: Annotated[str, Column("the batch sizes", form=one_of((ALL, *BATCH_CLASSES)))]
    sort: Annotated[str, Column("the sort of network", form=one_of((ALL, *SORTS)))]
    models: Annotated[int, Column("the number of predicted models", NUMBER)]
    calls: Annotated[int, Column("the number of predicted latencies", NUMBER)]
    median_error: Annotated[float, Column("the median error", NUMBER)]
    p90_error: Annotated[float, Column("the 90th percentile of the errors", NUMBER)]
    coverage: Annotated[float | None, Column("the share of latencies within an interval made of others", NUMBER)]
    median_ratio: Annotated[float, Column("the median of latency over prediction", NUMBER)]
    within: Annotated[
        float | None, Column("nine in ten latencies lie within this factor of the prediction, if checked", NUMBER)
    ]
