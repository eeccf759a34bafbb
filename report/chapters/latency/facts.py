"""The numbers of the chapter on latency."""

from typing import Any

import numpy as np
import pandas as pd

from report.chapters.latency.timed import (
    COMMAND,
    Timed,
    common_batches,
    equal_flop,
    has_intervals,
    timed_elsewhere,
    timed_gpu,
    timed_here,
)
from report.facts import Facts, missing, sourced
from report.paper import Paper, published
from report.paper.frames import each, matching
from report.paper.published import ALIKE_FLOP
from report.stats.correlations import fit_power_law, rank_correlation, spearman
from report.stats.value import NOTHING, Name, Source, Value, count_of, estimated, exact, extremes, median_of, ratio

DEADLINE_S, FAMILY = 1.0, 8
"""The deadline of a batch in the second problem, and the fewest networks of a family with an order."""

RANKED = 0.5
"""Two orders agree if the interval of their rank correlation is above this."""

RESNET, ALEXNET, DENSENET = "resnet18", "alexnet", "densenet121"


class Ranking(Facts):
    """How well counted quantities rank networks by their time on a device, and how far off they are as estimates."""

    networks: Value  #: Networks timed.
    flop: Value  #: Spearman's rho of FLOP and time.
    parameters: Value  #: Spearman's rho of parameters and time.
    layers: Value  #: Spearman's rho of the layer-by-layer bound and time.
    doubling: Value  #: Factor of time for twice the FLOP, by the trend.
    typical_factor: Value  #: Median factor between a network's time and the trend over FLOP.
    layers_doubling: Value  #: Factor of time for twice the layer-by-layer bound, by the trend.
    layers_factor: Value  #: Median factor between a time and the trend over the layer-by-layer bound.


def rank(rows: pd.DataFrame) -> Ranking:
    """Rank these rows by time per input with each predictor; resamples draw networks."""
    rho = (
        rank_correlation(rows[column].astype(float), rows.input_s, rows.model)
        for column in ("flop", "parameters", "layers_s")
    )
    trends = []
    for column in ("flop", "layers_s"):
        law = fit_power_law(rows[column].astype(float), rows.input_s, rows.model)
        trends += [law.growth(2), law.typical_factor] if law else [NOTHING, NOTHING]
    return Ranking(count_of(rows.model.nunique(), "networks"), *rho, *trends)


class LatencyHere(Facts):
    name: Name  #: Processor of the machine.
    first: Value  #: Smallest batch size in the figures.
    last: Value  #: Largest batch size in the figures.
    fastest: Value  #: Shortest latency at the smallest batch, with the network.
    slowest: Value  #: Longest latency at the smallest batch, with the network.
    small: Ranking
    large: Ranking
    fourfold: Value  #: Factor of time for four times the FLOP at the smallest batch, by the trend.


class GpuBatching(Facts):
    """Throughput of the reader's GPU at its largest batch size in the figures over its smallest."""

    first: Value  #: Smallest batch size in the figures.
    last: Value  #: Largest batch size in the figures.
    networks: Value  #: Networks timed at both.
    least: Value  #: Least gain in throughput from the largest batch, with the network.
    most: Value  #: Largest gain in throughput from the largest batch, with the network.


class LatencyGpu(Facts):
    """The reader's GPU at its largest batch size in the figures, or the published GPU."""

    name: Name  #: The GPU.
    precision: Name  #: Precision of the GPU's products.
    ranking: Ranking
    small: Value  #: Rank correlation of time and FLOP at the smallest batch size of the reader's GPU.
    batching: GpuBatching


class TimedPair(Facts):
    """The networks timed on both the reader's processor and GPU, at one batch size."""

    batch: Value  #: Batch size.
    networks: Value  #: Networks timed on both.
    rho: Value  #: Spearman's rho of the times on the two devices.
    least: Value  #: Least factor between the processor's time and the GPU's, with the network.
    most: Value  #: Largest factor between the processor's time and the GPU's, with the network.


