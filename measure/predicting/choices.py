"""The numbers from which a page predicts without this program: a few a call, multiplied by any device's roof."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from measure.cache.workload_records import Workload
from measure.domain.words import EAGER, INFERENCE, PRECISION_BYTE, STEP, stored_as
from measure.predicting.demand import Demand, How, LayerRoof, PredictedDevice
from measure.predicting.model import LatencyModel
from measure.predicting.prediction import Predictor
from measure.predicting.timings import Counted, TimedCall

WIDTHS = {precision: PRECISION_BYTE[stored_as(precision)] for precision in ("fp32", "tf32", "fp16", "bf16")}
"""The bytes of an element by precision."""

PHASES = (INFERENCE, STEP)

GIGA, MICRO = 1e9, 1e-6
UNIT_ROOFS = (LayerRoof(GIGA, inf, inf), LayerRoof(inf, GIGA, inf), LayerRoof(inf, inf, GIGA))
"""1 GFLOP/s of convolutions, 1 GFLOP/s of other products, 1 GB/s of memory; all else takes no time."""
NO_LIMIT = LayerRoof(inf, inf, inf)

DIGITS = 4

CountedCall = tuple[str, int, int, bool]
"""A model, a batch size, the bytes of an element, and whether it trains."""

SAME_WORK = 0.01
"""A timed call is of the counted model if their FLOP differ by no more than this share."""


@dataclass(frozen=True, eq=False)
class Choices:
    """Calls, devices and fits, as numbers for JSON. Times are in µs, rates in GFLOP/s and GB/s, so FLOP are in kFLOP
    and bytes in kB; memory is in MB.

    A call's least time is the larger of ``convolution / rate + product / rate`` and ``footprint / bandwidth``. Its
    likely time is ``factor * (convolution / rate + product / rate + memory / bandwidth + fixed)``, with the numbers of
    the device's fit.

    - ``widths``: the bytes of an element by precision; ``batches``: those of most models.
    - ``rates``, by precision and phase such as ``fp16 inference``: place of the device, rates of convolutions and of
      other products, bandwidth, place of the fit, factor, both ends of the 90 % interval over the likely time, basis,
      number of timed models.
    - ``calls``: places of model and batch size, bytes of an element, phase, FLOP of convolutions and of other products,
      footprint, peak memory, and by place of the fit its four numbers.
    - ``measured``: places of device, model and batch size, precision, phase, time, whether the input's copy is in it.
    """

    widths: dict[str, int]
    models: list[str]
    batches: list[int]
    devices: list[dict[str, Any]]
    rates: dict[str, list[list[Any]]]
    calls: list[list[Any]]
    measured: list[list[Any]]

    def as_json(self) -> dict[str, Any]:
        return dict(vars(self))


def choices(
    predictor: Predictor, devices: Sequence[PredictedDevice], counted: Counted, timed: Iterable[TimedCall]
) -> Choices:
    """Return the choices among the counted models in eager mode, at each model's most frequent input shape."""
    rows = _counted_calls(counted)
    models = sorted({model for model, *_ in rows})
    batches = _frequent_batches(rows)
    chosen = {key: found for key, found in rows.items() if key[1] in batches}
    fits: list[Any] = []
    rates: dict[str, list[list[Any]]] = {}
    fitted: dict[tuple[int, int, bool], LatencyModel] = {}
    for precision, width in WIDTHS.items():
        for phase in PHASES:
            for place, device in enumerate(devices):
                basis = predictor.basis(device, precision, EAGER, phase)
                if basis is None:
                    continue
                if basis.setting not in fits:
                    fits.append(basis.setting)
                fit = fits.index(basis.setting)
                fitted[fit, width, phase == STEP] = basis.model
                roof, ends = basis.roof, basis.ratios or (None, None)
                of_roof = (
                    _short(rate, GIGA) for rate in (roof.convolution_flop_per_s, roof.flop_per_s, roof.byte_per_s)
                )
                of_fit = _short(basis.factor), *map(_short, ends), basis.name, basis.timed_models
                rates.setdefault(f"{precision} {phase}", []).append([place, *of_roof, fit, *of_fit])
    likely: dict[CountedCall, dict[str, list[Any]]] = {key: {} for key in chosen}
    for (fit, width, trains), model in fitted.items():
        demands = {key: demand for key, (_, demand) in chosen.items() if key[2:] == (width, trains)}
        for key, parts in zip(demands, _likely_parts(model, [*demands.values()], How(trains=trains)), strict=True):
            likely[key][str(fit)] = parts
    return Choices(
        dict(WIDTHS),
        models,
        batches,
        [
            {"name": each.name, "kind": each.chip_kind, "memory": _short(each.memory_byte, 1e6), "power": each.power_w}
            for each in devices
        ],
        rates,
        [
            [models.index(key[0]), batches.index(key[1]), *_least_parts(*key[2:], *found), likely[key]]
            for key, found in chosen.items()
        ],
        list(_measured([device.name for device in devices], models, batches, rows, timed)),
    )


