"""The tables behind predicted latencies: ``python -m measure fit`` writes them from timings and counts."""

from collections.abc import Container
from dataclasses import dataclass
from typing import Annotated, NamedTuple

from measure.domain.schema import NUMBER, Column, one_of, some_of, table
from measure.domain.words import FULL_PRECISION, INFERENCE, STEP, stored_as

# The terms of the device's time, which is their sum; ``docs/prediction.md`` defines them
DENSE_ARITHMETIC = "dense arithmetic"
ARITHMETIC = "convolution arithmetic", "depthwise arithmetic", DENSE_ARITHMETIC
MEMORY = PRODUCT, OTHER, UNFUSED = "product memory", "other memory", "unfused memory"
LAUNCHES, HOST_MEMORY, VECTOR = "launches", "host memory", "vector arithmetic"
TERMS = (*ARITHMETIC, *MEMORY, LAUNCHES, HOST_MEMORY, VECTOR)

# The levels of a coefficient: of all devices of a kind, of the options that a model ran with, and of one die
LEVELS = POOL, OPTION, DIE = "pool", "option", "die"
# How a model ran, if otherwise than in eager mode, at one precision, without cudnn.benchmark and with contiguous
# tensors. tf32: convolutions at fp32 in TF32, as torch has it
COMPILED = "torch.compile"
OPTIONS = AUTOCAST, BENCHMARK, CHANNELS_LAST, TF32_CONVOLUTIONS = "autocast", "benchmark", "channels_last", "tf32"
ALL_OPTIONS = COMPILED, *OPTIONS  # what a model may be asked to run with
FOUR_BITS = "Q4_K_M"  # the format of weights of some published tokens, counted at 4 to 6 bits a number
FACTORS = (*ALL_OPTIONS, FOUR_BITS)  # the labels of OPTION, which change a time

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

TOKENS, PROMPTS = "any GPU, tokens", "any GPU, prompts"  # the pools of published tokens a second of language models
POOLS = {
    "cpu": "any CPU", "gpu": "any GPU", "soc": "any system on a chip", "tokens": TOKENS, "prompts": PROMPTS,
}  # fmt: skip
HALF = "16 bits"  # the precision of a pool of fp16 and bf16, which chips compute alike
HERE = "measured"  # the source of this program's timings
COUNTED = "prediction/counted"  # the folder of counts that no paper shows


class Setting(NamedTuple):
    """The conditions of the latencies that share one set of coefficients."""

    device: str  # a chip of ``data/chips.csv``, a machine of the cache, or a pool
    source: str  # empty for a pool, as is ``software``
    software: str
    precision: str
    variant: str
    phase: str
    options: str = ""  # of OPTIONS, joined by ``;``

    @property
    def ran_with(self) -> tuple[str, ...]:
        """What the calls ran with, of FACTORS."""
        found = options_among((self.variant, *self.options.split(";")))
        return (*found, FOUR_BITS) if self.precision == FOUR_BITS else found


def options_among(names: Container[str]) -> tuple[str, ...]:
    """Return the ALL_OPTIONS among some names, each once."""
    return tuple(option for option in ALL_OPTIONS if option in names)


def pool_of(chip_kind: str, precision: str, phase: str) -> Setting:
    """Return the setting that all devices of a kind share, at precisions of equal width."""
    bits = FULL_PRECISION if stored_as(precision) == FULL_PRECISION else HALF
    return Setting(POOLS.get(chip_kind, f"any {chip_kind}"), "", "", bits, "", phase)


def batch_class(batch: int) -> str:
    return next(name for name, (least, most) in BATCH_CLASSES.items() if least <= batch <= most)


def release(software: str) -> tuple[int, ...]:
    """Return a version as numbers that sort: 2.9.1 before 2.14."""
    return tuple(int(part) for part in software.split("+")[0].split(".") if part.isdigit())


@dataclass(frozen=True)
class OfSetting:
    """The columns that identify a setting."""

    device: Annotated[str, "the chip in `data/chips.csv` or the machine; `any GPU`: all timed GPUs"]
    source: Annotated[str, Column("a key of `bib/references.bib`; `measured`: this program", empty="")]
    software: Annotated[str, Column("the version of torch", empty="")]
    precision: Annotated[str, "the precision; for a pool `fp32`, or `16 bits` for fp16 and bf16"]
    variant: Annotated[str, Column("how the model is run; empty for a pool: eager and compiled", empty="")]
    phase: Annotated[str, Column("a forward pass, or a whole training step", form=one_of((INFERENCE, STEP)))]
    options: Annotated[str, Column("what else the model ran with", form=some_of(OPTIONS, ";"), empty="")]

    @property
    def setting(self) -> Setting:
        return Setting(*(getattr(self, name) for name in Setting._fields))


@table("prediction/coefficients.csv", key=("device", "precision", "phase", "level", "label", "term"))
class Coefficient:
    """The coefficient of a term in a pool, or a factor on it: of an option that a model ran with, or of a die."""

    device: Annotated[str, "the pool: `any GPU` is all timed GPUs"]
    precision: Annotated[str, "the precision of the pool: `fp32`, or `16 bits` for fp16 and bf16"]
    phase: Annotated[str, Column("a forward pass, or a whole training step", form=one_of((INFERENCE, STEP)))]
    level: Annotated[str, Column("what the value belongs to", form=one_of(LEVELS))]
    label: Annotated[str, Column("the option; the die, or a chip or machine without one", empty="")]
    term: Annotated[str, Column("a term of `docs/prediction.md`", form=one_of(TERMS))]
    models: Annotated[int, Column("the number of timed models", NUMBER)]
    value: Annotated[float, Column("the coefficient of a pool, or the factor on it", NUMBER)]


@table("prediction/hosts.csv", key=("machine", "phase"))
class HostCost:
    """The time that a machine's host takes to launch an operator on its GPU."""

    machine: Annotated[str, "the folder in `data/machines`"]
    phase: Annotated[str, Column("a forward pass, or a whole training step", form=one_of((INFERENCE, STEP)))]
    software: Annotated[str, Column("the version of torch", empty="")]
    launch_us: Annotated[float, Column("the time of an operator", "µs", least=0)]


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
