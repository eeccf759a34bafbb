"""How well what is counted orders the latencies that others measured, and how the order on a GPU agrees with ours."""

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pandas as pd

from report.analysis import correlations, elsewhere
from report.analysis.available import DataMissingError, at_least_one
from report.analysis.correlations import Correlation
from report.analysis.elsewhere import FEWEST
from report.analysis.predictors import COUNTED, LatencyPredictor
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import matching

BOUND = LatencyPredictor("roofline time", "bound_s", "s")
"""The least time by the model's footprint and FLOP under the datasheet's roof."""

OWN = "our latency"
"""The models' time on a machine that was measured here, as a predictor of their time elsewhere."""


class Order(NamedTuple):
    """How well a predictor orders models by their time of an input, at their fastest, on a device at a precision."""

    device: str
    computed: str
    predictor: str
    coefficient: Correlation


@cache
def orders(paper: Paper) -> list[Order]:
    """Return what each predictor's order is worth on each device with models enough, those with most first."""
    rows = elsewhere.fastest(elsewhere.counted(paper))
    own = _own(paper)
    rows = rows.assign(
        bound_s=rows.attained * rows.latency_s / rows.batch,
        per_input_s=rows.latency_s / rows.batch,
        own_s=[own.get(key, float("nan")) for key in zip(rows.model, rows.input_shape, strict=True)],
    )
    predictors = {each.name: each.column for each in (*COUNTED, BOUND)} | {OWN: "own_s"}
    found = list(_orders(rows, predictors))
    return at_least_one(found, DataMissingError(f"No device was timed with {FEWEST} counted models; {elsewhere.ADD}."))


def _orders(rows: pd.DataFrame, predictors: dict[str, str]) -> Iterator[Order]:
    for device, computed in elsewhere.most_models(rows):
        found = rows[(rows.device == device) & (rows.computed == computed)]
        if found.model.nunique() < FEWEST:
            continue
        for name, column in predictors.items():
            coefficient = correlations.correlation(found[column].astype(float), found.per_input_s, found.model)
            if coefficient is not None:
                yield Order(device, computed, name, coefficient)


def _own(paper: Paper) -> dict[tuple[str, str], float]:
    """Return the time of an input (seconds) on our processor at the largest batch size of most models.

    Models are told by name and shape of an input.
    """
    machine = paper.machine("cpu")
    if machine is None:
        return {}
    cells = matching(machine.cells, status="ok", precision=BASE_PRECISION)
    models = cells.groupby("batch").model.nunique()
    if models.empty:
        return {}
    largest = int(models[models == models.max()].index.max())
    rows = cells[cells.batch == largest]
    return dict(zip(zip(rows.model, rows.input_shape, strict=True), rows.latency_s / largest, strict=True))
