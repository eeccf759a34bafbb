"""Each network's card: the demands of an input, its place under the roof, its latencies, and the first advice."""

from collections import defaultdict
from collections.abc import Mapping
from html import escape
from typing import Any

from measure.domain.advice import Advice, advise
from measure.domain.names import model_name
from measure.domain.values import latency, percent, si, significant
from measure.domain.words import EAGER, INFERENCE
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.frames import each, matching
from report.paper.operator_groups import with_groups


def cards(paper: Paper, families: Mapping[str, str]) -> dict[str, str]:
    """Return each model's card as HTML, at the base precision.

    It has names and family, the demands of one input, the latencies at hand of the smallest batch and of the fastest
    batch per input, and the first advice.
    """
    machine = paper.at_hand
    roof = machine.roof(BASE_PRECISION) if machine else None
    ridge = f" (ridge point at hand {significant(roof.ridge_flop_per_byte, 2)})" if roof else ""
    asks = {row.model: row for row in each(matching(paper.workloads, batch=1, precision=BASE_PRECISION))}
    at_hand = escape(machine.name) if machine else ""
    advice = _advice(paper, machine) if machine else {}
    times: dict[str, list[Any]] = defaultdict(list)
    for row in each(matching(machine.cells, status="ok", precision=BASE_PRECISION)) if machine else ():
        times[row.model].append(row)
    made = {}
    for model, family in families.items():
        lines = [f"<strong>{escape(model_name(model))}</strong> ({escape(model)}), {escape(family)}"]
        if row := asks.get(model):
            byte, intensity = si(row.traffic_byte, "B"), significant(row.traffic_intensity, 2)
            lines.append(f"{si(row.parameter_count, '')} parameters. One input at {BASE_PRECISION}: ")
            lines[-1] += f"{si(row.forward_flop, 'FLOP')}, {byte} layer by layer, {intensity} FLOP/B{ridge}"
        rows = sorted(times.get(model, []), key=lambda row: row.batch)
        most = sorted(rows, key=lambda row: row.latency_s / row.batch)[:1]
        for row in {row.batch: row for row in (*rows[:1], *most)}.values():
            values = [latency(row.latency_s)]
            if row.latency_low_s > 0:
                values.append(f"{latency(row.latency_low_s)} to {latency(row.latency_high_s)}")
            if row.attained > 0:
                values.append(f"{percent(row.attained)} of its roof")
            lines.append(f"Batch {row.batch} on the {at_hand}: {', '.join(values)}")
        if found := advice.get(model):
            test = f"{escape(found.why or '')}; to test it: <code>python -m measure {escape(found.flags or '')}</code>"
            gain = f"measured to be {significant(found.gain, 2)} times as fast" if found.gain else test
            lines.append(f"Try first: {escape(found.remedy.replace('_', ' '))} ({gain})")
        text = "".join(f"<p>{line}</p>" for line in lines)
        made[model] = (
            f'<div class="card" id="card-{escape(model)}" data-card="{escape(model_name(model))}">{text}</div>'
        )
    return made


def _advice(paper: Paper, machine: Machine) -> dict[str, Advice]:
    """Return the first advice by model, for its smallest batch."""
    call = {"precision": BASE_PRECISION, "phase": INFERENCE, "variant": EAGER}
    profiles = {(row.model, row.batch): row for row in each(matching(machine.profiles, status="ok", **call))}
    layers = dict(list(with_groups(matching(machine.operators, **call), paper.layers).groupby(["model", "batch"])))
    cells: dict[str, list[Any]] = defaultdict(list)
    for row in (*each(matching(machine.cells, status="ok")), *each(matching(machine.variants, status="ok"))):
        cells[row.model].append(row)
    found = {}
    for model, tried in cells.items():
        eager = [row for row in tried if (row.precision, row.variant) == (BASE_PRECISION, EAGER)]
        if eager:
            base = min(eager, key=lambda row: row.batch)
            place = model, base.batch
            ran = each(layers[place]) if place in layers else ()
            if advice := advise(base, tried, profiles.get(place), ran, machine.environment):
                found[model] = advice
    return found
