"""The chooser of chips, which predicts in the page (``chooser.js``): a few numbers a call, times any chip's roof."""

from collections import Counter
from itertools import product
from math import inf
from typing import Any

from measure.cache.predictions import DECODING, HOST_MEMORY, LANGUAGE, LAUNCHES, SORTS, TERMS
from measure.domain.names import model_name
from measure.domain.words import EAGER, INFERENCE, PRECISION_BYTE, PRECISIONS, STEP, stored_as
from measure.predicting.demand import LayerRoof
from measure.predicting.prediction import origin
from report import display
from report.chapters.prediction.cards import cards
from report.paper import Paper

UNIT_ROOF = LayerRoof(1.0, 1.0, 1.0)  # terms at 1 FLOP/s and 1 B/s are FLOP and bytes
SERVED = LANGUAGE, DECODING  # the sorts of networks that may have a fit of their own
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
    """Return calls, devices and fits for JSON, of the counted models at their most frequent input shapes, in SI units.

    A call's least time is the longer of its arithmetic and its footprint, by ``least``. Its likely time is the root of
    the sum of squares of the device's part, its terms times ``weights``, and of its launches times ``host``.

    - ``batches``: the batch sizes of at least half as many models as the most frequent one; ``widths``: the bytes of an
      element by precision; ``models``: ``offered`` are those whose sort was timed somewhere, or all.
    - ``rates``, by precision, phase and whether language models are served: a row a device; ``within`` is the factor of
      the 90 % interval by sort and batch size, ``factors`` tells whether the factors of networks count.
    - ``calls``, by model, batch size, bytes of an element and phase; ``factor`` is the network's on the device's part.
    - ``measured``: times by place of device, model, batch size, precision and phase.
    """
    predictions, counted = paper.predictions, paper.predictions.counted
    own = {machine.folder: machine.name for machine in paper.machines}
    devices = [device for device in predictions.devices if device.name in {*paper.chips.chip, *own}]
    shapes = Counter((key.model, key.input_shape) for key in counted)
    usual = {model: shape for (model, shape), _ in reversed(shapes.most_common())}
    rows = {
        (key.model, key.batch, PRECISION_BYTE[key.precision], STEP if key.trains else INFERENCE): found
        for key, found in sorted(counted.items())
        if key.input_shape == usual[key.model]
    }
    frequency = Counter(batch for _, batch in {key[:2] for key in rows})
    batches = sorted(batch for batch, count in frequency.items() if 2 * count >= max(frequency.values()))
    rates: dict[str, list[dict[str, Any]]] = {}
    factors: dict[tuple[int, str], Any] = {}
    for precision, phase, is_served, at in product(PRECISIONS, (INFERENCE, STEP), (0, 1), range(len(devices))):
        sorts = [sort for sort in SORTS if (sort in SERVED) == is_served]
        basis = predictions.predictor.basis(devices[at], precision, EAGER, phase, sorts[0])
        if basis is None:
            continue
        roof = basis.roof
        rates_of = roof.convolution_flop_per_s, roof.peak_flop_per_s, roof.bandwidth_byte_per_s
        convolution, dense, byte = (1 / float(rate) for rate in rates_of)
        units = dict.fromkeys(TERMS, byte) | dict(zip(TERMS, (convolution, convolution, dense), strict=False))
        # No input is copied, and fresh pages, which the calls hold, are a CPU's
        units |= {LAUNCHES: 1.0, HOST_MEMORY: float(devices[at].chip_kind == "cpu")}
        within = {sort: {batch: _short(basis.interval(sort, batch)) for batch in batches} for sort in sorts}
        row = {
            "chip": at,
            "from": origin(basis.name, basis.timed_models),
            "within": within,
            "factors": bool(basis.factors),
        }
        row |= {"weights": [*map(_short, basis.coefficients * [*units.values()])], "host": _short(basis.host_us)}
        row |= {"least": [_short(each) for each in (convolution, convolution, dense, byte)]}
        rates.setdefault(f"{precision},{phase},{is_served}", []).append(row)
        width = PRECISION_BYTE[stored_as(precision)]
        factors[width, phase] = factors.get((width, phase)) or basis.factors
    calls = {}
    for (model, batch, width, phase), demand in rows.items():
        terms, _ = demand.terms(UNIT_ROOF, "cpu")
        numbers = {"footprint": demand.footprint_byte, "memory": demand.peak_byte}
        numbers["factor"] = factors.get((width, phase), {}).get(demand.network, 1.0)
        if batch in batches:
            short = {name: _short(number) for name, number in numbers.items()}
            calls[f"{model},{batch},{width},{phase}"] = {"terms": [*map(_short, terms)], **short}
    sorts_of = {model: demand.sort for (model, *_), demand in rows.items()}
    names = [device.name for device in devices]
    measured: dict[str, float] = {}
    for timed in predictions.timed:
        setting, batch = timed.setting, timed.demand.batch
        found = rows.get((timed.model, batch, PRECISION_BYTE[stored_as(setting.precision)], setting.phase))
        if not found or timed.copied or setting.variant != EAGER or setting.device not in names:
            continue
        flop = found.flop.sum()
        if abs(timed.demand.flop.sum() - flop) <= SAME_WORK * flop:
            cell = f"{names.index(setting.device)},{timed.model},{batch},{setting.precision},{setting.phase}"
            measured[cell] = min(measured.get(cell, inf), float(f"{timed.latency_s:.4g}"))
    within_of = [each["within"] for of in rates.values() for each in of]
    timed_sorts = {sort for within in within_of for sort in within if any(within[sort].values())} or SORTS
    texts = cards(paper, {model: demand.family for (model, *_), demand in rows.items()})
    return {
        "widths": {precision: PRECISION_BYTE[stored_as(precision)] for precision in PRECISIONS},
        "models": [
            {
                "id": model, "name": model_name(model), "card": texts[model], "sort": sorts_of[model],
                "served": int(sorts_of[model] in SERVED), "offered": sorts_of[model] in timed_sorts,
            }
            for model in texts
        ],
        "devices": [
            {"name": own.get(device.name, device.name), "kind": device.chip_kind, "memory": device.memory_byte}
            for device in devices
        ],
        "batches": batches, "rates": rates, "calls": calls, "measured": measured,
    }  # fmt: skip


def _short(number: float | None) -> float | None:
    """Return a number rounded to four digits, which a page can do with; None if it is not known."""
    return None if number is None else float(f"{number:.4g}")
