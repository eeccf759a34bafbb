"""What may predict a latency, beside the latencies: how well each orders the models, and where it fails."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

import pandas as pd

from measure.domain.words import INFERENCE
from report.analysis import available, correlations, power_law
from report.analysis.correlations import Correlation
from report.analysis.power_law import PowerLaw
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import matching
from report.text.prose import intensity, percent, si


@dataclass(frozen=True)
class LatencyPredictor:
    """A quantity known before anything is timed: its column among the cells, and whether a batch multiplies it."""

    name: str
    column: str
    unit: str
    grows: bool = True


FLOP = LatencyPredictor("FLOP", "forward_flop", "FLOP")
PARAMETERS = LatencyPredictor("parameters", "parameter_count", "", grows=False)
ACTIVATIONS = LatencyPredictor("activations", "activation_byte", "B")
TRAFFIC = LatencyPredictor("traffic", "traffic_byte", "B")
BOUND = LatencyPredictor("roofline time", "operator_bound_s", "s")
"""The least time of the operators in turn (``report.load.operator_bounds``), which knows a machine's roof."""

COUNTED = (FLOP, PARAMETERS, ACTIVATIONS, TRAFFIC)
"""The quantities that are the same on every machine."""


def known(cells: pd.DataFrame) -> list[LatencyPredictor]:
    """Return the predictors that cells of one machine have."""
    return [predictor for predictor in (*COUNTED, BOUND) if (cells[predictor.column] > 0).any()]


def common_batches(cells: pd.DataFrame) -> list[int]:
    """Return the batch sizes at which at least half as many models were measured as at the one with the most."""
    models = cells.groupby("batch").model.nunique()
    return [int(batch) for batch in models[2 * models >= models.max()].index]


def comparable(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the rows at common batch sizes of the models that have all of these: medians over models compare then.

    Batch sizes with the fewest models are left out until at least half of the models are left.
    """
    rows = cells[cells.batch.isin(common_batches(cells))]
    while True:
        models = rows.groupby("model").batch.nunique()
        shared = rows[rows.model.isin(models[models == rows.batch.nunique()].index)]
        if 2 * shared.model.nunique() >= rows.model.nunique():
            return shared
        counts = rows.groupby("batch").model.nunique()
        rows = rows[rows.batch != counts.idxmin()]


def per_input(cells: pd.DataFrame) -> pd.DataFrame:
    """Return cells whose latency and predictors are those of one input of the batch."""
    columns = ["latency_s", *(predictor.column for predictor in (*COUNTED, BOUND) if predictor.grows)]
    return cells.assign(**{column: cells[column] / cells.batch for column in columns})


def quantities(paper: Paper) -> tuple[pd.DataFrame, list[str]]:
    """One row is a model at a batch size: its latency on each device that figures show, and predictors, per input.

    The second part names the columns to correlate, latencies first. At least one row.
    """
    cells = per_input(available.shown_cells(paper))
    columns = {predictor.column: predictor.name for predictor in COUNTED}
    table = cells.drop_duplicates(["model", "batch"])[["model", "batch", *columns]].rename(columns=columns)
    latencies, bounds = [], []
    for device, rows in cells.groupby("device"):
        names = {"latency_s": f"{device} latency", BOUND.column: f"{device} {BOUND.name}"}
        latencies.append(names["latency_s"])
        bounds += [names[BOUND.column]] if rows[BOUND.column].notna().any() else []
        numbers = rows[["model", "batch", *names]].rename(columns=names)
        table = table.merge(numbers, on=["model", "batch"], how="left")
    return table, [*latencies, *columns.values(), *bounds]


@dataclass(frozen=True)
class Pair:
    """Two quantities in a group of cells (``groups``), how they are correlated, and by which method."""

    batch: int | None
    method: str
    first: str
    second: str
    coefficient: Correlation


@lru_cache(maxsize=8)
def pairs(paper: Paper) -> list[Pair]:
    """Return the correlations of all pairs of ``quantities`` for each group of cells, of those with models enough."""
    table, names = quantities(paper)
    return [
        Pair(batch, name, first, second, found)
        for batch, rows in groups(table)
        for name, method in correlations.METHODS.items()
        for first, second in combinations(names, 2)
        if (found := correlations.correlation(rows[first], rows[second], rows.model, method))
    ]


@dataclass(frozen=True)
class Rank:
    """How well a predictor orders the models by latency, at a batch size or, None, over all cells per input."""

    batch: int | None
    predictor: LatencyPredictor
    coefficients: dict[str, Correlation]
    law: PowerLaw

    @property
    def spearman(self) -> Correlation:
        return self.coefficients["Spearman"]


def groups(cells: pd.DataFrame) -> list[tuple[int | None, pd.DataFrame]]:
    """Return all rows, where there are several batch sizes, as None; then those of each common batch size."""
    batches = common_batches(cells)
    several: list[tuple[int | None, pd.DataFrame]] = [(None, cells)] if len(batches) > 1 else []
    return several + [(batch, matching(cells, batch=batch)) for batch in batches]


def title(batch: int | None) -> str:
    """Name a group of cells as figures and tables do."""
    return "all, per input" if batch is None else f"batch size {batch}"


@lru_cache(maxsize=8)
def rankings(machine: Machine) -> dict[int | None, list[Rank]]:
    """Return the predictors of each group of a machine's cells, the best first; of groups with models enough only."""
    ranked = {batch: _ranking(cells, batch) for batch, cells in groups(per_input(available.cells(machine)))}
    return {batch: ranks for batch, ranks in ranked.items() if ranks}


def _ranking(cells: pd.DataFrame, batch: int | None) -> list[Rank]:
    found = []
    for predictor in known(cells):
        x, y = cells[predictor.column], cells.latency_s
        law = power_law.fit(x, y, cells.model)
        coefficients = {
            name: coefficient
            for name, method in correlations.METHODS.items()
            if (coefficient := correlations.correlation(x, y, cells.model, method))
        }
        if law and coefficients:
            found.append(Rank(batch, predictor, coefficients, law))
    return sorted(found, key=lambda rank: -rank.spearman.value)


@dataclass(frozen=True)
class Trait:
    """What sets a model apart beside predictors: a column of ``model_traits``, its name, a value, and what it is of."""

    column: str
    name: str
    written: Callable[[float], str]
    words: str


TRAITS = (
    Trait("depthwise_share", "the share of depthwise convolution in FLOP", percent, "of FLOP in depthwise convolution"),
    Trait("operator_calls", "the number of operator calls", lambda value: str(round(value)), "operator calls"),
    Trait("parameter_byte", "the bytes of parameters", lambda value: si(value, "B"), "of parameters"),
    Trait("traffic_intensity", "the intensity by traffic", intensity, "of traffic"),
)


def model_traits(paper: Paper, batch: int) -> pd.DataFrame:
    """Return the traits of the models at a batch size, a row a model; empty where one was not counted."""
    rows = available.workloads(paper, batch=batch).set_index("model")
    layers = matching(paper.layers, precision=BASE_PRECISION, batch=batch)
    flop = layers.groupby(["model", "layer_kind"]).forward_flop.sum().unstack().fillna(0.0)
    depthwise = flop.get("depthwise convolution", pd.Series(0.0, flop.index)) / flop.sum(axis=1)
    operators = matching(paper.operators, precision=BASE_PRECISION, batch=batch, stage=INFERENCE)
    calls = operators.groupby("model").calls.sum()
    rows = rows.assign(depthwise_share=depthwise, operator_calls=calls)
    return rows[[trait.column for trait in TRAITS]].astype(float)
