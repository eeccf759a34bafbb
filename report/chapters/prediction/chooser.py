"""The chooser of chips, which predicts in the page (``chooser.js``): a few numbers a call, times any chip's roof."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from math import inf
from typing import Any

import pandas as pd

from measure.cache.predictions import DECODING, HOST_MEMORY, LANGUAGE, SORTS, TERMS
from measure.domain.words import EAGER, INFERENCE, PRECISION_BYTE, PRECISIONS, STEP, stored_as
from measure.predicting.demand import How, LayerRoof
from measure.predicting.prediction import Basis
from measure.predicting.timings import TOKENS
from report import display
from report.chapters.prediction.cards import cards
from report.paper import Paper

GIGA, MEGA, KILO, MICRO = 1e9, 1e6, 1e3, 1e-6
UNIT_ROOF = LayerRoof(GIGA, GIGA, GIGA)  # terms at 1 GFLOP/s and 1 GB/s are FLOP and bytes in thousands, in µs
BY_WIDTH = {4: "fp32", 2: "fp16"}  # a precision of elements of so many bytes; others of them have equal factors
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
    time is the larger of its arithmetic over its rates and ``footprint / bandwidth``. Its likely time is the root of
    the sum of squares of the device's part, each term times its coefficient over its rate, and of the host's: launches
    times the time of one.

    - ``widths``: the bytes of an element by precision; ``batches``: the batch sizes of at least half as many models as
      the most frequent one; ``models``: see ``cards``, with the sort of network.
    - ``rates``, by precision and phase such as ``fp16 inference``: place of the device, rates of convolutions and of
      other products, bandwidth, coefficients of the terms, time of a launch on the host, basis, number of timed models,
      by sort of network and place of the batch size the factor of the 90 % interval, where networks were timed alike,
      and whether the factors of networks apply. ``fp16 inference served`` has those of served language models.
    - ``calls``: places of model and batch size, bytes of an element, phase, terms, footprint, peak memory, and the
      network's factor on the device's part.
    - ``measured``: places of device, model and batch size, precision, phase, time, whether the input's copy is in it.
    """
    predictions, counted = paper.predictions, paper.predictions.counted
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
    rates: dict[str, list[list[Any]]] = {}
    factors: dict[tuple[str, str], Mapping[str, float]] = {}
    for precision, phase, device in product(PRECISIONS, (INFERENCE, STEP), devices):
        for kind, sorts in {"": SORTS, " served": (LANGUAGE, DECODING)}.items():
            basis = predictions.predictor.basis(device, precision, EAGER, phase, sorts[0])
            if basis is not None and (basis.chip_kind == TOKENS) == bool(kind):
                roof = basis.roof
                of_roof = roof.convolution_flop_per_s, roof.peak_flop_per_s, roof.bandwidth_byte_per_s
                fitted = dict(zip(TERMS, map(_short, basis.coefficients), strict=True))
                if device.chip_kind != "cpu":
                    fitted[HOST_MEMORY] = 0  # no input is copied; a CPU's fresh pages are in the calls
                of_fit = [*fitted.values()], _short(basis.host_us), basis.name, basis.timed_models
                within = {sort: _within(basis, sort, batches) for sort in sorts}
                has_factors = int(bool(basis.factors))
                factors[precision, phase] = factors.get((precision, phase)) or basis.factors
                row = [devices.index(device), *(_short(rate, GIGA) for rate in of_roof), *of_fit, within, has_factors]
                rates.setdefault(f"{precision} {phase}{kind}", []).append(row)
    calls = []
    for (model, batch, width, trains), (workload, demand) in rows.items():
        terms = [_short(float(term), MICRO) for term in demand.terms(UNIT_ROOF, How(trains=trains, fresh=True))]
        peak = workload.training_peak_byte if trains else workload.inference_peak_byte
        phase = STEP if trains else INFERENCE
        about = models.index(model), batches.index(batch), width, phase
        factor = factors.get((BY_WIDTH[width], phase), {}).get(demand.network, 1.0)
        calls.append([*about, terms, _short(demand.footprint_byte, KILO), _short(peak, MEGA), _short(factor)])
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
    sorts_of = {key[0]: demand.sort(workload.family or "") for key, (workload, demand) in rows.items()}
    families = {model: rows[key][0].family or "" for key in rows for model in key[:1]}
    return {
        "widths": {precision: PRECISION_BYTE[stored_as(precision)] for precision in PRECISIONS},
        "models": [card | {"sort": sorts_of[card["id"]]} for card in cards(paper, families)],
        "batches": batches, "rates": rates, "calls": calls,
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


def _within(basis: Basis, sort: str, batches: Sequence[int]) -> dict[int, float | int | None]:
    """Return the factor of the interval by the place of each batch size at which networks of the sort were timed."""
    found = {at: basis.interval(sort, batch) for at, batch in enumerate(batches)}
    return {at: _short(factor) for at, factor in found.items() if factor}


def _short(number: float | None, unit: float = 1.0) -> float | int | None:
    """Return a number in a unit, rounded to ``DIGITS``; None if it is not known."""
    if number is None or pd.isna(number):
        return None
    value = float(f"{float(number) / unit:.{DIGITS}g}")
    return int(value) if value.is_integer() else value
