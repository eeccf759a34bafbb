"""A training step over its forward pass on every device: machines that this program timed, and published GPUs."""

from itertools import combinations
from typing import Any

import pandas as pd

from measure.domain.names import model_name
from measure.domain.statistics import FEWEST_MODELS
from measure.domain.words import STEP
from report.chapters.training import costs
from report.facts import Facts, missing, sourced
from report.options import gpu_command, measure_command
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.chips import short_name
from report.paper.frames import each, matching
from report.stats.value import Name, Source, Value, count_of, estimated, exact, extremes, median_of

PUBLISHED = Source("published/measurements/models.csv", "steps and inferences")


class StepRange(Facts):
    """Medians by machine and precision over the networks that all of them timed, each at one batch size."""

    devices: Value  #: machines with a median
    networks: Value  #: the networks behind each median
    least: Value  #: the lowest median of a step over its forward pass, with its machine and precision
    most: Value  #: the highest median of a step over its forward pass, with its machine and precision
    least_ratio: Value  #: the lowest median of backward over forward, with its machine and precision
    most_ratio: Value  #: the highest median of backward over forward, with its machine and precision


class IdleStep(Facts):
    """The same step of a network on a GPU at two precisions, where the GPU is idle most at the lower one."""

    device: Name  #: the GPU
    network: Name  #: the network
    precision: Name  #: the lower precision
    busy: Value  #: share of the step in which the GPU runs kernels, at the lower precision
    ratio: Value  #: backward over forward in time, at the lower precision
    base_busy: Value  #: share of the step in which the GPU runs kernels, at fp32
    base_ratio: Value  #: backward over forward in time, at fp32


class StepPair(Facts):
    """The two GPUs with most steps of the same networks at both precisions."""

    first: Name  #: one GPU
    second: Name  #: another GPU
    precision: Name  #: the lower precision
    networks: Value  #: networks with a step on both, at both precisions
    base: Value  #: time of a step on the second over the first, at fp32
    lower: Value  #: time of a step on the second over the first, at the lower precision


class PublishedSteps(Facts):
    """A step over an inference on published GPUs; medians over networks."""

    devices: Value  #: published GPUs with steps and inferences of one batch size
    fp32: Value  #: a step over an inference at fp32, over networks in the median of their GPUs
    fp16: Value  #: a step over an inference at fp16, over networks in the median of their GPUs
    least: Value  #: the lowest median of a GPU, with its name and precision
    most: Value  #: the highest median of a GPU, with its name and precision
    other_device: Name  #: a GPU with steps and inferences timed in different releases of PyTorch
    other: Value  #: an input in a step over an input in inference on that GPU
    other_networks: Value  #: networks behind that


def own(rows: pd.DataFrame) -> StepRange:
    """Summarise the rows of ``costs.shared``."""
    table = ", ".join(f"machines/{folder}/samples.csv" for folder in dict.fromkeys(rows.folder))
    command = measure_command("--sections workload training")
    source = Source(table or "machines/*/samples.csv", "phases step, forward and backward", command)
    if rows.empty:
        return sourced(missing(StepRange), source)
    cells = rows.assign(cell=rows.device + " at " + rows.precision)
    ends = (extremes(cells.groupby("cell")[column].median(), fewest=2) for column in ("over", "time_ratio"))
    networks = count_of(rows.model.nunique(), "models")
    found = StepRange(count_of(cells.device.nunique(), "machines"), networks, *sum(ends, ()))
    return sourced(found, source)


def idle(paper: Paper) -> IdleStep:
    source = Source("machines/*/profiles.csv", "phase step, GPUs", gpu_command())
    found: list[tuple[Machine, Any, Any]] = []
    for machine in paper.machines:
        profiles = matching(machine.profiles, status="ok", phase=STEP)
        profiles = profiles.assign(busy=profiles.busy_s.astype(float) / profiles.plain_s.astype(float))
        rows = matching(machine.steps, status="ok").merge(
            profiles[["model", "batch", "precision", "busy"]], on=["model", "batch", "precision"]
        )
        rows = rows.dropna(subset=["busy", "time_ratio"])
        lower = {(row.model, row.batch): row for row in each(matching(rows, precision=machine.lower_precision))}
        for row in each(matching(rows, precision=BASE_PRECISION) if machine.chip_kind == "gpu" else rows.iloc[:0]):
            if other := lower.get((row.model, row.batch)):
                found.append((machine, row, other))
    if not found:
        return sourced(missing(IdleStep), source)
    machine, base, lower_step = min(found, key=lambda one: one[2].busy)
    facts = IdleStep(
        Name(machine.name), Name(model_name(base.model)), Name(machine.lower_precision),
        exact(lower_step.busy, "%"), estimated(lower_step, "time_ratio"),
        exact(base.busy, "%"), estimated(base, "time_ratio"),
    )  # fmt: skip
    return sourced(facts, source)


def pair(paper: Paper) -> StepPair:
    source = Source("machines/*/samples.csv", "phase step, GPUs", gpu_command())
    machines = [machine for machine in paper.machines if machine.chip_kind == "gpu"]
    found = []
    for first, second in combinations(machines, 2):
        keys, times = ["model", "batch", "precision"], ["model", "batch", "precision", "latency_s"]
        rows = matching(first.steps, status="ok")[times].merge(matching(second.steps, status="ok")[times], on=keys)
        ratios = rows.assign(ratio=rows.latency_s_y / rows.latency_s_x).pivot_table(
            index=["model", "batch"], columns="precision", values="ratio"
        )
        columns = [BASE_PRECISION, first.lower_precision]
        found.append((first, second, ratios.reindex(columns=columns).dropna()))
    if not found:
        return sourced(missing(StepPair), source)
    first, second, ratios = max(found, key=lambda one: len(one[2]))
    base, lower = (median_of(ratios[column]) for column in ratios)
    networks = count_of(len(ratios), "models")
    facts = StepPair(Name(first.name), Name(second.name), Name(first.lower_precision), networks, base, lower)
    return sourced(facts, source)


def published_steps(paper: Paper) -> PublishedSteps:
    rows, others = costs.published_ratios(paper), costs.ratios_across_releases(paper)
    medians = rows.groupby(["precision", "model"]).ratio.median().reset_index()
    steps = [median_of(matching(medians, precision=precision).ratio) for precision in ("fp32", "fp16")]
    networks = others.groupby("device").model.nunique()
    device = str(networks.idxmax()) if len(networks) else None
    other = matching(others, device=device or "").groupby("model").ratio.median()
    least, most = extremes(_by_gpu(rows), fewest=2)
    facts = PublishedSteps(
        count_of(rows.device.nunique(), "devices"), steps[0], steps[1], least, most,
        other_device=Name(device and short_name(device)), other=median_of(other),
        other_networks=count_of(len(other), "models"),
    )  # fmt: skip
    return sourced(facts, PUBLISHED)


def _by_gpu(rows: pd.DataFrame) -> pd.Series:
    """Return the median ratio by GPU and precision, of six networks or more."""
    cells = rows.assign(cell=rows.device.map(short_name) + " at " + rows.precision).groupby("cell")
    medians = cells.ratio.median()
    return medians[cells.model.nunique() >= FEWEST_MODELS]