def _counted_calls(counted: Counted) -> dict[CountedCall, tuple[Workload, Demand]]:
    """Return the calls of each model at its most frequent input shape."""
    shapes: dict[str, Counter[str]] = {}
    for model, shape, *_ in counted:
        shapes.setdefault(model, Counter())[shape] += 1
    return {
        (model, batch, PRECISION_BYTE[precision], trains): found
        for (model, shape, batch, precision, trains), found in sorted(counted.items())
        if shape == shapes[model].most_common(1)[0][0]
    }


def _frequent_batches(rows: Iterable[CountedCall]) -> list[int]:
    """Return the batch sizes of at least half as many models as the most frequent one."""
    models = Counter(batch for _, batch in {(model, batch) for model, batch, *_ in rows})
    return sorted(batch for batch, count in models.items() if 2 * count >= max(models.values()))


def _least_parts(width: int, trains: bool, workload: Workload, demand: Demand) -> list[Any]:
    """Return the numbers of a call's least time, and its peak memory."""
    peak = workload.training_peak_byte if trains else workload.inference_peak_byte
    arithmetic = (_short(float(demand.arithmetic_s(roof).sum()), MICRO) for roof in UNIT_ROOFS[:2])
    return [width, STEP if trains else INFERENCE, *arithmetic, _short(demand.footprint_byte, 1e3), _short(peak, 1e6)]


def _likely_parts(model: LatencyModel, demands: Sequence[Demand], how: How) -> list[list[Any]]:
    """Return the three parts of each likely time that scale with a rate, and its fixed part: ``(calls, 4)``."""
    if not demands:
        return []
    offsets = np.exp(model.neighbours.offsets_of(np.array([demand.make_up for demand in demands])))
    terms = np.array([[demand.terms(roof, how) for roof in (*UNIT_ROOFS, NO_LIMIT)] for demand in demands])
    parts = terms @ model.coefficients
    parts[:, :-1] -= parts[:, -1:]
    return [[_short(float(part), MICRO) for part in row] for row in parts * offsets[:, None]]


def _measured(
    names: Sequence[str],
    models: Sequence[str],
    batches: Sequence[int],
    rows: Mapping[CountedCall, tuple[Workload, Demand]],
    timed: Iterable[TimedCall],
) -> Iterator[list[Any]]:
    """Yield the fastest time of each call on one of the devices; a time without the input's copy goes first."""
    best: dict[tuple[int, int, int, str, str], tuple[bool, float]] = {}
    for call in timed:
        setting = call.setting
        own = rows.get((call.model, call.batch, PRECISION_BYTE[stored_as(setting.precision)], call.how.trains))
        if own is None or setting.variant != EAGER or setting.device not in names or call.batch not in batches:
            continue
        if abs(call.demand.flop.sum() / max(own[1].flop.sum(), 1.0) - 1.0) <= SAME_WORK:
            places = names.index(setting.device), models.index(call.model), batches.index(call.batch)
            key = *places, setting.precision, setting.phase
            best[key] = min(best.get(key, (True, inf)), (call.how.copied, call.latency_s))
    for key, (copied, latency_s) in sorted(best.items()):
        yield [*key, _short(latency_s, MICRO), copied]


def _short(number: float | None, unit: float = 1.0) -> float | int | None:
    """Return a number in a unit, rounded to ``DIGITS``."""
    if number is None:
        return None
    value = float(f"{number / unit:.{DIGITS}g}")
    return int(value) if value.is_integer() else value
