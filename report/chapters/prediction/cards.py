"""Each network's card: what an input asks for, its place under the roof, its latencies, and what to try first."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import pandas as pd

from measure.domain.advice import advise
from measure.domain.names import model_name
from measure.domain.words import EAGER, INFERENCE
from report.charts.marks import records
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.frames import each, matching
from report.paper.predictions import NO_IMAGES
from report.stats.operator_groups import with_groups

ASKS = ["model", "parameter_count", "forward_flop", "traffic_byte", "traffic_intensity"]
TIMES = ["batch", "latency_s", "latency_low_s", "latency_high_s", "attained"]


def cards(paper: Paper, families: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return each model's card: names, sort of input, family; what an input ``asks`` for; its ``times`` at hand.

    ``ridge`` is the machine's ridge point in FLOP per byte, ``advice`` is for the smallest batch.
    """
    machine = paper.at_hand
    roof = machine.roof(BASE_PRECISION) if machine else None
    ridge = roof.ridge_flop_per_byte if roof else None
    asked = {row["model"]: row for row in records(matching(paper.workloads, batch=1, precision=BASE_PRECISION)[ASKS])}
    advice = _advice(paper, machine) if machine else {}
    cells = matching(machine.cells, status="ok", precision=BASE_PRECISION) if machine else pd.DataFrame()
    times = {model: rows[TIMES].sort_values("batch") for model, rows in cells.groupby("model")} if len(cells) else {}
    made = []
    for model, family in families.items():
        sort = family if family in NO_IMAGES else ""
        about = {"id": model, "name": model_name(model), "sort": sort, "family": family}
        known = {"times": records(times.get(model, [])), "advice": advice.get(model)}
        made.append(about | {"asks": asked.get(model), "ridge": ridge} | known)
    return made


def _advice(paper: Paper, machine: Machine) -> dict[str, dict[str, Any]]:
    """Return what to try first by model, for its smallest batch."""
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
                found[model] = asdict(advice)
    return found
