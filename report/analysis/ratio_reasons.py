"""Why a backward pass takes longer, or less long, than its FLOP say: the kind of layer that makes most of the gap.

With r the ratio of the FLOP counted, a backward pass of time B that follows a forward pass of time F is off by B - r F.
That is a sum over kinds of layer and what is outside the layers, so that the largest term of its sign names the reason:

- a kind whose work is products runs other kernels backward, for the gradients of weights and of inputs: the ratio of
  its FLOP/s in the two passes says how well;
- a kind without products waits for memory, and its time goes with its bytes: told is its part of those of the backward
  pass where that takes longer, and how they grow from the forward pass where it takes less long;
- what is outside the layers is the loss and the framework, whose time does not go with FLOP at all.

Where layers were not timed, the bytes alone speak: the kind without products that moves most in the backward pass.
"""

from functools import cache
from typing import Any

import pandas as pd

from measure.domain.values import significant
from measure.domain.words import BACKWARD, FORWARD, PRODUCT_KINDS
from report.analysis import available, layer_costs
from report.analysis.layer_costs import CELL, OUTSIDE, pivoted
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import each, matching
from report.text.prose import percent

Cells = dict[Any, pd.DataFrame]
"""Rows by model and batch size."""

NOTHING = pd.DataFrame(columns=["layer_kind", "share", "growth"])

AGREEING = 0.05
"""A measured ratio agrees with the counted one where it is off by no more than this share, or its interval holds it."""


def near(steps: pd.DataFrame) -> pd.Series:
    """Say of each cell whether the measured ratio is off by no more than ``AGREEING``."""
    return (steps.time_ratio / steps.flop_ratio - 1).abs() <= AGREEING


def agree(steps: pd.DataFrame) -> pd.Series:
    """Say of each cell whether the measured ratio agrees with the counted one."""
    held = (steps.time_ratio_low <= steps.flop_ratio) & (steps.flop_ratio <= steps.time_ratio_high)
    return near(steps) | held


@cache
def explained(paper: Paper, machine: Machine) -> pd.DataFrame:
    """Return the measured cells with ``agrees``, ``cause`` (a kind, or ``OUTSIDE``) and ``reason``, a phrase.

    The cause is empty for a cell that agrees; both are for one of whose layers too little is known.
    """
    steps = available.steps(machine)
    moved, timed = (dict(list(rows.groupby(CELL))) for rows in (_moved(paper), _timed(paper, machine)))
    found = [
        ("", "none" if row.near else "within the interval") if row.agrees else _reason(row, timed, moved)
        for row in each(steps.assign(agrees=agree(steps), near=near(steps)))
    ]
    causes, reasons = [cause for cause, _ in found], [reason for _, reason in found]
    return steps.assign(agrees=agree(steps), cause=causes, reason=reasons)


def _reason(cell: Any, timed: Cells, moved: Cells) -> tuple[str, str]:
    times = timed.get((cell.model, cell.batch))
    bytes_moved = moved.get((cell.model, cell.batch), NOTHING).set_index("layer_kind")
    if times is None:
        waiting = bytes_moved[~bytes_moved.index.isin(PRODUCT_KINDS)]
        if waiting.empty or cell.time_ratio < cell.flop_ratio:
            return "", ""
        kind = str(waiting.share.idxmax())
        return kind, _waiting(cell, kind, waiting)
    gap = times[BACKWARD] - cell.flop_ratio * times[FORWARD]
    most = times.loc[gap.idxmax() if cell.time_ratio > cell.flop_ratio else gap.idxmin()]
    kind = str(most.layer_kind)
    if kind == OUTSIDE:
        return kind, f"{OUTSIDE} (loss, framework)"
    if kind in PRODUCT_KINDS and min(most[FORWARD], most[BACKWARD], most.forward_flop) > 0:
        faster = most.backward_flop / most.forward_flop * most[FORWARD] / most[BACKWARD]
        return kind, f"{kind}: {percent(faster)} of its forward FLOP/s"
    return kind, _waiting(cell, kind, bytes_moved)


def _waiting(cell: Any, kind: str, bytes_moved: pd.DataFrame) -> str:
    if cell.time_ratio > cell.flop_ratio:
        return f"{kind}: memory-bound, {percent(bytes_moved.share[kind])} of the bytes"
    return f"{kind}: memory-bound, bytes grow × {significant(bytes_moved.growth[kind], 2)}"


def _moved(paper: Paper) -> pd.DataFrame:
    """One row is a kind of layer of a model: its FLOP, and the bytes that it moves in both passes.

    ``share`` is its part of the bytes of the backward pass, ``growth`` what it moves there over the forward pass.
    """
    layers = matching(paper.layers, precision=BASE_PRECISION)
    columns = ["traffic_byte", "backward_traffic_byte", "forward_flop", "backward_flop"]
    sums = layers.groupby([*CELL, "layer_kind"])[columns].sum().astype(float)
    share = sums.backward_traffic_byte / sums.groupby(CELL).backward_traffic_byte.transform("sum")
    growth = sums.backward_traffic_byte / sums.traffic_byte
    return sums.assign(share=share, growth=growth).reset_index()


def _timed(paper: Paper, machine: Machine) -> pd.DataFrame:
    """Return the times of each kind's layers in both passes, and its products; none where they were not profiled."""
    try:
        rows = pivoted(layer_costs.of_kinds(paper, machine), "time_s")
    except available.DataMissingError:
        return pd.DataFrame(columns=[*CELL, "layer_kind", FORWARD, BACKWARD, "forward_flop", "backward_flop"])
    products = _moved(paper)[[*CELL, "layer_kind", "forward_flop", "backward_flop"]]
    return rows.merge(products, on=[*CELL, "layer_kind"], how="left")
