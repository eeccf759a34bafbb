"""Each network's card: what an input asks for, its place under the roof, its latencies, and what to try first."""

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
    made = []
    for model, family in families.items():
        sort = family if family in NO_IMAGES else ""
        about = {"id": model, "name": model_name(model), "sort": sort, "family": family}
        cells = matching(machine.cells, model=model, status="ok") if machine else pd.DataFrame()
        times = matching(cells, precision=BASE_PRECISION)[TIMES].sort_values("batch") if len(cells) else cells
        advice = _advice(paper, machine, model, cells) if machine and len(times) else None
        made.append(about | {"asks": asked.get(model), "ridge": ridge, "times": records(times), "advice": advice})
    return made


def _advice(paper: Paper, machine: Machine, model: str, cells: pd.DataFrame) -> dict[str, Any] | None:
    base = min(each(matching(cells, precision=BASE_PRECISION)), key=lambda cell: cell.batch)
    call = {"model": model, "batch": base.batch, "precision": BASE_PRECISION, "phase": INFERENCE, "variant": EAGER}
    profile = next(each(matching(machine.profiles, status="ok", **call)), None)
    layers = each(with_groups(matching(machine.operators, **call), paper.layers))
    variants = matching(machine.variants, model=model, status="ok")
    found = advise(base, [*each(cells), *each(variants)], profile, layers, machine.environment)
    return asdict(found) if found else None
