"""What sets a model apart, beside the quantities that predict a latency."""

from collections.abc import Callable
from dataclasses import dataclass

import pandas as pd

from measure.cache.words import INFERENCE
from report.analysis import available
from report.load.paper import BASE_PRECISION, Paper
from report.text.frame_rows import matching
from report.text.quantities import intensity, number, percent, si


@dataclass(frozen=True)
class Trait:
    """A column of ``of_models``, its name, and how its value is told of a model."""

    column: str
    name: str
    told: Callable[[float], str]


TRAITS = (
    Trait(
        "depthwise_share",
        "the share of depthwise convolution in FLOP",
        lambda value: f"{percent(value)} of FLOP in depthwise convolution",
    ),
    Trait("operator_calls", "the number of operator calls", lambda value: number(round(value), "operator call")),
    Trait("parameter_byte", "the bytes of parameters", lambda value: f"{si(value, 'B')} of parameters"),
    Trait("traffic_intensity", "the intensity by traffic", lambda value: f"{intensity(value)} of traffic"),
)


def of_models(paper: Paper, batch: int) -> pd.DataFrame:
    """Return the traits of the models at a batch size, a row a model; empty where one was not counted."""
    rows = available.workloads(paper, batch=batch).set_index("model")
    layers = matching(paper.layers, precision=BASE_PRECISION, batch=batch)
    flop = layers.groupby(["model", "layer_kind"]).forward_flop.sum().unstack().fillna(0.0)
    depthwise = flop.get("depthwise convolution", pd.Series(0.0, flop.index)) / flop.sum(axis=1)
    operators = matching(paper.operators, precision=BASE_PRECISION, batch=batch, stage=INFERENCE)
    calls = operators.groupby("model").calls.sum()
    rows = rows.assign(depthwise_share=depthwise, operator_calls=calls)
    return rows[[trait.column for trait in TRAITS]].astype(float)
