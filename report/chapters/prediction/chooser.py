"""The chooser of chips, which predicts in the page (``chooser.js``): a few numbers a call, times any chip's roof."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

import numpy as np
import pandas as pd

from measure.domain.words import EAGER, INFERENCE, PRECISION_BYTE, PRECISIONS, STEP, stored_as
from measure.predicting.demand import Demand, How, LayerRoof, terms_of
from measure.predicting.model import LatencyModel
from report import display
from report.chapters.prediction.cards import cards
from report.paper import Paper
from report.paper.predictions import NO_IMAGES

GIGA, MEGA, KILO, MICRO = 1e9, 1e6, 1e3, 1e-6
UNIT_ROOFS = (LayerRoof(inf, inf, GIGA), LayerRoof(GIGA, inf, inf), LayerRoof(inf, GIGA, inf), LayerRoof(inf, inf, inf))
"""1 GFLOP/s of convolutions, 1 GFLOP/s of other products, 1 GB/s of memory, while all else takes no time; no limit."""

DIGITS = 4
SAME_WORK = 0.01  # a timed call is of the counted model if their FLOP differ by no more than this share


@display.markdown
def chooser(paper: Paper) -> str:
    """Show what the page predicts by."""
    found = choices(paper)
    if not found["calls"] or not found["rates"]:
        raise display.Missing("python -m measure fit")
    data = f'<script type="application/gzip">{display.packed(found)}</script>'
    hint = "<noscript><p>The chooser needs JavaScript.</p></noscript>"
    return f'```{{=html}}\n<div class="chooser" id="chooser">{hint}{data}</div>\n```\n'


def choices(paper: Paper) -> dict[str, Any]:
    """Return calls, devices and fits as numbers for JSON, of the counted models at their most frequent input shapes.

    Times are in µs, rates in GFLOP/s and GB/s, so FLOP are in kFLOP and bytes in kB; memory is in MB. A call's least
    time is the larger of ``convolution / rate + product / rate`` and ``footprint / bandwidth``. Its likely time is
    ``factor * (convolution / rate + product / rate + memory / bandwidth + fixed)``, with the numbers of the device's
    fit.

    - ``widths``: the bytes of an element by precision; ``batches``: the batch sizes of at least half as many models as
      the most frequent one; ``models``: see ``cards``.
    - ``rates``, by precision and phase such as ``fp16 inference``: place of the device, rates of convolutions and of
      other products, bandwidth, place of the fit, factor, both ends of the 90 % interval over the likely time, basis,
      number of timed models, and by sort of input the places of the batch sizes at which the interval holds.
    - ``calls``: places of model and batch size, bytes of an element, phase, FLOP of convolutions and of other products,
      footprint, peak memory, and by place of the fit its four numbers.
    - ``measured``: places of device, model and batch size, precision, phase, time, whether the input's copy is in it.
    """
    predictions, counted = paper.predictions, paper.predictions.counted
    is_checked = predictions.is_checked
    own = {machine.folder: machine.name for machine in paper.machines}
    chosen = {*paper.chips.chip, *own}
    devices = [device for device in predictions.devices if device.name in chosen]
    shapes: dict[str, Counter[str]] = {}
    for model, shape, *_ in counted:
        shapes.setdefault(model, Counter())[shape] += 1
    usual = {model: found.most_common(1)[0][0] for model, found in shapes.items()}
    rows: dict[tuple[str, int, int, bool], Any] = {
        (key.model, key.batch, PRECISION_BYTE[key.precision], key.trains): found
        for key, found in sorted(counted.items())
        if key.input_shape == usual[key.model]
    }
    models = sorted({model for model, *_ in rows})
    frequency = Counter(batch for _, batch in {(model, batch) for model, batch, *_ in rows})
    batches = sorted(batch for batch, count in frequency.items() if 2 * count >= max(frequency.values()))
    rows = {key: found for key, found in rows.items() if key[1] in batches}
    likely: dict[Any, dict[str, list[Any]]] = {key: {} for key in rows}
    fitted: set[tuple[int, float, bool]] = set()
    fits: list[Any] = []
    rates: dict[str, list[list[Any]]] = {}
    for precision in PRECISIONS:
        for trains, phase in ((False, INFERENCE), (True, STEP)):
            for place, device in enumerate(devices):
                basis = predictions.predictor.basis(device, precision, EAGER, phase)
                if basis is None:
                    continue
                if basis.setting not in fits:
                    fits.append(basis.setting)
                fit, roof = fits.index(basis.setting), basis.roof
                of_roof = roof.convolution_flop_per_s, roof.peak_flop_per_s, roof.bandwidth_byte_per_s
                holds = {sort: [at for at, batch in enumerate(batches) if is_checked(basis, device.name, sort, batch)]
                         for sort in ("", *NO_IMAGES)}  # fmt: skip
                of_fit = fit, _short(basis.factor), *map(_short, basis.ratios or (None, None)), basis.name
                row = [place, *(_short(rate, GIGA) for rate in of_roof), *of_fit, basis.timed_models, holds]
                rates.setdefault(f"{precision} {phase}", []).append(row)
                width = PRECISION_BYTE[stored_as(precision)]
                if (fit, width, trains) in fitted:
                    continue
                fitted.add((fit, width, trains))
                keys = [key for key in rows if key[2:] == (width, trains)]
                parts = _likely_parts(basis.model, [rows[key][1] for key in keys], How(trains=trains))
                for key, of_call in zip(keys, parts, strict=True):
                    likely[key][str(fit)] = of_call
    calls = []
    for (model, batch, width, trains), (workload, demand) in rows.items():
        arithmetic = (_short(float(demand.arithmetic_s(roof).sum()), MICRO) for roof in UNIT_ROOFS[:2])
        peak = workload.training_peak_byte if trains else workload.inference_peak_byte
        memory = _short(demand.footprint_byte, KILO), _short(peak, MEGA), likely[model, batch, width, trains]
        about = models.index(model), batches.index(batch), width, STEP if trains else INFERENCE
        calls.append([*about, *arithmetic, *memory])
    names = [device.name for device in devices]
    best: dict[tuple[Any, ...], tuple[bool, float]] = {}
    for timed in predictions.timed:
        setting, batch = timed.setting, timed.demand.batch
        asked = rows.get((timed.model, batch, PRECISION_BYTE[stored_as(setting.precision)], timed.how.trains))
        if asked is None or setting.variant != EAGER or setting.device not in names:
            continue
        if abs(timed.demand.flop.sum() / max(asked[1].flop.sum(), 1.0) - 1.0) <= SAME_WORK:
            places = names.index(setting.device), models.index(timed.model), batches.index(batch)
            cell = *places, setting.precision, setting.phase
            # The fastest time; one without the input's copy goes first
            best[cell] = min(best.get(cell, (True, inf)), (timed.how.copied, timed.latency_s))
    families = {model: rows[key][0].family or "" for key in rows for model in key[:1]}
    return {
        "widths": {precision: PRECISION_BYTE[stored_as(precision)] for precision in PRECISIONS},
        "models": cards(paper, families), "batches": batches, "rates": rates, "calls": calls,
        "devices": [
            {
                "name": own.get(device.name, device.name), "kind": device.chip_kind,
                "memory": _short(device.memory_byte, MEGA), "power": device.power_w,
            }
            for device in devices
        ],
        "machine": paper.at_hand.name if paper.at_hand else "",
        "measured": [[*cell, _short(latency_s, MICRO), copied] for cell, (copied, latency_s) in sorted(best.items())],
    }  # fmt: skip


def _likely_parts(model: LatencyModel, demands: Sequence[Demand], how: How) -> Iterator[list[Any]]:
    """Yield the three parts of each likely time that scale with a rate, and its fixed part."""
    if demands:
        offsets = np.exp(model.offsets_of(np.array([demand.make_up for demand in demands])))
        terms = terms_of([(demand, roof, how) for demand in demands for roof in UNIT_ROOFS])
        parts = terms.reshape(len(demands), len(UNIT_ROOFS), -1) @ model.coefficients
        parts[:, :-1] -= parts[:, -1:]
        for row in parts * offsets[:, None]:
            yield [_short(float(part), MICRO) for part in row]


def _short(number: float | None, unit: float = 1.0) -> float | int | None:
    """Return a number in a unit, rounded to ``DIGITS``; None if it is not known."""
    if number is None or pd.isna(number):
        return None
    value = float(f"{float(number) / unit:.{DIGITS}g}")
    return int(value) if value.is_integer() else value
