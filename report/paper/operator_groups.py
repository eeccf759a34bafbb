"""Groups of operators by rule, and the time and work of each group in a profiled call or traced step.

Rules look at an operator's name in torch (``aten``) and the layer that calls it. Counts and profiles name a convolution
differently (``convolution`` and ``conv2d``), hence the patterns. A GPU kernel belongs to its operator's group, unless
it only converts a layout.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from measure.domain.kernel_names import is_conversion
from measure.domain.records import OperatorTime
from measure.domain.roofs import Roof
from measure.domain.schema import TABLES
from measure.domain.step_parts import StepPart, step_parts
from measure.domain.trace_records import LAYOUT, TraceOperator
from measure.domain.words import BACKWARD, COSTS, EAGER, ELEMENTARY, FORWARD, INFERENCE, STEP, UPDATE
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.frames import matching

OTHER = "other"  # the group of operators that fit no rule
CELL = ["model", "batch", "phase"]  # the key of a profiled call at one precision and variant

PHASE_OF = {INFERENCE: INFERENCE, FORWARD: STEP, BACKWARD: STEP}
"""The phase of a counted operator's stage. Operators of the optimiser and the loss are not counted."""


@dataclass(frozen=True)
class Rule:
    """A group and a pattern of operator names. A rule without ``kind`` or ``stage`` fits all of them."""

    group: str
    name: str = ""
    kind: str = ""
    stage: str = ""

    def fits(self, operator: str, kind: str, stage: str) -> bool:
        is_there = self.kind in ("", kind) and self.stage in ("", stage)
        return is_there and bool(re.search(self.name, operator, re.IGNORECASE))


def _whole(names: str) -> str:
    """Return a pattern of whole names: in place or not, any dimension, forward or backward."""
    return rf"^_*({'|'.join(names.split())})(_?\dd)?_?(_?backward\d*)?$"


RULES = (
    Rule("optimiser", stage=UPDATE),
    Rule("attention", kind="attention"),
    Rule("attention", "attention|transformer_encoder_layer"),
    Rule("batch norm, backward", r"batch_?norm\w*backward"),
    Rule("batch norm", "batch_?norm"),
    Rule("layer norm", "(layer|group|instance)_?norm"),
    Rule("depthwise convolution", r"conv(olution|_|\d)", kind="depthwise convolution"),
    Rule("convolution, data gradient", r"conv\w*backward_(input|data)|dgrad"),
    Rule("convolution, weight gradient", r"conv\w*backward_weight|wgrad"),
    Rule("convolution, both gradients", r"conv(olution|_|\d)\w*backward"),
    Rule("convolution", r"conv(olution|_|\d)"),
    Rule("pooling", kind="pooling"),
    Rule("pooling", "pool"),
    Rule("matrix product", "(^|_)linear"),
    Rule("matrix product", _whole("mm addmm bmm baddbmm matmul mv addmv dot vdot inner einsum scaled_mm bilinear")),
    Rule("memory copy and set", r"copy|memcpy|memset|contiguous|embedding|(^|_)pad(_|$|\d)|shuffle"),
    Rule(
        "memory copy and set",
        _whole(
            "clone to cat concat stack split split_with_sizes chunk unbind roll flip repeat repeat_interleave "
            "index index_select index_put gather scatter scatter_add take zero zeros zeros_like ones ones_like full "
            "full_like fill empty empty_like empty_strided new_zeros new_ones new_empty new_full arange resize view "
            "reshape flatten unflatten permute transpose t expand expand_as slice select narrow squeeze unsqueeze "
            "unfold as_strided movedim detach alias type_as"
        ),
    ),
    Rule(
        "reduction",
        _whole(
            "sum mean var std var_mean std_mean prod max min amax amin argmax argmin any all norm linalg_vector_norm "
            "weight_norm weight_norm_interface softmax log_softmax softmax_backward_data log_softmax_backward_data "
            "logsumexp cumsum nll_loss nll_loss_nd nll_loss_forward cross_entropy_loss mse_loss topk sort"
        ),
    ),
    Rule("elementwise", kind="activation"),
    Rule("elementwise", "upsample|interpolate|dropout"),
    Rule(
        "elementwise",
        _whole(
            f"{' '.join((*ELEMENTARY, *COSTS))} square relu6 prelu selu softsign log_sigmoid clamp clamp_min clamp_max "
            "where masked_fill bitwise_and bitwise_or bitwise_not bernoulli uniform normal rand rand_like randn"
        ),
    ),
)
"""The first rule that fits wins: specific rules come before general ones."""


@cache
def group_of(operator: str, kind: str, stage: str) -> str:
    """Return an operator's group by the kind of its layer (empty if unknown) and the stage."""
    return next((rule.group for rule in RULES if rule.fits(operator, kind, stage)), OTHER)


