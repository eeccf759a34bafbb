"""What each layer of a training step costs: time under the profiler, FLOP, and bytes of memory, forward and backward.

The time of a layer is that of the operators that run in its module, the backward ones in the module of their forward
operator (``measure.profiling.attribution``). What a stage of the measured step takes beside all layers is the remainder
``OUTSIDE``: the loss, the framework, and by how much the process that was profiled differs from the cell's rounds. It
may be negative, because the profiler makes operators longer. FLOP are products and others together. The memory of the
forward pass is parameters and activations, that of the backward pass what is saved for it and the gradients of the
parameters.
"""

from collections.abc import Callable
from functools import cache

import pandas as pd

from measure.domain.words import BACKWARD, EAGER, FORWARD, STEP
from report.analysis import available
from report.analysis.available import Missing
from report.analysis.predictors import common_batches
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import matching

PASSES = (FORWARD, BACKWARD)
"""The stages whose work is counted."""

QUANTITIES = {"time_s": "time", "flop": "FLOP", "byte": "memory"}
"""Columns of what a stage costs, and how figures name them."""

COSTS = [f"{stage}_{quantity}" for quantity in QUANTITIES for stage in PASSES]

CELL = ["model", "batch"]

OUTSIDE = "outside the layers"
"""The remainder, as figures and sentences name it."""


def shown_batch(steps: pd.DataFrame) -> int:
    """Return the batch size at which figures show training: of those that most models have, the smallest."""
    return common_batches(steps)[0]


@cache
def of_layers(paper: Paper, machine: Machine) -> pd.DataFrame:
    """One row is a layer of a model at the batch size that is shown, in the order of execution; at least one.

    The columns ``COSTS`` are ``forward_time_s`` and so on; a layer that the profiler did not see took no time.
    ``parameter_byte``, ``activation_byte`` and ``saved_byte`` are the parts of memory.
    """
    cells = _profiled(machine)
    layers = available.layers(paper, int(cells.batch.iloc[0])).merge(cells[CELL], on=CELL)
    for stage in PASSES:
        times = _times(machine, stage)
        layers = layers.merge(times.rename(f"{stage}_time_s"), on=[*CELL, "path"], how="left")
        layers[f"{stage}_flop"] = layers[f"{stage}_flop"] + layers[f"{stage}_other_flop"]
    layers["forward_byte"] = layers.parameter_byte + layers.activation_byte
    layers["backward_byte"] = layers.saved_byte + layers.parameter_byte
    layers[COSTS] = layers[COSTS].astype(float).fillna(0.0)
    return layers.sort_values([*CELL, "position"], ignore_index=True)


def _profiled(machine: Machine) -> pd.DataFrame:
    """Return the cells at the batch size that is shown that were measured and profiled; at least one."""
    steps = available.steps(machine)
    profiles = matching(machine.profiles, status="ok", phase=STEP, variant=EAGER, precision=BASE_PRECISION)
    name = available.title(machine)
    what = f"The time of the layers of a training step on the {name} has not been measured"
    gap = available.missing_on(machine, what, "workload", "operators", does="measures it")
    cells = matching(steps, batch=shown_batch(steps)).merge(profiles[CELL], on=CELL)
    return available.at_least_one(cells, gap)


def _times(machine: Machine, stage: str) -> pd.Series:
    """Return the time of the operators in each module, by model, batch size and path."""
    rows = matching(machine.operators, phase=STEP, variant=EAGER, precision=BASE_PRECISION, stage=stage)
    return rows.groupby([*CELL, "path"]).time_s.sum()


@cache
def of_kinds(paper: Paper, machine: Machine) -> pd.DataFrame:
    """One row is a kind of layer, or the remainder of time, in a stage of a model: its ``QUANTITIES``; at least one.

    ``time_s`` sums to the measured time of the stage, ``flop`` and ``byte`` to what the layers ask for.
    """
    layers, steps = of_layers(paper, machine), available.steps(machine)
    parts = []
    for stage in PASSES:
        columns = {f"{stage}_{quantity}": quantity for quantity in QUANTITIES}
        sums = layers.groupby([*CELL, "layer_kind"])[list(columns)].sum().rename(columns=columns).reset_index()
        rest = sums.groupby(CELL, as_index=False).time_s.sum().merge(steps[[*CELL, f"{stage}_s"]], on=CELL)
        rest = rest.assign(layer_kind=OUTSIDE, time_s=rest[f"{stage}_s"] - rest.time_s, flop=0.0, byte=0.0)
        parts.append(pd.concat([sums, rest[sums.columns]]).assign(stage=stage))
    return pd.concat(parts, ignore_index=True)


def of_shown(paper: Paper, part: Callable[[Paper, Machine], pd.DataFrame]) -> tuple[Machine, pd.DataFrame]:
    """Return the first machine shown whose layers were timed, and a part of it: ``of_layers`` or ``of_kinds``."""
    parts = available.results_of_each(paper, lambda machine: part(paper, machine))
    return next((machine, rows) for machine, rows in parts if not isinstance(rows, Missing))


def shares(rows: pd.DataFrame, quantity: str) -> pd.Series:
    """Return the share that each row of ``of_kinds`` has of a quantity of its stage and model."""
    return rows[quantity] / rows.groupby([*CELL, "stage"])[quantity].transform("sum")


def most_costly(rows: pd.DataFrame) -> dict[tuple[str, str], tuple[str, int, float]]:
    """Return for each quantity and stage of ``of_kinds`` the kind whose share of all layers is largest in most models.

    With it stand the number of these models, and its median share in them.
    """
    rows, found = rows[rows.layer_kind != OUTSIDE], {}
    for quantity in QUANTITIES:
        ranked = rows.assign(share=shares(rows, quantity))
        largest = ranked.loc[ranked.groupby([*CELL, "stage"]).share.idxmax()]
        for stage, layers in largest.groupby("stage"):
            kind, count = next(iter(layers.layer_kind.value_counts().items()))
            share = layers[layers.layer_kind == kind].share.median()
            found[quantity, str(stage)] = (str(kind), int(count), float(share))
    return found


def pivoted(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """Return a quantity of ``of_kinds`` by model, batch size and kind, a column a stage; 0 where a kind has none."""
    table = rows.pivot_table(index=[*CELL, "layer_kind"], columns="stage", values=quantity, aggfunc="sum")
    return table.reindex(columns=list(PASSES)).fillna(0.0).reset_index()


def shares_by_kind(layers: pd.DataFrame) -> pd.DataFrame:
    """Return each layer kind's share of a model's FLOP (products and others together), parameters and bytes."""
    both = layers.assign(flop=layers.forward_flop + layers.forward_other_flop)
    columns = ["flop", "parameter_count", "traffic_byte", "activation_byte"]
    sums = both.groupby(["model", "layer_kind"])[columns].sum()
    return (sums / sums.groupby("model").transform("sum")).reset_index()


def at_shown_batch(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the rows at the batch size at which figures show a machine's training."""
    return steps[steps.batch == shown_batch(steps)]
