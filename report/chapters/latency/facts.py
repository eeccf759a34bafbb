"""The numbers of the chapter on latency, and the timings that its figures and tables share."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from measure.domain.names import model_name
from measure.domain.roofs import Roofline
from report.facts import Facts, missing, sourced
from report.options import measure_command
from report.paper import BASE_PRECISION, Machine, Paper, published
from report.paper.chips import short_name
from report.paper.frames import each, matching
from report.paper.published import ALIKE_FLOP
from report.stats.correlations import fit_power_law, rank_correlation, spearman
from report.stats.value import NOTHING, Name, Source, Value, count_of, estimated, exact, median_of, ratio

BATCHES = (1, 64, 256)
"""The batch sizes of the figures; else the smallest, middle and largest that half of the networks have."""

PREDICTORS = {
    "flop": "FLOP", "parameters": "parameters", "activation_byte": "activations", "traffic_byte": "bytes, layers",
    "network_s": "roofline, network", "layers_s": "roofline, layers",
}  # fmt: skip
"""Predictors of a network's time, column to name; all but the parameters are per input."""

DEADLINE_S, FAMILY = 1.0, 8
"""The deadline of a batch in the second problem, and the fewest networks of a family with an order."""

RESNET, ALEXNET, DENSENET = "resnet18", "alexnet", "densenet121"
COMMAND = measure_command("--sections inference --batch-sizes 1 8 64 256")


@dataclass(frozen=True, eq=False)
class Timed:
    """Networks timed on one device in eager mode. A row is a network at a batch size (and input size).

    ``rows`` has ``model``, ``name``, ``label`` (the name, empty for an identifier), ``batch``, the columns of
    ``PREDICTORS`` (bytes at ``precision``), ``latency_s`` of a call with its ends ``latency_low_s`` and
    ``latency_high_s``, ``input_s`` (the time of one input) and ``throughput_per_s``. ``batches`` are in
    the figures: none if each network has its own batch size.
    """

    name: str
    precision: str
    rows: pd.DataFrame
    source: Source
    batches: tuple[int, ...] = ()
    roof: Roofline | None = None

    def at(self, batch: int | None) -> pd.DataFrame:
        """Return the rows at a batch size; None: all rows."""
        return matching(self.rows, batch=batch)


@cache
def timed_here(paper: Paper) -> Timed | None:
    """Return the timings of the reader's CPU, else of the machine at hand."""
    machine = paper.machine("cpu") or paper.at_hand
    return None if machine is None else _of_machine(machine)


@cache
def timed_gpu(paper: Paper) -> Timed | None:
    """Return the timings of the reader's GPU; the published ones without one, or if it is the machine at hand."""
    machine = paper.machine("gpu")
    own = None if machine is None or paper.machine("cpu") is None else _of_machine(machine)
    return own or timed_elsewhere(paper)


