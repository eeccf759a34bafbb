"""Predict the tokens of a served language model, by the coefficients and errors of ``data/prediction``."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from measure.cache import table
from measure.domain.schema import file_of
from measure.predicting import serving
from measure.predicting.kernels import CLASS, model_of
from measure.predicting.model import Effects
from measure.predicting.records import POOL
from measure.predicting.served_records import (
    WHOLE,
    KernelCoefficient,
    ServedCoefficient,
    ServedError,
    read_kernels,
    read_served,
)
from measure.predicting.serving import FIRST, FURTHER, Load
from measure.serving import plan as plans

HOUR_S, MILLION = 3600.0, 1e6
HELD = 0.85  # an interval counts if it covered this share of the times that it was checked with


@dataclass(frozen=True)
class Likely:
    """The likely time (s) of a token with its 90 % interval, None if it is extrapolated, and its largest part."""

    likely_s: float
    low_s: float | None
    high_s: float | None
    costliest: str
    costliest_share: float


@dataclass(frozen=True)
class ServedPrediction:
    """The times and rates of a server under a load of ``requests`` at once.

    A GPU holds ``weight_byte``, and ``request_byte`` for each request of its copy of attention; ``most_requests`` of
    the whole server fit. ``tokens_per_j`` counts the GPUs alone, at the limit of their power: they take no more.
    """

    chip: str
    gpus: int
    requests: int
    first: Likely
    further: Likely
    tokens_per_s: float
    tokens_per_s_per_user: float
    weight_byte: float
    request_byte: float
    memory_byte: float | None
    most_requests: int | None
    fits: bool | None
    tokens_per_j: float | None
    cost_per_million_tokens: float | None

    @property
    def rank(self) -> tuple[bool, float]:
        """The order of chips: by the time of a token; those with too little memory come last."""
        return self.fits is False, self.further.likely_s


class ServedPredictor:
    """Predict by the tables of ``python -m measure fit``."""

    def __init__(
        self, of_kernels: Iterable[KernelCoefficient], of_servers: Iterable[ServedCoefficient],
        errors: Iterable[ServedError],
    ) -> None:  # fmt: skip
        self.kernels = model_of(of_kernels)
        self.effects: dict[str, Effects] = {}
        for each in of_servers:
            effects = self.effects.setdefault(each.phase, {})
            place = serving.TERMS.index(each.term)
            found = effects.setdefault((each.level, each.label), np.zeros(len(serving.TERMS)))
            found[place] = np.log(each.value / (serving.EXPECTED[place] if each.level == POOL else 1.0))
        self.errors = {(each.phase, each.left_out, each.label, each.batches): each for each in errors}

    @classmethod
    def read(cls, data: Path) -> "ServedPredictor":
        """Read the tables of ``python -m measure fit``. Raises UserError for an invalid cell or other terms."""
        return cls(
            read_kernels(file_of(KernelCoefficient, data)),
            read_served(file_of(ServedCoefficient, data)),
            table.read(file_of(ServedError, data), ServedError),
        )

    def within(self, phase: str, load: Load) -> float | None:
        """Return the factor either side of a likely time for a 90 % interval; None if it is extrapolated.

        It is the factor of servers whose GPU, family or engine was left out, if the load's was not timed; the widest of
        several. If all were timed, it is the least: each check knows less than this fit.
        """
        if (CLASS, load.chip.chip_class) not in self.effects[phase] or load.plan.gpus > serving.MOST_GPUS:
            return None
        batches = next(
            name for name, (least, most) in serving.BATCHES.items() if name != WHOLE and least <= load.requests <= most
        )
        labels = dict(zip(serving.CHECKS, (load.chip.name, load.decoder.kind, load.engine), strict=True))
        factors, unseen = [], []
        for left_out, label in labels.items():
            error = self.errors.get((phase, left_out, WHOLE, batches))
            if error is None or error.within is None or (error.coverage or 0) < HELD:
                continue
            factors.append(error.within)
            if (phase, left_out, label, WHOLE) not in self.errors:
                unseen.append(error.within)
        return max(unseen) if unseen else min(factors, default=None)

    def predict(self, load: Load, requests: int, price: float | None = None) -> ServedPrediction:
        """Predict a load of so many requests in all copies of attention; ``price`` is that of an hour of a GPU.

        Raises UserError for a plan or a context that the decoder does not take.
        """
        context = load.input_tokens + load.output_tokens
        plans.check_plan(load.decoder, load.plan)
        plans.check_context(load.decoder, context)
        decode = serving.decode_step(load)
        of_phases = serving.terms(load, serving.prompt_parts(load, self.kernels), decode, self.kernels)
        likely = {}
        for phase, of in of_phases.items():
            coefficients = serving.coefficients(self.effects[phase], load.engine, load.chip.chip_class)
            parts = np.array([of[term] for term in serving.TERMS]) * coefficients
            seconds, within, most = float(parts.sum()), self.within(phase, load), int(parts.argmax())
            seconds = max(seconds, serving.least_s(load, decode) if phase == FURTHER else 0.0)
            likely[phase] = Likely(
                seconds, within and seconds / within, within and seconds * within,
                serving.TERMS[most], float(parts[most] / parts.sum()),
            )  # fmt: skip
        held = plans.memories(load.decoder, load.plan, context)
        fullest = max(held, key=lambda each: each.weight_byte + load.requests * each.request_byte)
        needed = fullest.weight_byte + load.requests * fullest.request_byte
        memory_byte, gpus = load.chip.memory_byte, load.plan.gpus
        most_requests = None
        if memory_byte is not None:
            rooms = [max(0.0, memory_byte - each.weight_byte) / each.request_byte for each in held]
            most_requests = load.plan.data * int(min(rooms))
        rate = requests / likely[FURTHER].likely_s
        return ServedPrediction(
            load.chip.name, gpus, requests, likely[FIRST], likely[FURTHER], rate, rate / requests,
            fullest.weight_byte, fullest.request_byte, memory_byte, most_requests,
            None if memory_byte is None else needed <= memory_byte,
            rate / (gpus * load.chip.power_w) if load.chip.power_w else None,
            None if price is None else price * gpus / HOUR_S / rate * MILLION,
        )  # fmt: skip


def with_requests(load: Load, requests: int) -> Load:
    """Return a load of so many requests in all copies of attention together."""
    return replace(load, requests=-(-requests // load.plan.data))