def with_groups(times: pd.DataFrame, layers: pd.DataFrame) -> pd.DataFrame:
    """Add ``layer_kind`` (empty if the path is unknown) and ``group`` to rows of ``OperatorTime``."""
    kinds = layers.drop_duplicates(["model", "path"])[["model", "path", "layer_kind"]]
    rows = times.merge(kinds, on=["model", "path"], how="left")
    return _grouped(rows.assign(layer_kind=rows.layer_kind.fillna("").astype(object)))


def _grouped(rows: pd.DataFrame) -> pd.DataFrame:
    keys = zip(*(rows[name].tolist() for name in ("operator", "layer_kind", "stage")), strict=True)
    return rows.assign(group=pd.Series([group_of(*key) for key in keys], rows.index, dtype=object))


def without_conversions(times: pd.DataFrame, kernels: pd.DataFrame) -> pd.DataFrame:
    """Take layout conversions out of the operators' times; they become rows of the group ``layout conversion``.

    ``times`` are rows of ``OperatorTime`` with their groups, ``kernels`` rows of ``KernelTime``.
    """
    keys = list(TABLES[OperatorTime].key)
    spent = kernels[kernels.kernel.map(is_conversion).astype(bool)].groupby(keys, dropna=False).time_s.sum()
    rows = times.merge(spent.rename("conversion_s").reset_index(), on=keys, how="left").fillna({"conversion_s": 0.0})
    conversions = rows[rows.conversion_s > 0].assign(group=LAYOUT, time_s=lambda found: found.conversion_s)
    rows = pd.concat([rows.assign(time_s=rows.time_s - rows.conversion_s), conversions], ignore_index=True)
    return rows.drop(columns="conversion_s")


@cache
def profiled(paper: Paper, machine: Machine) -> pd.DataFrame:
    """One row per group of operators and profiled call, at the base precision in eager mode.

    ``share`` is the group's share of the operators' time; ``flop`` (products and others) and ``byte`` (each operator's
    inputs and outputs) are its counted work, 0 if none was counted. ``plain_s`` and ``profiled_s`` time the call.
    """
    calls = matching(machine.profiles, status="ok", precision=BASE_PRECISION, variant=EAGER)
    calls = calls[[*CELL, "plain_s", "profiled_s"]]
    times = with_groups(matching(machine.operators, variant=EAGER, precision=BASE_PRECISION), paper.layers)
    times = without_conversions(times, matching(machine.kernels, variant=EAGER, precision=BASE_PRECISION))
    spent = times.groupby([*CELL, "group"], as_index=False).time_s.sum()
    counted = _grouped(matching(paper.operators, precision=BASE_PRECISION))
    work = counted[["model", "batch", "group"]].assign(
        phase=counted.stage.map(PHASE_OF),
        flop=(counted.flop + counted.other_flop) * counted.calls,
        byte=counted.byte * counted.calls,
    )
    work = work.groupby([*CELL, "group"], as_index=False)[["flop", "byte"]].sum()
    rows = calls.merge(spent, on=CELL).merge(work, on=[*CELL, "group"], how="left")
    numbers = ["plain_s", "profiled_s", "time_s", "flop", "byte"]
    rows = rows.astype(dict.fromkeys(numbers, float)).fillna({"flop": 0.0, "byte": 0.0})
    return rows.assign(share=rows.time_s / rows.groupby(CELL).time_s.transform("sum"))


def traced(operators: Iterable[TraceOperator], roof: Roof | None) -> pd.DataFrame:
    """One row per ``kind`` of layer in a traced step, with the algorithm: the fields of ``StepPart``, rates and bounds.

    ``share`` is of the kernels' time; ``intensity`` and ``flop_per_s`` are of all arithmetic, over the counted time.
    Softmax is a kind of its own: inside unfused attention its bottleneck differs from the products'.
    """
    parts = step_parts(operators, roof, lambda row: "softmax" if row.operator == "_softmax" else row.kind)
    numbers = [name for name in StepPart.__dataclass_fields__ if name != "name"]
    of = {name: np.array([getattr(part, name) for part in parts], float) for name in (*numbers, "roof_share")}
    work = of["flop"] + of["other_flop"]
    with np.errstate(divide="ignore", invalid="ignore"):
        of["share"] = of["time_s"] / of["time_s"].sum()
        of["intensity"] = np.where(of["byte"] > 0, work / of["byte"], np.nan)
        of["flop_per_s"] = np.where(of["counted_s"] > 0, work / of["counted_s"], np.nan)
    return pd.DataFrame({"kind": [part.name for part in parts], **of, "bound": [part.bound for part in parts]})
