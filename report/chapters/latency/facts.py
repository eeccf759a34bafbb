"""The numbers of the chapter on latency."""

import numpy as np
import pandas as pd

from report.chapters.latency.timed import (
    COMMAND,
    Timed,
    common_batches,
    equal_flop,
    has_intervals,
    ranked_devices,
    throughput,
    timed_elsewhere,
    timed_gpu,
    timed_here,
)
from report.facts import Facts, missing, sourced
from report.paper import BASE_PRECISION, Paper, published
from report.paper.frames import each, matching
from report.paper.published import ALIKE_FLOP
from report.stats.correlations import fit_power_law, interval, rank_correlation, spearman, weights
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


def rank(rows: pd.DataFrame) -> Ranking:
    """Rank these rows by time per input with each predictor; resamples draw networks."""
    flop, parameters, layers = (
        rank_correlation(rows[column].astype(float), rows.input_s, rows.model)
        for column in ("flop", "parameters", "layers_s")
    )
    law = fit_power_law(rows.flop, rows.input_s, rows.model)
    return Ranking(
        count_of(rows.model.nunique(), "networks"),
        flop,
        parameters,
        layers,
        law.growth(2) if law else NOTHING,
        law.typical_factor if law else NOTHING,
    )


def lead(rows: pd.DataFrame) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of the bound's rank correlation with time minus that of FLOP, over the same networks."""
    rows = rows.dropna(subset="layers_s")
    if rows.empty:
        return None, None
    drawn = weights(tuple(rows.model))
    bound, flop = (
        spearman(rows[column].to_numpy(float), rows.input_s.to_numpy(float), drawn) for column in ("layers_s", "flop")
    )
    return interval(bound - flop, rows.model.nunique())


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
    """The reader's GPU at its largest batch size in the figures."""

    name: Name  #: The GPU.
    ranking: Ranking
    small: Value  #: Rank correlation of time and FLOP at the smallest batch size.
    batching: GpuBatching


class LatencyBoth(Facts):
    """The networks timed on both the reader's processor and GPU, at their smallest common batch size."""

    batch: Value  #: Batch size.
    least: Value  #: Least factor between the processor's time and the GPU's, with the network.
    most: Value  #: Largest factor between the processor's time and the GPU's, with the network.


class Agreement(Facts):
    """How alike a processor and a GPU order the networks timed on both, at one batch size."""

    batch: Value  #: Batch size.
    networks: Value  #: Networks timed on both.
    rho: Value  #: Spearman's rho of the times on the two devices.


class Orders(Facts):
    """The processor and the GPU of the matrix at their smallest and middle common batch sizes."""

    processor: Name  #: The processor, the reader's own if it shares enough networks with the GPU.
    gpu: Name  #: The GPU.
    small: Agreement
    middle: Agreement


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
    timings: Value  #: Their timings: some have several sizes of input.
    flop: Value  #: Spearman's rho of FLOP and time over all timings.
    bytes: Value  #: Spearman's rho of the layers' bytes and time over all timings.
    bound: Value  #: Spearman's rho of the layer-by-layer bound and time over all timings.


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
    orders: Orders
    batching: LatencyBatching
    equal: Equal
    advice: LatencyAdvice
    exception: Name  #: A device whose large batches FLOP rank better than the layer-by-layer bound, beyond doubt.
    deadline: Deadline
    reference: LatencyReference
    own_gpu: bool  #: A GPU was measured next to a processor
    both_faster: bool  #: The GPU was compared with the processor
    batching_rises: bool  #: The processor's throughput is highest at a larger batch than the first
    batching_falls: bool  #: The processor's throughput falls beyond its peak
    gpu_batches: bool  #: The GPU's throughput was compared at two batch sizes
    here_ranks: bool  #: FLOP rank the processor's smallest batches, and have a trend
    here_bound: bool  #: The bound ranks the processor's largest batches better than chance
    gpu_bound: bool  #: The bound ranks the GPU's largest batches better than chance
    orders_alike: bool  #: Processor and GPU order batches alike, better than chance
    flop_enough: bool  #: On the matrix's processor FLOP rank at least as well as bytes, at each batch size
    too_few: bool  #: On no device measured does the bound rank large batches better or worse than FLOP, beyond doubt
    gpu_fp32: bool  #: Times of a GPU at fp32 are shown
    single_apart: bool  #: Processor and GPU rank networks alike in batches, but not with one input
    releases_differ: bool  #: The processor and the GPU ran different releases of PyTorch
    has_intervals: bool  #: Times in the figures have intervals
    claims: dict[str, bool]


