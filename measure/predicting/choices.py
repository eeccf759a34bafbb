"""What a reader needs to predict without this program: of each call a few numbers that any device's roof multiplies."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from measure.cache.predictions import Setting
from measure.cache.workload_records import Workload
from measure.domain.words import EAGER, INFERENCE, PRECISION_BYTE, STEP, stored_as
from measure.predicting.demand import Demand, How, PredictedDevice, Roof
from measure.predicting.model import LatencyModel
from measure.predicting.prediction import Basis, Predictor
from measure.predicting.timings import Counted, Key, TimedCall

PRECISIONS = ("fp32", "tf32", "fp16", "bf16")
PHASES = (INFERENCE, STEP)

GIGA, MICRO = 1e9, 1e-6
UNIT_ROOFS = (Roof(GIGA, inf, inf), Roof(inf, GIGA, inf), Roof(inf, inf, GIGA))
"""Of convolutions 1 GFLOP/s, of other products 1 GFLOP/s, of memory 1 GB/s, and all else at once."""
AT_ONCE = Roof(inf, inf, inf)

DIGITS = 4

Call = tuple[str, int, int, bool]
"""A model, a batch size, the bytes of an element, and whether it is trained."""

SAME_WORK = 0.01
"""A call that others timed is of the same model where its FLOP differ by no more than this share."""


@dataclass(frozen=True, eq=False)
class Choices:
    """Calls, devices and fits, as numbers for JSON.

    A call's least time is the larger of ``convolution / rate + product / rate`` and ``footprint / bandwidth``; its
    likely one ``factor * (convolution / rate + product / rate + memory / bandwidth + fixed)``, the numbers those of the
    fit that the device has at the precision. Times are in microseconds, rates in GFLOP/s and GB/s, memory in MB; so
    FLOP are in kFLOP, and bytes in kB.
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
    """Return what calls in eager mode of the counted models ask for, and what devices give at each precision.

    ``widths`` are the bytes of an element by precision; the batch sizes are those of most models. ``rates`` are by
    precision and phase, such as ``fp16 inference``: place of the device, rates of convolutions and of other products,
    bandwidth, place of the fit, factor, the ends of the 90 % interval over the likely time, basis, and number of models
    timed. A call is its places among models and batch sizes, bytes of an element, phase, FLOP of convolutions and other
    products, footprint, peak memory, and by place of the fit its four numbers. ``measured`` are what was timed: places
    of device, model and batch size, precision, phase, time, and whether the copy of the input is in it.
    """
    shapes = _shapes(counted)
    rows = {
        (model, batch, PRECISION_BYTE[precision], trains): found
        for (model, shape, batch, precision, trains), found in sorted(counted.items())
        if shape == shapes[model]
    }
    models = sorted({model for model, *_ in rows})
    batches = _batches(rows)
    bases = {
        (precision, phase): {
            place: basis
            for place, device in enumerate(devices)
            if (basis := predictor.basis(device, precision, EAGER, phase)) is not None
        }
        for precision in PRECISIONS
        for phase in PHASES
    }
    fits = list(dict.fromkeys(basis.setting for found in bases.values() for basis in found.values()))
    fitted = {
        (basis.setting, PRECISION_BYTE[stored_as(precision)], phase == STEP): basis.model
        for (precision, phase), found in bases.items()
        for basis in found.values()
    }
    chosen = {key: found for key, found in rows.items() if key[1] in batches}
    likely: dict[Call, dict[str, list[Any]]] = {key: {} for key in chosen}
    for (setting, width, trains), model in fitted.items():
        asked = {key: demand for key, (_, demand) in chosen.items() if key[2:] == (width, trains)}
        for key, parts in zip(asked, _parts(model, [*asked.values()], How(trains=trains)), strict=True):
            likely[key][str(fits.index(setting))] = parts
    calls = [
        [models.index(key[0]), batches.index(key[1]), *_least(*key[2:], *found), likely[key]]
        for key, found in chosen.items()
    ]
    return Choices(
        {precision: PRECISION_BYTE[stored_as(precision)] for precision in PRECISIONS},
        models,
        batches,
        [
            {"name": each.name, "kind": each.chip_kind, "memory": _short(each.memory_byte, 1e6), "power": each.power_w}
            for each in devices
        ],
        {f"{precision} {phase}": _rates(found, fits) for (precision, phase), found in bases.items() if found},
        calls,
        list(_measured([device.name for device in devices], models, batches, rows, timed)),
    )