class LatencyBoth(Facts):
    """The reader's processor and GPU at their smallest, middle and largest common batch sizes."""

    small: TimedPair
    middle: TimedPair
    large: TimedPair


class LatencyBatching(Facts):
    """Throughput over the batch sizes that half of the networks have. A ratio is over all networks with both sizes."""

    first: Value  #: Smallest batch size.
    peak: Value  #: Batch size with the highest median throughput, relative to the smallest batch.
    last: Value  #: Largest batch size.
    peak_over_first: Value  #: Throughput at the peak over the throughput at the smallest batch, if they differ.
    peak_networks: Value  #: Networks timed at the smallest batch and the peak.
    last_over_peak: Value  #: Throughput at the largest batch over the throughput at the peak, if they differ.
    last_networks: Value  #: Networks timed at the peak and the largest batch.


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
    """Ranks of the networks on the published GPU, each network at its own batch size."""

    families: Value  #: Families with enough timed networks.
    family_flop: Value  #: Median Spearman's rho of FLOP and time within a family.
    family_bytes: Value  #: Median Spearman's rho of the layers' bytes and time within a family.
    networks: Value  #: All networks timed.
    flop: Value  #: Spearman's rho of FLOP and time over all networks.
    bytes: Value  #: Spearman's rho of the layers' bytes and time over all networks.
    bound: Value  #: Spearman's rho of the layer-by-layer bound and time over all networks.


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
    both: LatencyBoth
    batching: LatencyBatching
    equal: Equal
    advice: LatencyAdvice
    exception: Name  #: A device measured here whose large batches FLOP rank better than the layer-by-layer bound.
    deadline: Deadline
    reference: LatencyReference
    own_gpu: bool  #: A GPU was measured next to a processor
    bound_ranks: bool  #: The bound ranks the largest batches in the first figure better than chance
    gpu_fp32: bool  #: Times of a GPU at fp32 are shown
    single_apart: bool  #: Processor and GPU rank networks alike in batches, but not with one input
    here_intervals: bool  #: Times in the first figure have intervals
    gpu_intervals: bool  #: Times on the reader's GPU have intervals
    claims: dict[str, bool]


def of(paper: Paper) -> Latency:
    here, own_gpu, elsewhere = timed_here(paper), timed_gpu(paper), timed_elsewhere(paper)
    gpu = own_gpu or elsewhere
    own = here.source if here else Source("machines", command=COMMAND)
    reference = _reference(timed_here(paper.reference))
    both = sourced(_both(here, own_gpu), own)
    found = sourced(_here(here) if here else missing(LatencyHere), own)
    return Latency(
        here=found,
        gpu=_gpu(gpu) if gpu else missing(LatencyGpu),
        both=both,
        batching=sourced(_batching(here) if here else missing(LatencyBatching), own),
        equal=sourced(_equal(elsewhere) if elsewhere else missing(Equal), published.SOURCE),
        advice=sourced(_advice(elsewhere) if elsewhere else missing(LatencyAdvice), published.SOURCE),
        exception=sourced(_exception(here, own_gpu), own),
        deadline=sourced(_deadline(here) if here else missing(Deadline), own),
        reference=reference,
        own_gpu=own_gpu is not None,
        bound_ranks=found.large.layers.above(0),
        gpu_fp32=any(timed and timed.kind == "GPU" for timed in (here, own_gpu)),
        single_apart=_is_single_apart(both),
        here_intervals=has_intervals(here),
        gpu_intervals=has_intervals(own_gpu),
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
        first=exact(small),
        last=exact(large) if large != small else NOTHING,
        fastest=fastest if len(rows) > 1 else NOTHING,
        slowest=slowest if len(rows) > 1 else NOTHING,
        small=rank(rows),
        large=rank(timed.at(large)) if large != small else missing(Ranking),
        fourfold=law.growth(4) if law else NOTHING,
    )