def of(paper: Paper) -> Latency:
    here, gpu, elsewhere = timed_here(paper), timed_gpu(paper), timed_elsewhere(paper)
    own = _source_of(here)
    reference = _reference(timed_here(paper.reference))
    ranked = ranked_devices(paper)
    found = sourced(_here(here) if here else missing(LatencyHere), own)
    of_gpu = _gpu(gpu) if gpu else missing(LatencyGpu)
    both = sourced(_both(here, gpu) if here and gpu else missing(LatencyBoth), _source_of(here, gpu))
    orders = sourced(_orders(*ranked) if len(ranked) > 1 else missing(Orders), _source_of(*ranked))
    batching = sourced(_batching(here) if here else missing(LatencyBatching), own)
    small, large, last = found.small, found.large, of_gpu.ranking
    here_bound, gpu_bound = (ranking.layers.above(0) and _are_known(ranking.flop) for ranking in (large, last))
    leads = [lead(timed.at(timed.batches[-1])) for timed in (here, gpu) if timed]
    return Latency(
        here=found,
        gpu=of_gpu,
        both=both,
        orders=orders,
        batching=batching,
        equal=sourced(_equal(elsewhere) if elsewhere else missing(Equal), published.SOURCE),
        advice=sourced(_advice(elsewhere) if elsewhere else missing(LatencyAdvice), published.SOURCE),
        exception=sourced(_exception(here, gpu), _source_of(here, gpu)),
        deadline=sourced(_deadline(here) if here else missing(Deadline), own),
        reference=reference,
        own_gpu=gpu is not None,
        both_faster=_are_known(both.least, both.most),
        batching_rises=_are_known(batching.peak_over_first),
        gpu_batches=_are_known(of_gpu.small, of_gpu.batching.least, of_gpu.batching.most),
        here_ranks=_are_known(small.flop, small.parameters, small.doubling, small.typical_factor),
        here_bound=here_bound,
        gpu_bound=gpu_bound,
        batching_falls=batching.last_over_peak.below(1),
        orders_alike=orders.middle.rho.above(0),
        flop_enough=bool(ranked) and _is_flop_enough(ranked[0]),
        too_few=(here_bound or gpu_bound)
        and all(low is None or high is None or low <= 0 <= high for low, high in leads),
        gpu_fp32=any(timed and timed.kind == "GPU" for timed in (here, gpu)),
        single_apart=_is_single_apart(orders),
        releases_differ=_do_releases_differ(paper),
        has_intervals=has_intervals(here) or has_intervals(gpu),
        claims={"parameters_mislead": (reference.parameter_ratio.number or 0) > 1 and reference.speed_ratio.above()},
    )


def _do_releases_differ(paper: Paper) -> bool:
    machines = paper.machine("cpu"), paper.machine("gpu")
    releases = {machine.environment.torch for machine in machines if machine}
    return None not in releases and len(releases) > 1


def _are_known(*values: Value) -> bool:
    return not any(value.is_missing for value in values)


def _source_of(*devices: Timed | None) -> Source:
    tables = " and ".join(timed.source.table for timed in devices if timed)
    return Source(tables or "machines", f"inference, eager, {BASE_PRECISION}", COMMAND)


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
    first, last = timed.batches[0], timed.batches[-1]
    ranking, small, batching = rank(timed.at(last)), NOTHING, missing(GpuBatching)
    if first != last:
        small = rank(timed.at(first)).flop
        rates = timed.rows.pivot_table(index="name", columns="batch", values="throughput_per_s")
        gained = (rates[last] / rates[first]).dropna()
        counted = count_of(len(gained), "networks")
        batching = GpuBatching(exact(first), exact(last), counted, *extremes(gained, fewest=2))
    return sourced(LatencyGpu(Name(timed.name), ranking, small, batching), timed.source)


def _pairs(processor: Timed, gpu: Timed) -> list[tuple[int, pd.DataFrame]]:
    """Return the smallest and the middle common batch size, each with the networks timed on both devices."""
    sizes = common_batches([processor, gpu])
    chosen = dict.fromkeys((sizes[0], sizes[len(sizes) // 2])) if sizes else []
    keys = ["model", "input_shape"]
    return [(size, processor.at(size).merge(gpu.at(size), on=keys, suffixes=("", "_gpu"))) for size in chosen]


def _both(here: Timed, gpu: Timed) -> LatencyBoth:
    pairs = _pairs(here, gpu)
    if not pairs:
        return missing(LatencyBoth)
    batch, times = pairs[0]
    factors = (times.input_s / times.input_s_gpu).set_axis(times.name)
    return LatencyBoth(exact(batch), *extremes(factors, fewest=2))


def _orders(processor: Timed, gpu: Timed) -> Orders:
    def agreement(batch: int, times: pd.DataFrame) -> Agreement:
        rho = rank_correlation(times.input_s, times.input_s_gpu, times.model)
        return Agreement(exact(batch), count_of(len(times), "networks"), rho)

    found = [agreement(*pair) for pair in _pairs(processor, gpu)]
    both = [*found, missing(Agreement), missing(Agreement)][:2]
    return Orders(Name(processor.name), Name(gpu.name), *both)


def _is_single_apart(orders: Orders) -> bool:
    low = orders.small.rho.low
    return orders.middle.rho.above(RANKED) and low is not None and low <= 0


def _is_flop_enough(timed: Timed) -> bool:
    found = [timed.at(batch) for batch in timed.batches]
    flop, traffic = (
        [rank_correlation(rows[column], rows.input_s, rows.model) for rows in found]
        for column in ("flop", "traffic_byte")
    )
    return all(
        one.above(0) and (one.number or 0) >= (other.number or 0) for one, other in zip(flop, traffic, strict=True)
    )


def _exception(*found: Timed | None) -> Name:
    for timed in filter(None, found):
        _, high = lead(timed.at(timed.batches[-1]))
        if high is not None and high < 0:
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
        count_of(rows.model.nunique(), "networks"), count_of(len(rows), "timings"), flop, traffic, bound,
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
        rate=throughput(largest),
        best=exact(int(best.batch)),
        best_rate=throughput(best),
    )


def _reference(timed: Timed | None) -> LatencyReference:
    if timed is None:
        return missing(LatencyReference)
    alexnet, densenet = (next(each(matching(timed.at(1), model=model)), None) for model in (ALEXNET, DENSENET))
    found = LatencyReference(
        parameter_ratio=exact(alexnet.parameters / densenet.parameters) if alexnet and densenet else NOTHING,
        speed_ratio=ratio(estimated(densenet, "latency_s", "s"), estimated(alexnet, "latency_s", "s")),
    )
    return sourced(found, timed.source)