def _shapes(counted: Iterable[Key]) -> dict[str, str]:
    """Return the shape of an input at which each model was counted most often."""
    models: dict[str, Counter[str]] = {}
    for model, shape, *_ in counted:
        models.setdefault(model, Counter())[shape] += 1
    return {model: found.most_common(1)[0][0] for model, found in models.items()}


def _batches(rows: Iterable[Call]) -> list[int]:
    """Return the batch sizes at which at least half as many models were counted as at the commonest."""
    models: dict[int, set[str]] = {}
    for model, batch, *_ in rows:
        models.setdefault(batch, set()).add(model)
    most = max((len(found) for found in models.values()), default=0)
    return sorted(batch for batch, found in models.items() if 2 * len(found) >= most)


def _rates(found: Mapping[int, Basis], fits: Sequence[Setting]) -> list[list[Any]]:
    return [
        [
            place, *(_short(rate, GIGA) for rate in (basis.roof.convolution_flop_per_s, basis.roof.flop_per_s,
            basis.roof.byte_per_s)), fits.index(basis.setting), _short(basis.factor),
            *((_short(end) for end in basis.ratios) if basis.ratios else (None, None)), basis.name, basis.timed_models,
        ]
        for place, basis in found.items()
    ]  # fmt: skip


def _least(width: int, trains: bool, workload: Workload, demand: Demand) -> list[Any]:
    """Return what a call's least time is made of, and its memory."""
    peak = workload.training_peak_byte if trains else workload.inference_peak_byte
    arithmetic = (_short(float(demand.arithmetic_s(roof).sum()), MICRO) for roof in UNIT_ROOFS[:2])
    return [width, STEP if trains else INFERENCE, *arithmetic, _short(demand.footprint_byte, 1e3), _short(peak, 1e6)]


def _parts(model: LatencyModel, demands: Sequence[Demand], how: How) -> list[list[Any]]:
    """Return of each likely time what rates divide, and its fixed part; without the factor of a device."""
    if not demands:
        return []
    offsets = np.exp(model.neighbours.offsets_of(np.array([demand.make_up for demand in demands])))
    terms = np.array([[demand.terms(roof, how) for roof in (*UNIT_ROOFS, AT_ONCE)] for demand in demands])
    parts = terms @ model.coefficients
    parts[:, :-1] -= parts[:, -1:]
    return [[_short(float(part), MICRO) for part in row] for row in parts * offsets[:, None]]


def _measured(
    names: Sequence[str],
    models: Sequence[str],
    batches: Sequence[int],
    rows: Mapping[Call, tuple[Workload, Demand]],
    timed: Iterable[TimedCall],
) -> Iterable[list[Any]]:
    """Yield the time of each call that was timed on one of the devices: without the copy of the input, the fastest."""
    best: dict[tuple[int, int, int, str, str], tuple[bool, float]] = {}
    for call in timed:
        setting = call.setting
        width = PRECISION_BYTE[stored_as(setting.precision)]
        own = rows.get((call.model, call.batch, width, call.how.trains))
        if own is None or setting.variant != EAGER or setting.device not in names or call.batch not in batches:
            continue
        if abs(call.demand.flop.sum() / max(own[1].flop.sum(), 1.0) - 1.0) <= SAME_WORK:
            places = names.index(setting.device), models.index(call.model), batches.index(call.batch)
            key = *places, setting.precision, setting.phase
            best[key] = min(best.get(key, (True, inf)), (call.how.copied, call.latency_s))
    for key, (copied, latency_s) in sorted(best.items()):
        yield [*key, _short(latency_s, MICRO), copied]


def _short(number: float | None, unit: float = 1.0) -> float | int | None:
    """Return a number in a unit with the digits that a page can show."""
    if number is None:
        return None
    value = float(f"{number / unit:.{DIGITS}g}")
    return int(value) if value.is_integer() else value
