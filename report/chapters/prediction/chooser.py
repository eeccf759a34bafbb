"""The chooser of chips, which predicts in the page (``chooser.js``): a few numbers per call times any chip's roof."""

import json
from collections import Counter, defaultdict
from itertools import product
from typing import Any

import numpy as np

from measure.domain.names import model_name
from measure.domain.words import INFERENCE, LAYER_KINDS, PRECISION_BYTE, PRECISIONS, STEP, stored_as
from measure.predicting.prediction import GPU, origin, usual_setting
from measure.predicting.prediction_terms import CallWork, LayerRoof
from measure.predicting.records import pool_of
from measure.predicting.timings import rate_of
from report import display
from report.chapters.prediction.cards import cards
from report.paper import Paper

UNIT_ROOF = LayerRoof(1.0, 1.0, 1.0, 1.0)  # terms at 1 FLOP/s and 1 B/s are FLOP and bytes
ONES = np.ones(len(LAYER_KINDS))
ONE_OF_EACH = CallWork(1, ONES, ONES, 1, 1.0, 1.0, 1.0, fresh_byte=1.0)  # no quantity of a call is 0


@display.table
def chooser(paper: Paper) -> str:
    """Write the data of the chooser into the page."""
    found = choices(paper)
    if not found["calls"] or not found["rates"]:
        raise display.Missing("python -m measure fit")
    found = json.loads(json.dumps(found), parse_float=lambda text: float(f"{float(text):.4g}"))  # four digits do
    data = f'<script type="application/gzip">{display.packed(found)}</script>'
    hint = "<noscript><p>The chooser needs JavaScript.</p></noscript>"
    return f'```{{=html}}\n<div class="chooser" id="chooser">{hint}{data}</div>\n```\n'


def choices(paper: Paper) -> dict[str, Any]:
    """Return calls, devices and fits for JSON, of the counted models at their most frequent input shapes, in SI units.

    Predictions are of the usual setting. Devices of a kind that nobody timed are left out.

    A call's least time is the longer of its arithmetic and its footprint, by ``least``. Its likely time is the root of
    the sum of squares of the device's part, its terms times ``weights``, and of its launches times ``host``.

    - ``batches``: the batch sizes of at least half as many models as the most frequent one; ``widths``: the bytes of an
      element by precision.
    - ``rates``, by precision, phase and sort of network: one row per device. ``within`` is the factor of the 90 %
      interval by batch size, ``factors`` whether the factors of networks count.
    - ``calls``, by model, batch size, bytes of an element and phase; ``factor`` is the network's on the device's part.
    - ``measured``: times in the usual setting by place of device, model, batch size, precision and phase.
    """
    predictions, calls, factors = paper.predictions, paper.predictions.calls, paper.predictions.predictor.factors
    own = {machine.folder: machine.name for machine in paper.machines}
    devices = [
        device for device in predictions.devices
        if device.name in {*paper.chips.chip, *own} and device.chip_kind in predictions.predictor.kinds
    ]  # fmt: skip
    frequency = Counter(batch for _, batch in {(model, batch) for model, batch, *_ in calls})
    batches = sorted(batch for batch, count in frequency.items() if 2 * count >= max(frequency.values()))
    models = {model: demand for (model, *_), demand in calls.items()}
    widths = {precision: PRECISION_BYTE[stored_as(precision)] for precision in PRECISIONS}
    precision_of = {width: precision for precision, width in widths.items()}
    per_unit, _ = ONE_OF_EACH.terms(UNIT_ROOF, "cpu")
    rates: dict[str, list[dict[str, Any]]] = defaultdict(list)
    sorts = sorted({demand.sort for demand in models.values()})
    for precision, phase, sort, (at, device) in product(PRECISIONS, (INFERENCE, STEP), sorts, enumerate(devices)):
        if basis := predictions.predictor.basis(device, precision, usual_setting(precision), phase, sort):
            units = ONE_OF_EACH.terms(basis.roof, basis.chip_kind)[0] / per_unit
            rates[f"{precision},{phase},{sort}"].append({
                "chip": at, "from": origin(basis.name, basis.timed_models), "host": basis.host_us,
                "weights": [*(basis.coefficients * units)], "least": [*units[:4]], "factors": bool(basis.factors),
                "within": {batch: basis.interval(sort, batch) for batch in batches},
            })  # fmt: skip
    measured: dict[str, float] = {}
    places = {device.name: at for at, device in enumerate(devices)}
    named: dict[tuple[Any, ...], list[str]] = defaultdict(list)
    for (model, *of_call), demand in calls.items():
        named[demand.network, demand.input_shape, *of_call].append(model)
    for timed, (copied, latency_s) in predictions.least_times.items():
        name, precision, options, phase, *of_network = timed
        if name in places and not copied and options == devices[places[name]].usable(usual_setting(precision)):
            for model in named[*of_network, PRECISION_BYTE[stored_as(precision)], phase]:
                measured[f"{places[name]},{model},{timed[-1]},{precision},{phase}"] = latency_s
    return {
        "widths": {name: width for name, width in widths.items() if any(key.startswith(f"{name},") for key in rates)},
        "models": [
            {"id": model, "name": model_name(model), "sort": demand.sort, "rate": rate_of(model).capitalize()}
            for model, demand in models.items()
        ],
        "cards": "".join(cards(paper, {model: demand.family for model, demand in models.items()}).values()),
        "devices": [
            {"name": own.get(device.name, device.name), "kind": device.chip_kind, "memory": device.memory_byte}
            for device in devices
        ],
        "calls": {
            f"{model},{batch},{width},{phase}": {
                "terms": [*demand.terms(UNIT_ROOF, "cpu")[0]], "footprint": demand.footprint_byte,
                "memory": demand.peak_byte,
                "factor": factors[pool_of(GPU, precision_of[width], phase)].get(demand.network, 1.0),
            }
            for (model, batch, width, phase), demand in calls.items() if batch in batches
        },
        "batches": batches, "rates": rates, "measured": measured,
    }  # fmt: skip
