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

from measure.cache.records import BACKWARD, EAGER, FORWARD, STEP
from report.analysis import available
from report.analysis.available import DataMissingError
from report.analysis.predictors import common_batches
from report.charts.theme import OUTSIDE
from report.load.paper import BASE_PRECISION, Machine, Paper

PASSES = (FORWARD, BACKWARD)
"""The stages whose work is counted."""

QUANTITIES = {"time_s": "time", "flop": "FLOP", "byte": "memory"}
"""Columns of what a stage costs, and how figures name them."""

COSTS = [f"{stage}_{quantity}" for quantity in QUANTITIES for stage in PASSES]

CELL = ["model", "batch"]


def shown_batch(steps: pd.DataFrame) -> int:
    """The batch size at which figures show a machine's training: of those that most models have, the smallest."""
    return common_batches(steps)[0]


@cache
def of_layers(paper: Paper, of: Machine) -> pd.DataFrame:
    """One row is a layer of a model at the batch size that is shown, in the order of execution; at least one.

    The columns ``COSTS`` are ``forward_time_s`` and so on; a layer that the profiler did not see took no time.
    ``parameter_byte``, ``activation_byte`` and ``saved_byte`` are the parts of memory.
    """
    cells = _profiled(of)
    layers = available.layers(paper, int(cells.batch.iloc[0])).merge(cells[CELL], on=CELL)
    for stage in PASSES:
        times = _times(of, stage)
        layers = layers.merge(times.rename(f"{stage}_time_s"), on=[*CELL, "path"], how="left")
        layers[f"{stage}_flop"] = layers[f"{stage}_flop"] + layers[f"{stage}_other_flop"]
    layers["forward_byte"] = layers.parameter_byte + layers.activation_byte
    layers["backward_byte"] = layers.saved_byte + layers.parameter_byte
    layers[COSTS] = layers[COSTS].astype(float).fillna(0.0)
    return layers.sort_values([*CELL, "position"], ignore_index=True)


def _profiled(of: Machine) -> pd.DataFrame:
    """The cells at the batch size that is shown that were measured and profiled; at least one."""
    steps = available.steps(of)
    profiles = of.profiles
    taken = (profiles.status == "ok") & (profiles.phase == STEP) & (profiles.variant == EAGER)
    taken &= profiles.precision == BASE_PRECISION
    cells = steps[steps.batch == shown_batch(steps)].merge(profiles[taken][CELL], on=CELL)
    if cells.empty:
        raise DataMissingError(
            f"The time of the layers of a training step on the {available.title(of)} has not been measured; python -m "
            f"measure --device {of.environment.device} --sections workload operators measures it."
        )
    return cells


def _times(of: Machine, stage: str) -> pd.Series:
    """The time of the operators in each module, by model, batch size and path."""
    rows = of.operators
    rows = rows[(rows.phase == STEP) & (rows.variant == EAGER) & (rows.precision == BASE_PRECISION)]
    return rows[rows.stage == stage].groupby([*CELL, "path"]).time_s.sum()


@cache
def of_kinds(paper: Paper, of: Machine) -> pd.DataFrame:
    """One row is a kind of layer, or the remainder of time, in a stage of a model: its ``QUANTITIES``; at least one.

    ``time_s`` sums to the measured time of the stage, ``flop`` and ``byte`` to what the layers ask for.
    """
    layers, steps = of_layers(paper, of), available.steps(of)
    parts = []
    for stage in PASSES:
        columns = {f"{stage}_{quantity}": quantity for quantity in QUANTITIES}
        sums = layers.groupby([*CELL, "kind"])[list(columns)].sum().rename(columns=columns).reset_index()
        rest = sums.groupby(CELL, as_index=False).time_s.sum().merge(steps[[*CELL, f"{stage}_s"]], on=CELL)
        rest = rest.assign(kind=OUTSIDE, time_s=rest[f"{stage}_s"] - rest.time_s, flop=0.0, byte=0.0)
        parts.append(pd.concat([sums, rest[sums.columns]]).assign(stage=stage))
    return pd.concat(parts, ignore_index=True)


def of_shown(paper: Paper, part: Callable[[Paper, Machine], pd.DataFrame]) -> tuple[Machine, pd.DataFrame]:
    """The first machine that figures show whose layers were timed, and a part of it: ``of_layers`` or ``of_kinds``."""
    available.machines(paper)
    gaps = []
    for machine in paper.shown:
        try:
            return machine, part(paper, machine)
        except DataMissingError as gap:
            gaps.append(str(gap))
    raise DataMissingError(" ".join(gaps))


def shares(rows: pd.DataFrame, quantity: str) -> pd.Series:
    """What part each row of ``of_kinds`` has of a quantity of its stage and model, as far as they are given."""
    whole = rows.groupby([*CELL, "stage"])[quantity].transform("sum")
    return rows[quantity] / whole


def most_costly(rows: pd.DataFrame) -> dict[tuple[str, str], tuple[str, int, float]]:
    """For each quantity and stage of ``of_kinds``: the kind whose share of all layers is largest in most models.

    With it the number of these models, and its median share in them.
    """
    rows, found = rows[rows.kind != OUTSIDE], {}
    for quantity in QUANTITIES:
        ranked = rows.assign(share=shares(rows, quantity))
        largest = ranked.loc[ranked.groupby([*CELL, "stage"]).share.idxmax()]
        for stage, own in largest.groupby("stage"):
            kind, count = next(iter(own.kind.value_counts().items()))
            found[quantity, str(stage)] = (str(kind), int(count), float(own[own.kind == kind].share.median()))
    return found


def pivoted(rows: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """A quantity of ``of_kinds`` by model, batch size and kind, a column a stage; 0 where a kind has none."""
    table = rows.pivot_table(index=[*CELL, "kind"], columns="stage", values=quantity, aggfunc="sum")
    return table.reindex(columns=list(PASSES)).fillna(0.0).reset_index()


def shares_by_kind(layers: pd.DataFrame) -> pd.DataFrame:
    """Return each layer kind's share of a model's FLOP (products and others together), parameters and bytes."""
    both = layers.assign(flop=layers.forward_flop + layers.forward_other_flop)
    columns = ["flop", "parameter_count", "traffic_byte", "activation_byte"]
    sums = both.groupby(["model", "kind"])[columns].sum()
    return (sums / sums.groupby("model").transform("sum")).reset_index()


def at_shown_batch(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the rows at the batch size at which figures show a machine's training."""
    return steps[steps.batch == shown_batch(steps)]
