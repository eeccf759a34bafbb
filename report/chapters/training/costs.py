"""What a training step costs, as frames: by network, by layer, by kind of layer, by group of operators."""

from functools import cache

import pandas as pd

from measure.domain.words import BACKWARD, EAGER, FORWARD, INFERENCE, STEP
from report.paper import BASE_PRECISION, Machine, Paper, operator_groups, published
from report.paper.cells import with_workload
from report.paper.frames import matching

PASSES = (FORWARD, BACKWARD)

TRAINING_BATCH = 64  # the batch size at which memory is shown, or the largest smaller one that was counted

UNLIKE = ("mobilenet_v2", "vit_b_16")
"""Two networks of unlike kind: convolutions with little between them, and attention."""

STEP_COLUMNS = [
    "model", "batch", "latency_s", "latency_low_s", "latency_high_s", "forward_s", "update_s", "time_ratio",
    "time_ratio_low", "time_ratio_high", "flop_ratio", "forward_flop", "backward_flop", "parameter_byte",
    "momentum_byte", "gradient_byte", "forward_bound_s", "backward_bound_s", "update_bound_s", "operator_bound_s",
    "flop_bound_s", "peak_byte", "training_peak_byte",
]  # fmt: skip

COUNTER_KEY = ["model", "batch", "precision", "phase", "variant"]


def steps(machine: Machine | None) -> pd.DataFrame:
    """Return the measured and counted steps at the batch size that most networks have, the smallest of equals."""
    if machine is None:
        return pd.DataFrame(columns=STEP_COLUMNS)
    rows = matching(machine.steps, status="ok", precision=BASE_PRECISION)
    rows = rows[rows.time_ratio.notna() & rows.backward_flop.notna()]
    return rows[rows.batch == rows.groupby("batch").model.nunique().idxmax()] if len(rows) else rows


def trained(paper: Paper) -> pd.DataFrame:
    """Return what a step needs of memory and FLOP, one row a network, at ``TRAINING_BATCH``."""
    rows = matching(paper.workloads, precision=BASE_PRECISION)
    rows = rows[(rows.batch <= TRAINING_BATCH) & rows.backward_flop.notna()]
    return rows[rows.batch == rows.batch.max()].set_index("model")


def layers(paper: Paper, machine: Machine | None) -> pd.DataFrame:
    """One row is a layer of a network whose step was profiled, in the order of execution.

    ``forward_time_s`` is the time of the operators in its module; backward operators count where their forward operator
    ran. FLOP are products and others. The forward pass holds parameters and activations, the backward pass saved
    activations and gradients.
    """
    shown = steps(machine)
    if machine is None or shown.empty:
        return paper.layers.iloc[:0]
    batch = int(shown.batch.iloc[0])
    call = {"phase": STEP, "variant": EAGER, "precision": BASE_PRECISION, "batch": batch}
    profiled = set(matching(machine.profiles, status="ok", **call).model) & set(shown.model)
    rows = matching(paper.layers, precision=BASE_PRECISION, batch=batch)
    rows = rows[rows.model.isin(profiled)].sort_values(["model", "position"])
    times = matching(machine.operators, **call).groupby(["model", "path", "stage"]).time_s.sum().unstack("stage")
    times = times.reindex(columns=PASSES).add_suffix("_time_s").reset_index()
    rows = rows.merge(times, on=["model", "path"], how="left")
    for stage in PASSES:
        rows[f"{stage}_products"] = rows[f"{stage}_flop"].astype(float).fillna(0.0)
        rows[f"{stage}_flop"] = rows[f"{stage}_products"] + rows[f"{stage}_other_flop"].astype(float).fillna(0.0)
        rows[f"{stage}_time_s"] = rows[f"{stage}_time_s"].astype(float).fillna(0.0)
    rows["forward_byte"] = (rows.parameter_byte + rows.activation_byte).astype(float)
    rows["backward_byte"] = (rows.saved_byte + rows.parameter_byte).astype(float)
    return rows.reset_index(drop=True)


SUMMED = [
    *(f"{stage}_{cost}" for cost in ("time_s", "flop", "byte", "products") for stage in PASSES),
    "traffic_byte", "backward_traffic_byte",
]  # fmt: skip


@cache
def kinds(paper: Paper, machine: Machine | None) -> pd.DataFrame:
    """One row is a kind of layer in a network: the sums of ``layers``, and its part of each in ``<cost>_share``.

    ``time_ratio``, ``flop_ratio`` and ``byte_ratio`` are backward over forward; bytes are those that operators move.
    """
    rows = layers(paper, machine).reindex(columns=["model", "layer_kind", *SUMMED])
    sums = rows.groupby(["model", "layer_kind"])[SUMMED].sum().astype(float).reset_index()
    shares = sums[SUMMED] / sums.groupby("model")[SUMMED].transform("sum")
    positive = sums[SUMMED].where(sums[SUMMED] > 0)
    return sums.join(shares.add_suffix("_share")).assign(
        time_ratio=positive.backward_time_s / positive.forward_time_s,
        flop_ratio=positive.backward_products / positive.forward_products,
        byte_ratio=positive.backward_traffic_byte / positive.traffic_byte,
    )


