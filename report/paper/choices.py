"""The numbers from which a page predicts without this program: a few for each call, times any device's roof."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from measure.domain.words import EAGER, INFERENCE, PRECISION_BYTE, STEP, stored_as
from measure.predicting.demand import Demand, How, LayerRoof, PredictedDevice
from measure.predicting.model import LatencyModel
from measure.predicting.prediction import Predictor
from measure.predicting.timings import Counted, TimedCall

WIDTHS = {precision: PRECISION_BYTE[stored_as(precision)] for precision in ("fp32", "tf32", "fp16", "bf16")}
"""The bytes of an element by precision."""

GIGA, MEGA, KILO, MICRO = 1e9, 1e6, 1e3, 1e-6
UNIT_ROOFS = (LayerRoof(inf, inf, GIGA), LayerRoof(GIGA, inf, inf), LayerRoof(inf, GIGA, inf), LayerRoof(inf, inf, inf))
"""1 GFLOP/s of convolutions, 1 GFLOP/s of other products, 1 GB/s of memory, while all else takes no time; no limit."""

DIGITS = 4
SAME_WORK = 0.01  # a timed call is of the counted model if their FLOP differ by no more than this share


@dataclass(frozen=True, eq=False)
class Choices:
    """Calls, devices and fits, as numbers for JSON.

    Times are in µs, rates in GFLOP/s and GB/s, so FLOP are in kFLOP and bytes in kB; memory is in MB. A call's least
    time is the larger of ``convolution / rate + product / rate`` and ``footprint / bandwidth``. Its likely time is
    ``factor * (convolution / rate + product / rate + memory / bandwidth + fixed)``, with the numbers of the device's
    fit.

    - ``widths``: the bytes of an element by precision; ``batches``: the batch sizes of at least half as many models as
      the most frequent one.
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
    shapes: dict[str, Counter[str]] = {}
    for model, shape, *_ in counted:
        shapes.setdefault(model, Counter())[shape] += 1
    rows = {
        (model, batch, PRECISION_BYTE[precision], trains): found
        for (model, shape, batch, precision, trains), found in sorted(counted.items())
        if shape == shapes[model].most_common(1)[0][0]
    }
    models = sorted({model for model, *_ in rows})
    frequency = Counter(batch for _, batch in {(model, batch) for model, batch, *_ in rows})
    batches = sorted(batch for batch, count in frequency.items() if 2 * count >= max(frequency.values()))
    rows = {key: found for key, found in rows.items() if key[1] in batches}
    likely: dict[Any, dict[str, list[Any]]] = {key: {} for key in rows}
    fits: list[Any] = []
    rates: dict[str, list[list[Any]]] = {}
    for precision, width in WIDTHS.items():
        for trains, phase in ((False, INFERENCE), (True, STEP)):
            for place, device in enumerate(devices):
                basis = predictor.basis(device, precision, EAGER, phase)
                if basis is None:
                    continue
                if basis.setting not in fits:
                    fits.append(basis.setting)
                fit, roof = fits.index(basis.setting), basis.roof
                of_roof = (
                    _short(rate, GIGA)
                    for rate in (roof.convolution_flop_per_s, roof.peak_flop_per_s, roof.bandwidth_byte_per_s)
                )
                interval = map(_short, basis.ratios or (None, None))
                of_fit = fit, _short(basis.factor), *interval, basis.name, basis.timed_models
                rates.setdefault(f"{precision} {phase}", []).append([place, *of_roof, *of_fit])
                keys = [key for key in rows if key[2:] == (width, trains) and str(fit) not in likely[key]]
                demands = [rows[key][1] for key in keys]
                for key, parts in zip(keys, _likely_parts(basis.model, demands, How(trains=trains)), strict=True):
                    likely[key][str(fit)] = parts
    calls = []
    for (model, batch, width, trains), (workload, demand) in rows.items():
        arithmetic = (_short(float(demand.arithmetic_s(roof).sum()), MICRO) for roof in UNIT_ROOFS[:2])
        peak = workload.training_peak_byte if trains else workload.inference_peak_byte
        memory = _short(demand.footprint_byte, KILO), _short(peak, MEGA), likely[model, batch, width, trains]
        of_call = models.index(model), batches.index(batch), width, STEP if trains else INFERENCE
        calls.append([*of_call, *arithmetic, *memory])
    described = [
        {"name": each.name, "kind": each.chip_kind, "memory": _short(each.memory_byte, MEGA), "power": each.power_w}
        for each in devices
    ]
    names = [device.name for device in devices]
    best: dict[tuple[int, int, int, str, str], tuple[bool, float]] = {}
    for call in timed:
        setting = call.setting
        own = rows.get((call.model, call.demand.batch, PRECISION_BYTE[stored_as(setting.precision)], call.how.trains))
        if own is None or setting.variant != EAGER or setting.device not in names:
            continue
        if abs(call.demand.flop.sum() / max(own[1].flop.sum(), 1.0) - 1.0) <= SAME_WORK:
            places = names.index(setting.device), models.index(call.model), batches.index(call.demand.batch)
            cell = *places, setting.precision, setting.phase
            # The fastest time; one without the input's copy goes first
            best[cell] = min(best.get(cell, (True, inf)), (call.how.copied, call.latency_s))
    measured = [[*cell, _short(latency_s, MICRO), copied] for cell, (copied, latency_s) in sorted(best.items())]
    return Choices(dict(WIDTHS), models, batches, described, rates, calls, measured)


def _likely_parts(model: LatencyModel, demands: Sequence[Demand], how: How) -> Iterator[list[Any]]:
    """Yield the three parts of each likely time that scale with a rate, and its fixed part."""
    if demands:
        offsets = np.exp(model.offsets_of(np.array([demand.make_up for demand in demands])))
        terms = np.array([[demand.terms(roof, how) for roof in UNIT_ROOFS] for demand in demands])
        parts = terms @ model.coefficients
        parts[:, :-1] -= parts[:, -1:]
        for row in parts * offsets[:, None]:
            yield [_short(float(part), MICRO) for part in row]


def _short(number: float | None, unit: float = 1.0) -> float | int | None:
    """Return a number in a unit, rounded to ``DIGITS``."""
    if number is None:
        return None
    value = float(f"{number / unit:.{DIGITS}g}")
    return int(value) if value.is_integer() else value