def _of_machine(machine: Machine) -> Timed | None:
    cells = matching(machine.cells, status="ok", precision=BASE_PRECISION)
    cells = cells[cells.forward_flop.notna()]  # times are compared with counts
    if cells.empty:
        return None
    by_batch = {
        "flop": "forward_flop", "activation_byte": "activation_byte", "traffic_byte": "traffic_byte",
        "network_s": "model_bound_s", "layers_s": "operator_bound_s", "input_s": "latency_s",
    }  # fmt: skip
    rows = cells.assign(
        name=cells.model.map(model_name),
        label=cells.model.map(model_name),
        parameters=cells.parameter_count,
        **{column: cells[total] / cells.batch for column, total in by_batch.items()},
    )
    networks = rows.groupby("batch").model.nunique()
    sizes = [int(size) for size in networks[2 * networks >= networks.max()].index]
    ends = tuple(dict.fromkeys((sizes[0], sizes[len(sizes) // 2], sizes[-1])))
    batches = BATCHES if set(BATCHES) <= set(sizes) else ends
    source = Source(f"machines/{machine.folder}/samples.csv", f"inference, eager, {BASE_PRECISION}", COMMAND)
    return Timed(machine.name, BASE_PRECISION, rows, source, batches, machine.roof(BASE_PRECISION))


def timed_elsewhere(paper: Paper) -> Timed | None:
    """Return the published timings of the GPU with the most networks timed in eager mode."""
    best = published.best_timed(paper.published)
    if best is None:
        return None
    rows, names = best.rows, best.rows.model.map(published.network_name)
    rows = rows.assign(
        name=names,
        label=names.where(names != rows.model.str.removeprefix("timm:"), ""),
        flop=rows.flop / rows.batch,
        parameters=rows.parameter_count.astype(float),
        activation_byte=rows.width * rows.activation_byte.astype(float),
        traffic_byte=rows.layers_byte / rows.batch,
        network_s=rows.whole_s / rows.batch,
        layers_s=rows.layers_s / rows.batch,
        latency_low_s=float("nan"),
        latency_high_s=float("nan"),
    )
    return Timed(short_name(best.device), best.computed, rows, published.SOURCE, roof=best.roof)


class Ranking(Facts):
    """How well counted quantities rank networks by their time on a device, and how far off they are as estimates."""

    networks: Value  #: Networks timed.
    flop: Value  #: Spearman's rho of FLOP and time.
    parameters: Value  #: Spearman's rho of parameters and time.
    roofline: Value  #: Spearman's rho of the least time by the roofline of the whole network, and time.
    layers: Value  #: Spearman's rho of the least time by the roofline layer by layer, and time.
    doubling: Value  #: Factor of time for twice the FLOP, by the trend.
    typical_factor: Value  #: Typical factor between a network's time and the trend over FLOP.
    layers_doubling: Value  #: Factor of time for twice the least time layer by layer, by the trend.
    layers_factor: Value  #: Typical factor between a time and the trend over the least time layer by layer.


def rank(rows: pd.DataFrame) -> Ranking:
    """Rank these rows by time per input with each predictor; resamples draw networks."""
    rho = (
        rank_correlation(rows[column].astype(float), rows.input_s, rows.model)
        for column in ("flop", "parameters", "network_s", "layers_s")
    )
    trends = []
    for column in ("flop", "layers_s"):
        law = fit_power_law(rows[column].astype(float), rows.input_s, rows.model)
        trends += [law.growth(2), law.typical_factor] if law else [NOTHING, NOTHING]
    return Ranking(count_of(rows.model.nunique(), "networks"), *rho, *trends)


class LatencyHere(Facts):
    name: Name  #: Processor of the machine.
    fastest: Value  #: Shortest latency at the smallest batch, with the network.
    slowest: Value  #: Longest latency at the smallest batch, with the network.
    small: Ranking
    large: Ranking
    fourfold: Value  #: Factor of time for four times the FLOP at the smallest batch, by the trend.


class LatencyGpu(Facts):
    """The reader's GPU at its largest batch size shown, or the published GPU."""

    name: Name  #: The GPU.
    precision: Name  #: Precision of the GPU's products.
    ranking: Ranking
    small: Value  #: Rank correlation of time and FLOP at the smallest batch size of the reader's GPU.


class LatencyBatching(Facts):
    """Throughput over batch sizes, for the networks timed at all common sizes."""

    first: Value  #: Smallest common batch size.
    peak: Value  #: Common batch size with the highest typical throughput.
    last: Value  #: Largest common batch size.
    peak_over_first: Value  #: Throughput at the peak over the throughput at the smallest batch.
    last_over_peak: Value  #: Throughput at the largest batch over the throughput at the peak, if they differ.


class Network(Facts):
    """One of two published networks of nearly equal FLOP."""

    name: Name  #: The fastest or slowest network.
    flop: Value  #: FLOP of an image.
    traffic: Value  #: Bytes that the layers read and write for an image.
    arithmetic: Value  #: Least time of the FLOP at the GPU's peak.
    memory: Value  #: Least time of the bytes at the GPU's bandwidth.
    measured: Value  #: Published time of an image.


class Equal(Facts):
    """Published networks of one input size with nearly the same FLOP."""

    gpu: Name  #: GPU that was timed.
    low: Value  #: Least FLOP of the range.
    high: Value  #: Most FLOP of the range.
    networks: Value  #: Networks in the range.
    spread: Value  #: Time of the slowest network over the time of the fastest.
    traffic: Value  #: Spearman's rho of traffic and time among them.
    flop: Value  #: Spearman's rho of FLOP and time among them.
    peak: Value  #: The GPU's peak.
    bandwidth: Value  #: The GPU's bandwidth.
    fast: Network
    slow: Network


class LatencyAdvice(Facts):
    families: Value  #: Families with enough timed networks.
    family_flop: Value  #: Typical Spearman's rho of FLOP and time within a family.
    family_bytes: Value  #: Typical Spearman's rho of the layers' bytes and time within a family.
    flop: Value  #: Spearman's rho of FLOP and time over all networks.
    bytes: Value  #: Spearman's rho of the layers' bytes and time over all networks.
    longer: Value  #: Spearman's rho of time and the longer of FLOP by peak and bytes by bandwidth.


class Deadline(Facts):
    name: Name  #: The network with a deadline of a second for each batch.
    batch: Value  #: Largest batch size within the deadline.
    rate: Value  #: Throughput at the largest batch size within the deadline.
    best: Value  #: Batch size with the highest throughput within the deadline.
    best_rate: Value  #: The highest throughput within the deadline.


class LatencyReference(Facts):
    parameter_ratio: Value  #: Parameters of AlexNet over the parameters of DenseNet-121.
    speed_ratio: Value  #: Latency of DenseNet-121 over the latency of AlexNet at batch 1.


class Latency(Facts):
    here: LatencyHere
    gpu: LatencyGpu
    batching: LatencyBatching
    equal: Equal
    advice: LatencyAdvice
    deadline: Deadline
    reference: LatencyReference
    claims: dict[str, bool]


def of(paper: Paper) -> Latency:
    here, gpu, elsewhere = timed_here(paper), timed_gpu(paper), timed_elsewhere(paper)
    own = here.source if here else Source("machines", command=COMMAND)
    reference = _reference(timed_here(paper.reference))
    return Latency(
        here=sourced(_here(here) if here else missing(LatencyHere), own),
        gpu=_gpu(gpu) if gpu else missing(LatencyGpu),
        batching=sourced(_batching(here) if here else missing(LatencyBatching), own),
        equal=sourced(_equal(elsewhere) if elsewhere else missing(Equal), published.SOURCE),
        advice=sourced(_advice(elsewhere) if elsewhere else missing(LatencyAdvice), published.SOURCE),
        deadline=sourced(_deadline(here) if here else missing(Deadline), own),
        reference=reference,
        claims={"parameters_mislead": (reference.parameter_ratio.number or 0) > 1 and reference.speed_ratio.above()},
    )


def _here(timed: Timed) -> LatencyHere:
    small, large = timed.batches[0], timed.batches[-1]
    rows = timed.at(small)
    ends = rows.sort_values("latency_s").iloc[[0, -1]]
    fastest, slowest = (estimated(row, "latency_s", "s", row.label) for row in each(ends))
    law = fit_power_law(rows.flop, rows.latency_s, rows.model)
    return LatencyHere(
        name=Name(timed.name),
        fastest=fastest if len(rows) > 1 else NOTHING,
        slowest=slowest if len(rows) > 1 else NOTHING,
        small=rank(rows),
        large=rank(timed.at(large)) if large != small else missing(Ranking),
        fourfold=law.growth(4) if law else NOTHING,
    )


def _gpu(timed: Timed) -> LatencyGpu:
    ranking = rank(timed.at(timed.batches[-1] if timed.batches else None))
    small = rank(timed.at(timed.batches[0])).flop if len(timed.batches) > 1 else NOTHING
    found = LatencyGpu(Name(timed.name), Name(timed.precision), ranking, small)
    return sourced(found, timed.source)


def _batching(timed: Timed) -> LatencyBatching:
    rates = timed.rows.pivot_table(index="model", columns="batch", values="throughput_per_s")
    rates = rates.loc[:, 2 * rates.notna().sum() >= len(rates)].dropna()  # sizes that half of the networks have
    if rates.empty or len(rates.columns) < 2:
        return missing(LatencyBatching)
    first, *_, last = rates.columns
    peak = rates.div(rates[first], axis=0).median().idxmax()
    return LatencyBatching(
        first=exact(first),
        peak=exact(peak),
        last=exact(last),
        peak_over_first=median_of(rates[peak] / rates[first]),
        last_over_peak=median_of(rates[last] / rates[peak]) if peak != last else NOTHING,
    )


def equal_flop(timed: Timed) -> pd.DataFrame:
    """Return the networks within ``ALIKE_FLOP`` at the most frequent shape of input, the fastest first."""
    usual = timed.rows.input_shape.mode().iloc[0]
    return timed.rows[timed.rows.flop.between(*ALIKE_FLOP) & (timed.rows.input_shape == usual)].sort_values("input_s")


def _equal(timed: Timed) -> Equal:
    rows, roof = equal_flop(timed), timed.roof
    if rows.empty or roof is None:
        return missing(Equal)
    ends = [
        Network(
            name=Name(row["name"]),
            flop=exact(row.flop, "FLOP"),
            traffic=exact(row.traffic_byte, "B"),
            arithmetic=exact(row.flop / roof.peak_flop_per_s, "s"),
            memory=exact(row.traffic_byte / roof.bandwidth_byte_per_s, "s"),
            measured=exact(row.input_s, "s"),
        )
        for row in (rows.iloc[0], rows.iloc[-1])
    ]
    return Equal(
        gpu=Name(timed.name),
        low=exact(ALIKE_FLOP[0], "FLOP"),
        high=exact(ALIKE_FLOP[1], "FLOP"),
        networks=count_of(len(rows), "networks"),
        spread=exact(rows.input_s.iloc[-1] / rows.input_s.iloc[0]),
        traffic=rank_correlation(rows.traffic_byte, rows.input_s, rows.model),
        flop=rank_correlation(rows.flop, rows.input_s, rows.model),
        peak=exact(roof.peak_flop_per_s, "FLOP/s"),
        bandwidth=exact(roof.bandwidth_byte_per_s, "B/s"),
        fast=ends[0],
        slow=ends[1],
    )


def _advice(timed: Timed) -> LatencyAdvice:
    if timed.roof is None:
        return missing(LatencyAdvice)
    rows = timed.rows.assign(longer=timed.roof.least_s(timed.rows.flop, timed.rows.traffic_byte))
    rows = rows.dropna(subset="longer")  # so that all three rank the same networks
    large = rows.groupby("family").filter(lambda family: family.model.nunique() >= FAMILY).groupby("family")

    def within(column: str) -> Value:
        pairs = [(family[column].to_numpy(float), family.input_s.to_numpy(float)) for _, family in large]
        return median_of((float(spearman(*pair, np.ones((len(pair[0]), 1)))[0]) for pair in pairs), counted="families")

    flop, traffic, longer = (
        rank_correlation(rows[column], rows.input_s, rows.model) for column in ("flop", "traffic_byte", "longer")
    )
    return LatencyAdvice(
        count_of(len(large), "families"), within("flop"), within("traffic_byte"), flop, traffic, longer
    )


def _deadline(timed: Timed) -> Deadline:
    """Find the batches of ResNet-18 within the deadline; without it, of the network with the most batch sizes."""
    counts = timed.rows.groupby("model").batch.nunique()
    model = RESNET if RESNET in counts else counts.idxmax()
    rows = matching(timed.rows, model=model).sort_values("batch")
    rows = rows[rows.latency_s <= DEADLINE_S]
    if len(rows) < 2:
        return missing(Deadline)
    largest, best = rows.iloc[-1], rows.sort_values("throughput_per_s").iloc[-1]
    return Deadline(
        name=Name(largest["name"]),
        batch=exact(int(largest.batch)),
        rate=_rate(largest),
        best=exact(int(best.batch)),
        best_rate=_rate(best),
    )


def _rate(row: Any) -> Value:
    calls = estimated(row, "latency_s")
    low, high = (None if end is None else float(row.batch / end) for end in (calls.high, calls.low))
    return Value(float(row.throughput_per_s), low=low, high=high, counted="samples")


def _reference(timed: Timed | None) -> LatencyReference:
    if timed is None:
        return missing(LatencyReference)
    alexnet, densenet = (next(each(matching(timed.at(1), model=model)), None) for model in (ALEXNET, DENSENET))
    found = LatencyReference(
        parameter_ratio=exact(alexnet.parameters / densenet.parameters) if alexnet and densenet else NOTHING,
        speed_ratio=ratio(estimated(densenet, "latency_s", "s"), estimated(alexnet, "latency_s", "s")),
    )
    return sourced(found, timed.source)