def trained_layers(paper: Paper) -> pd.DataFrame:
    """Return the layers of the networks in ``trained``, in the order in which they run."""
    rows, layers = trained(paper), matching(paper.layers, precision=BASE_PRECISION).sort_values("position")
    return layers[layers.model.isin(rows.index) & layers.batch.isin(rows.batch)]


AGREEING = 0.05
"""A time ratio agrees with the FLOP ratio if it is off by this share at most, or if its interval holds it."""


def agreeing(rows: pd.DataFrame) -> pd.Series:
    near = (rows.time_ratio / rows.flop_ratio - 1).abs() <= AGREEING
    return near | ((rows.time_ratio_low <= rows.flop_ratio) & (rows.flop_ratio <= rows.time_ratio_high))


SEEN = 0.01  # a kind counts in summaries if it takes this share of the forward pass's time; below it times are noise


def seen(paper: Paper, machine: Machine | None) -> pd.DataFrame:
    """Return the kinds of layer that take a share of the forward time worth a ratio."""
    rows = kinds(paper, machine)
    return rows[(rows.forward_time_s_share >= SEEN) & rows.time_ratio.notna()]


def causes(paper: Paper, machine: Machine | None) -> pd.Series:
    """Return, by network, the kind of layer that moves its time ratio farthest from its FLOP ratio.

    With r the ratio of the FLOP, a kind that takes F forward and B backward adds B - r F to the gap; the largest term
    with the sign of the whole gap names the kind.
    """
    measured = steps(machine).set_index("model").reindex(columns=["flop_ratio", "time_ratio"]).astype(float)
    rows = kinds(paper, machine)
    flop_ratio, time_ratio = (rows.model.map(measured[column]) for column in measured)
    gap = rows.backward_time_s - flop_ratio * rows.forward_time_s
    rows = rows.assign(gap=gap.where(time_ratio > flop_ratio, -gap))
    return rows.loc[rows.groupby("model").gap.idxmax()].set_index("model").layer_kind


@cache
def groups(paper: Paper, machine: Machine | None) -> pd.DataFrame:
    """One row is a group of operators in a profiled step at the batch size shown: time, share of the time, and work.

    ``flop_per_s`` and ``intensity`` (bytes that operators move) are NaN for groups whose work was not counted.
    """
    if machine is None or (shown := steps(machine)).empty:
        return pd.DataFrame(columns=["model", "group", "time_s", "share", "flop_per_s", "intensity"])
    rows = matching(operator_groups.profiled(paper, machine), phase=STEP, batch=int(shown.batch.iloc[0]))
    known = rows.assign(flop=rows.flop.where(rows.flop > 0), byte=rows.byte.where(rows.byte > 0))
    return rows.assign(flop_per_s=known.flop / known.time_s, intensity=known.flop / known.byte)


def pick(found: pd.Series, wanted: tuple[str, ...]) -> list[str]:
    """Return the wanted networks among those found, filled up with others to as many as were wanted."""
    names = list(dict.fromkeys(found))
    return [*(name for name in wanted if name in names), *(name for name in names if name not in wanted)][: len(wanted)]


def counter_machine(paper: Paper) -> Machine | None:
    """Return the first machine whose kernels were read by hardware counters."""
    return next((each for each in (*paper.machines, *paper.imported) if not each.hardware_counters.empty), None)


def counted_calls(paper: Paper, machine: Machine | None) -> pd.DataFrame:
    """One row is a call of inference that hardware counters read: ``dram_read_byte`` beside ``read_byte``, which its
    operators read, and ``dram_write_byte`` beside ``written_byte``.

    ``ideal_byte`` is what a call reads if nothing is read twice: parameters and inputs. A sum is NaN if one of its
    kernels is unknown.
    """
    columns = ["dram_read_byte", "dram_write_byte"]
    if machine is None:
        return pd.DataFrame(columns=[*COUNTER_KEY, *columns, "read_byte", "written_byte", "ideal_byte"])

    def whole(column: pd.Series) -> float:
        return float(column.astype(float).sum(skipna=False))

    rows = matching(machine.hardware_counters, phase=INFERENCE).groupby(COUNTER_KEY)[columns]
    found = with_workload(rows.agg(whole).reset_index(), paper.workloads)
    found = found.dropna(subset="read_byte")
    return found.assign(
        written_byte=found.traffic_byte - found.read_byte,
        ideal_byte=found.parameter_byte + found.input_byte - found.untouched_byte.fillna(0.0),
    )


def published_ratios(paper: Paper) -> pd.DataFrame:
    """One row is a network on a GPU at a precision: ``ratio``, a step over an inference, all else alike."""
    inferences, steps = (matching(paper.published.timings, phase=phase) for phase in (INFERENCE, STEP))
    pairs = published.paired(inferences, steps, ("phase",))
    return pairs.assign(ratio=pairs.latency_s_other / pairs.latency_s)