def _gpu(timed: Timed) -> LatencyGpu:
    ranking, small, batching = rank(timed.at(None)), NOTHING, missing(GpuBatching)
    if timed.batches:
        ranking = rank(timed.at(timed.batches[-1]))
    if len(timed.batches) > 1:
        first, last = timed.batches[0], timed.batches[-1]
        small = rank(timed.at(first)).flop
        rates = timed.rows.pivot_table(index="name", columns="batch", values="throughput_per_s")
        gained = (rates[last] / rates[first]).dropna()
        counted = count_of(len(gained), "networks")
        batching = GpuBatching(exact(first), exact(last), counted, *extremes(gained, fewest=2))
    found = LatencyGpu(Name(timed.name), Name(timed.precision), ranking, small, batching)
    return sourced(found, timed.source)


def _both(here: Timed | None, gpu: Timed | None) -> LatencyBoth:
    sizes = common_batches([here, gpu]) if here and gpu else []
    if not here or not gpu or not sizes:
        return missing(LatencyBoth)

    def pair(batch: int) -> TimedPair:
        times = here.at(batch).merge(gpu.at(batch), on=["model", "input_shape"], suffixes=("", "_gpu"))
        faster = (times.input_s / times.input_s_gpu).set_axis(times.name)
        rho = rank_correlation(times.input_s, times.input_s_gpu, times.model)
        return TimedPair(exact(batch), count_of(len(times), "networks"), rho, *extremes(faster, fewest=2))

    small, middle, large = sizes[0], sizes[len(sizes) // 2], sizes[-1]
    return LatencyBoth(
        small=pair(small),
        middle=pair(middle) if middle != small else missing(TimedPair),
        large=pair(large) if large != middle else missing(TimedPair),
    )


def _is_single_apart(both: LatencyBoth) -> bool:
    low = both.small.rho.low
    return both.middle.rho.above(RANKED) and not both.large.rho.is_missing and low is not None and low <= 0


def _exception(*found: Timed | None) -> Name:
    for timed in filter(None, found):
        ranking = rank(timed.at(timed.batches[-1]))
        if (ranking.layers.number or 0) < (ranking.flop.number or 0):
            return Name(timed.name)
    return Name(None)


def _batching(timed: Timed) -> LatencyBatching:
    rates = timed.rows.pivot_table(index="model", columns="batch", values="throughput_per_s")
    rates = rates.loc[:, 2 * rates.notna().sum() >= len(rates)]  # sizes that half of the networks have
    if len(rates.columns) < 2:
        return missing(LatencyBatching)
    first, *_, last = rates.columns
    peak = rates.div(rates[first], axis=0).median().idxmax()
    rise = median_of(rates[peak] / rates[first]) if peak != first else NOTHING
    fall = median_of(rates[last] / rates[peak]) if peak != last else NOTHING
    return LatencyBatching(
        first=exact(first),
        peak=exact(peak),
        last=exact(last),
        peak_over_first=rise,
        peak_networks=count_of(rise.count, "networks"),
        last_over_peak=fall,
        last_networks=count_of(fall.count, "networks"),
    )


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
    rows = timed.rows.dropna(subset="layers_s")  # so that all three rank the same networks
    large = rows.groupby("family").filter(lambda family: family.model.nunique() >= FAMILY).groupby("family")

    def within(column: str) -> Value:
        pairs = [(family[column].to_numpy(float), family.input_s.to_numpy(float)) for _, family in large]
        return median_of((float(spearman(*pair, np.ones((len(pair[0]), 1)))[0]) for pair in pairs), counted="families")

    flop, traffic, bound = (
        rank_correlation(rows[column], rows.input_s, rows.model) for column in ("flop", "traffic_byte", "layers_s")
    )
    return LatencyAdvice(
        count_of(len(large), "families"), within("flop"), within("traffic_byte"),
        count_of(rows.model.nunique(), "networks"), flop, traffic, bound,
    )  # fmt: skip


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
