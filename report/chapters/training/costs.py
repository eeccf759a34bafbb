"""The costs of a training step as frames: by network, by layer, by kind of layer, by group of operators."""

from functools import cache
from typing import Any

import pandas as pd

from measure.domain.statistics import FEWEST_MODELS
from measure.domain.words import BACKWARD, EAGER, FORWARD, INFERENCE, STEP
from report.paper import BASE_PRECISION, REFERENCE, Machine, Paper, operator_groups, published
from report.paper.cells import with_workload
from report.paper.frames import matching
from report.paper.published import NETWORK

PASSES = (FORWARD, BACKWARD)

TRAINING_BATCH = 64  # for memory; or the largest smaller batch size that was counted

STEP_COLUMNS = [
    "model", "latency_s", "forward_s", "time_ratio", "time_ratio_low", "time_ratio_high", "flop_ratio",
    "operator_bound_s", "flop_bound_s", "peak_byte", "training_peak_byte",
]  # fmt: skip
"""The columns of steps that facts need without a machine."""

COUNTER_KEY = ["model", "batch", "precision", "phase", "variant"]


def steps(machine: Machine | None, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """Return the measured and counted steps at the batch size of most networks, the smallest of equals."""
    if machine is None:
        return pd.DataFrame(columns=STEP_COLUMNS)
    rows = timed(machine, precision)
    return rows[rows.batch == rows.groupby("batch").model.nunique().idxmax()] if len(rows) else rows


def timed(machine: Machine, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """Return the measured and counted steps at all batch sizes."""
    rows = matching(machine.steps, status="ok", precision=precision)
    return rows[rows.time_ratio.notna() & rows.backward_flop.notna()]


TWO = 2  # networks of a figure of pairs


def profiled(machine: Machine) -> dict[int, set[str]]:
    """Return the networks with a timed and profiled step by batch size."""
    profiles = matching(machine.profiles, status="ok", phase=STEP, variant=EAGER, precision=BASE_PRECISION)
    both = timed(machine)[["model", "batch"]].merge(profiles[["model", "batch"]].drop_duplicates())
    return {batch: set(both.model[both.batch == batch]) for batch in both.batch.unique().tolist()}


@cache
def subject(paper: Paper, fewest: int = FEWEST_MODELS, is_profiled: bool = False) -> Machine | None:
    """Return the machine at hand, or the reference machine if that alone has steps of so many networks."""

    def has_enough(machine: Machine) -> bool:
        rows = steps(machine)
        models = set(rows.model)
        if is_profiled and models:
            models &= profiled(machine).get(int(rows.batch.iloc[0]), set())
        return len(models) >= fewest

    here = paper.at_hand
    if here is None or has_enough(here):
        return here
    return next((each for each in paper.machines if each.folder == REFERENCE and has_enough(each)), here)


EVERYWHERE = [
    "folder", "device", "precision", "batch", "model", "time_ratio", "time_ratio_low", "time_ratio_high", "flop_ratio",
    "over", "rounds",
]  # fmt: skip
COLUMN = ["device", "precision", "batch"]


@cache
def everywhere(paper: Paper) -> pd.DataFrame:
    """Return the steps of every machine at each of its precisions, fp32 first. ``over`` is a step over its forward."""
    found = []
    for machine in paper.machines:
        for precision in sorted(set(machine.steps.precision), key=lambda each: (each != BASE_PRECISION, each)):
            rows = timed(machine, precision).sort_values("batch", kind="stable")
            found.append(
                rows.assign(folder=machine.folder, device=machine.name, over=rows.latency_s / rows.forward_s)[
                    EVERYWHERE
                ]
            )
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=EVERYWHERE)


def comparable(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of ``everywhere`` at one batch size a device and precision, the same for as many as possible."""
    counts = rows.groupby(["device", "precision", "batch"]).model.nunique().reset_index(name="networks")
    if counts.empty:
        return rows
    sizes = counts[counts.networks >= min(FEWEST_MODELS, counts.networks.max())].groupby("batch").networks
    common = sizes.agg(["count", "sum"]).sort_values(["count", "sum"]).index[-1]
    counts["networks"] = counts.networks.where(counts.batch != common, float("inf"))
    best = counts.loc[counts.groupby(["device", "precision"]).networks.idxmax(), COLUMN]
    return rows[pd.MultiIndex.from_frame(rows[COLUMN]).isin(pd.MultiIndex.from_frame(best))]


def shared(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of ``comparable`` of the same networks on each device and precision, six or more.

    A device with few of the others' networks is left out; none has rows if no two share enough.
    """
    cells = {key: set(own.model) for key, own in rows.groupby(COLUMN, sort=False)}
    common: set[str] = set()
    kept: list[Any] = []
    for key, models in sorted(cells.items(), key=lambda cell: -len(cell[1])):
        both = common & models if kept else models
        if len(both) >= FEWEST_MODELS:
            common = both
            kept.append(key)
    of_kept = pd.MultiIndex.from_frame(rows[COLUMN]).isin(kept) if len(kept) > 1 else False
    return rows[rows.model.isin(common) & of_kept]


def trained(paper: Paper) -> pd.DataFrame:
    """Return the memory and FLOP of a step, one row per network, at ``TRAINING_BATCH``."""
    rows = matching(paper.workloads, precision=BASE_PRECISION)
    rows = rows[(rows.batch <= TRAINING_BATCH) & rows.backward_flop.notna()]
    return rows[rows.batch == rows.batch.max()].set_index("model")


def layers(paper: Paper, machine: Machine | None, batch: int | None = None) -> pd.DataFrame:
    """Return one row per layer of each network with a profiled step, in the order of execution.

    The batch size is that of ``steps`` unless given.

    ``forward_time_s`` is the time of the operators in its module; backward operators count where their forward operator
    ran. FLOP are products and others. The forward pass holds parameters and activations, the backward pass saved
    activations and gradients.
    """
    measured = steps(machine)
    if machine is None or measured.empty:
        return paper.layers.iloc[:0]
    batch = batch or int(measured.batch.iloc[0])
    call = {"phase": STEP, "variant": EAGER, "precision": BASE_PRECISION, "batch": batch}
    rows = matching(paper.layers, precision=BASE_PRECISION, batch=batch)
    rows = rows[rows.model.isin(profiled(machine).get(batch, ()))].sort_values(["model", "position"])
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
def kinds(paper: Paper, machine: Machine | None, batch: int | None = None) -> pd.DataFrame:
    """Return one row per network and kind of layer: sums of ``layers``, and their shares of the network's sums.

    ``time_ratio``, ``flop_ratio`` and ``byte_ratio`` (of the bytes that operators move) are backward over forward.
    """
    rows = layers(paper, machine, batch).reindex(columns=["model", "layer_kind", *SUMMED])
    sums = rows.groupby(["model", "layer_kind"])[SUMMED].sum().astype(float).reset_index()
    shares = sums[SUMMED] / sums.groupby("model")[SUMMED].transform("sum")
    positive = sums[SUMMED].where(sums[SUMMED] > 0)
    return sums.join(shares.add_suffix("_share")).assign(
        time_ratio=positive.backward_time_s / positive.forward_time_s,
        flop_ratio=positive.backward_products / positive.forward_products,
        byte_ratio=positive.backward_traffic_byte / positive.traffic_byte,
    )


def trained_layers(paper: Paper) -> pd.DataFrame:
    """Return the layers of the networks in ``trained``, in the order of execution."""
    rows, layers = trained(paper), matching(paper.layers, precision=BASE_PRECISION).sort_values("position")
    return layers[layers.model.isin(rows.index) & layers.batch.isin(rows.batch)]


NEAR = 0.1  # ratios in time and in FLOP that differ by no more are close


def near(rows: pd.DataFrame) -> pd.Series:
    """Return whether the ratio in time is close to the ratio in FLOP."""
    return (rows.time_ratio / rows.flop_ratio - 1).abs() <= NEAR


def apart(rows: pd.DataFrame) -> pd.Series:
    """Return whether the ratio in FLOP is outside the interval of the ratio in time."""
    return (rows.flop_ratio < rows.time_ratio_low) | (rows.flop_ratio > rows.time_ratio_high)


def byte_ratios(paper: Paper) -> pd.DataFrame:
    """Return one row per network in ``trained`` and kind of layer: ``ratio`` of bytes moved, backward over forward."""
    sums = trained_layers(paper).groupby(["model", "layer_kind"])[["traffic_byte", "backward_traffic_byte"]].sum()
    sums = sums[sums.traffic_byte > 0].astype(float)
    return sums.assign(ratio=sums.backward_traffic_byte / sums.traffic_byte).reset_index()


def held_share(rows: pd.DataFrame, state: str) -> pd.Series:
    """Return the share of parameters, gradients and an optimiser's ``state`` in the peak of a step.

    The counted peak is of SGD with momentum; here another state may take the place of the momentum.
    """
    held = rows.parameter_byte + rows.gradient_byte + rows[state]
    return (held / (rows.training_peak_byte - rows.momentum_byte + rows[state])).astype(float)


SEEN = 0.01  # the least share of the forward time for a kind to count in summaries; less is noise


def seen(paper: Paper, machine: Machine | None) -> pd.DataFrame:
    """Return the kinds of layer with enough of the forward time for a ratio."""
    rows = kinds(paper, machine)
    return rows[(rows.forward_time_s_share >= SEEN) & rows.time_ratio.notna()]


def causes(paper: Paper, machine: Machine | None) -> pd.Series:
    """Return, by network, the kind of layer that moves its time ratio farthest from its FLOP ratio r.

    A kind that takes F forward and B backward adds B - r F to the gap. The largest term with the sign of the whole gap
    names the kind.
    """
    measured = steps(machine).set_index("model").reindex(columns=["flop_ratio", "time_ratio"]).astype(float)
    rows = kinds(paper, machine)
    flop_ratio, time_ratio = (rows.model.map(measured[column]) for column in measured)
    gap = rows.backward_time_s - flop_ratio * rows.forward_time_s
    rows = rows.assign(gap=gap.where(time_ratio > flop_ratio, -gap))
    return rows.loc[rows.groupby("model").gap.idxmax()].set_index("model").layer_kind


@cache
def groups(paper: Paper, machine: Machine | None) -> pd.DataFrame:
    """Return one row per group of operators in a profiled step at the batch size of ``steps``: time, share, work.

    ``flop_per_s`` and ``intensity`` (by the bytes that operators move) are NaN for groups without counted work.
    """
    measured = steps(machine)
    if machine is None or measured.empty:
        return pd.DataFrame(columns=["model", "group", "time_s", "share", "flop_per_s", "intensity"])
    rows = matching(operator_groups.profiled(paper, machine), phase=STEP, batch=int(measured.batch.iloc[0]))
    flop, byte = (column.where(column > 0) for column in (rows.flop, rows.byte))
    return rows.assign(flop_per_s=flop / rows.time_s, intensity=flop / byte)


def pick(found: pd.Series, wanted: tuple[str, ...]) -> list[str]:
    """Return the wanted networks that were found, filled up with others to the same number."""
    names = list(dict.fromkeys(found))
    return [*(name for name in wanted if name in names), *(name for name in names if name not in wanted)][: len(wanted)]


def counter_machine(paper: Paper) -> Machine | None:
    """Return the first machine with hardware counters."""
    return next((each for each in (*paper.machines, *paper.imported) if not each.hardware_counters.empty), None)


def counted_calls(paper: Paper, machine: Machine | None) -> pd.DataFrame:
    """Return one row per call of inference with hardware counters.

    The counters give ``dram_read_byte`` and ``dram_write_byte``, NaN if one kernel has none; its operators read
    ``read_byte`` and write ``written_byte``.
    """
    columns = ["dram_read_byte", "dram_write_byte"]
    if machine is None:
        return pd.DataFrame(columns=[*COUNTER_KEY, *columns, "read_byte", "written_byte"])

    def whole(column: pd.Series) -> float:
        return float(column.astype(float).sum(skipna=False))

    rows = matching(machine.hardware_counters, phase=INFERENCE).groupby(COUNTER_KEY)[columns]
    found = with_workload(rows.agg(whole).reset_index(), paper.workloads).dropna(subset="read_byte")
    return found.assign(written_byte=found.traffic_byte - found.read_byte)


def published_ratios(paper: Paper) -> pd.DataFrame:
    """Return one row per network, GPU and precision: ``ratio``, a step over an inference, all else alike."""
    inferences, steps = (matching(paper.published.timings, phase=phase) for phase in (INFERENCE, STEP))
    pairs = published.paired(inferences, steps, ("phase",))
    return pairs.assign(ratio=pairs.latency_s_other / pairs.latency_s)


def ratios_across_releases(paper: Paper) -> pd.DataFrame:
    """Return one row per network and GPU: ``ratio``, an input in a step over an input in inference.

    The two were timed in different releases of PyTorch, and perhaps at different batch sizes: the oldest of each.
    """
    rows = matching(paper.published.timings, compiler="", layout="contiguous")
    rows = rows.assign(input_s=rows.latency_s / rows.batch, version=rows.torch.map(published.version))
    rows = rows.sort_values("version", kind="stable")
    alike = [*NETWORK, "device", "source", "precision", "autocast"]
    inferences, steps = (matching(rows, phase=phase).drop_duplicates(alike) for phase in (INFERENCE, STEP))
    pairs = inferences.merge(steps, on=alike, suffixes=("", "_other"))
    pairs = pairs[pairs.torch != pairs.torch_other]
    return pairs.assign(ratio=pairs.input_s_other / pairs.input_s)


def other_machine(paper: Paper, machine: Machine) -> Machine | None:
    """Return the first GPU for a processor, and the first processor for a GPU."""
    return paper.machine("gpu" if machine.chip_kind == "cpu" else "cpu")
