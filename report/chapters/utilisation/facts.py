"""The numbers of the chapter on utilisation: the roofs, how much of them networks reach, and the causes of the gap."""

from dataclasses import replace
from functools import cache
from math import inf
from typing import Any

import pandas as pd

from measure.domain.advice import SYSTEM_SHARE
from measure.domain.chips import reachable_peak
from measure.domain.names import model_name
from measure.domain.statistics import FEWEST_MODELS
from measure.domain.words import EAGER
from report.chapters.utilisation.achieved import (
    Achieved,
    Halved,
    KernelGap,
    Profiled,
    achieved,
    halved,
    kernels,
    of_gpu,
    profiled,
)
from report.chapters.utilisation.gap import (
    KEPT,
    base_cells,
    batch_sizes,
    batching_of,
    devices,
    gains_of,
    gap_terms,
    is_reference,
    kept_terms,
    of_most,
    rest_shares,
    stream_rates,
)
from report.display import DRAWN
from report.facts import Facts, missing, of_chapter, source_of, sourced
from report.paper import BASE_PRECISION, REFERENCE, Machine, Paper
from report.paper.chips import chip_named, roof_of
from report.paper.frames import each, highest, matching
from report.paper.roofs import STREAMS, sustained
from report.stats.correlations import rank_correlation
from report.stats.value import Name, Source, Value, count_of, estimated, exact, extremes, median_of, ratio

EXAMPLE = "mobilenet_v2"
DEPTHWISE = "depthwise convolution"
FAR_LESS = 4  # a batch N times as large takes less than N / 4 times as long
PAGE_BYTE = 4096  # a page of memory on x86 under Linux


class Roofs(Facts):
    machine: Name  #: The machine at hand.
    peak: Value  #: The measured peak at fp32.
    lower: Name  #: The lower precision, compared with fp32.
    lower_gain: Value  #: The measured peak at the lower precision over the peak at fp32.
    bandwidth: Value  #: The measured bandwidth of memory.
    ridge: Value  #: The ridge point at fp32.
    cache_gain: Value  #: Bandwidth of the fastest cache over the bandwidth of memory.


class Gap(Facts):
    """The terms of the latency in the profiled networks, if the machine at hand is a processor."""

    batch: Value  #: The batch size of the gap: the largest with enough profiled networks.
    networks: Value  #: Networks profiled at the batch size of the gap.
    between: Value  #: Least time layer by layer over the whole network's: the cost of bytes between layers.
    system: Value  #: Share of the latency in the operating system.
    rest: Value  #: Share of the latency that remains: kernels below their roof, and the framework.
    first_batch: Value  #: The smallest batch size that was profiled.
    first_system: Value  #: The operating system's share at the smallest profiled batch size.
    drift: Value  #: Time of a plain call in the profiled process over the latency of the cell.


class UtilisationBatching(Facts):
    first: Value  #: The batch size to compare with.
    last: Value  #: The batch size of the gap.
    eager: Value  #: Throughput at the batch size of the gap over the batch size before, by default.
    kept: Value  #: The same ratio of throughputs with freed memory kept.
    losing: Value  #: Networks that lose throughput between these batch sizes, by default.
    of: Value  #: Networks measured at both batch sizes.


class Gains(Facts):
    batch: Value  #: The batch size of the gap.
    kept: Value  #: Speed with freed memory kept over eager mode, at the batch size of the gap.
    kept_high: Value  #: The same, of the profiled networks whose system's share is above the threshold of the advice.
    kept_surely: Value  #: Networks that gain from keeping memory with their whole interval.
    kept_of: Value  #: Networks measured with memory kept and in eager mode.
    kept_most: Value  #: The largest gain from keeping memory, with its network.
    excess: Value  #: The measured gain over the expected one.
    checked: Value  #: Profiled networks that also ran with memory kept, at the batch size of the gap.
    met: Value  #: Networks of these whose measured gain is 1 / (1 - share) or more.
    excess_low: Value  #: The measured gain over the expected one, in the half of the networks with the smaller shares.
    excess_high: Value  #: The measured gain over the expected one, in the half with the larger shares.
    agreement: Value  #: Rank correlation of the system's share with the gain, over all profiled cells.
    first: Value  #: The gain from keeping memory at the smallest batch size.
    first_expected: Value  #: The gain expected at the smallest batch size from the operating system's share.
    lower: Value  #: Speed at the lower precision over fp32, at the batch size of the gap.
    lower_kept: Value  #: Speed at the lower precision over fp32 with freed memory kept at both.
    both: Value  #: Speed at the lower precision with memory kept, over eager mode at fp32.


class UtilisationExample(Facts):
    network: Name  #: The network of the worked example.
    batch: Value  #: Its batch size.
    peak: Value  #: The peak, to the digits of the calculation.
    bandwidth: Value  #: The bandwidth of memory, to the digits of the calculation.
    flop: Value  #: FLOP of the example at the batch size of the gap.
    arithmetic: Value  #: Time of these FLOP at the peak.
    byte: Value  #: Compulsory bytes of the example: parameters, inputs, outputs.
    transfer: Value  #: Time of the compulsory bytes at the bandwidth of memory.
    traffic: Value  #: Bytes that the operators of the example read and write.
    layers: Value  #: Least time of the example operator by operator.
    latency: Value  #: Measured latency of the example.
    system: Value  #: The time in the operating system, or without a running kernel.
    faults: Value  #: The page faults of a call.
    others: Value  #: Other networks profiled at this batch size.
    fault: Value  #: The system's time for a page fault, in the median of these other networks.
    threads: Value  #: The threads that share the faults.
    predicted: Value  #: The time in the operating system that follows from the other networks' time for a fault.
    rest: Value  #: The time that remains after the layer-by-layer bound and the system, or the wait for kernels.


class UtilisationReference(Facts):
    half: Value  #: The profiled networks with the operating system in more than half of their time, with their names.
    faulted: Value  #: The memory that a call faults in, of the network with most of its time in the system.
    read: Value  #: Bandwidth of reading memory.
    copy: Value  #: Bandwidth of copying in memory, both directions counted.
    read_cache: Value  #: Bandwidth of the same read loop in the slowest cache.
    batch: Value  #: The batch size of the gap.
    depthwise: Value  #: The highest bandwidth of depthwise convolutions in a network, at the batch size of the gap.
    normalisation: Value  #: The bandwidth that batch normalisation reaches in the typical network.


class Utilisation(Facts):
    roofs: Roofs
    gap: Gap
    batching: UtilisationBatching
    gains: Gains
    example: UtilisationExample
    processor: Achieved
    gpu: Achieved
    gpu_lower: Achieved
    gpu_gain: Halved
    kernels: KernelGap
    kernels_lower: KernelGap
    profiled: Profiled
    reference: UtilisationReference
    too_low: bool  #: A network runs faster than its layer-by-layer bound: a roof is too low, or a cache helped
    is_thinned: bool  #: Figures draw some of the networks, because there are more than fit
    gap_drawn: bool  #: A profile takes a gap apart, on the processor or on the GPU
    is_checked: bool  #: The gain from keeping memory can be compared with the operating system's share
    gains_exceed: bool  #: Networks gain more from keeping memory than the operating system's share predicts
    below_datasheet: bool  #: The chapter on the bound holds the GPU's calls against a higher roof
    waits_for_host: bool  #: On the GPU at the lower precision, a larger batch takes far less than its share of time
    is_processor: bool  #: The machine at hand is a processor
    few_kernels: bool  #: Only few networks were profiled on the GPU
    processor_is_reference: bool  #: The processor comes with the project, the machine at hand does not
    claims: dict[str, bool]


SOURCES = {
    Roofs: ("roofs", "roofs"), Gap: ("profiles", "operators"), UtilisationBatching: ("samples", "inference"),
    Gains: ("samples", "inference"), UtilisationExample: ("profiles", "operators"),
}  # fmt: skip
"""The table of each group, and the section that measures it."""
Groups = tuple[Roofs, Gap, UtilisationBatching, Gains, UtilisationExample]


def of(paper: Paper) -> Utilisation:
    ours = paper.reference.at_hand
    roofs, _, batching, gains, _ = _groups(ours)
    reference = _reference(paper.reference, ours)
    claims = {
        "batching_loses": batching.eager.below(0.9),
        "keeping_restores": batching.kept.above(0.95),
        "clearing_is_not_all": gains.excess_high.above(1),
        "share_is_least": (gains.met.number or 0) >= 0.9 * (gains.checked.number or inf),
        "reading_slower": reference.read.below(reference.copy.number or 0),
        "loop_is_fast": reference.read_cache.above(2 * (reference.copy.number or 0)),
        "depthwise_slow": all(
            (each.number or inf) < (roofs.bandwidth.number or 0) / 5
            for each in (reference.depthwise, reference.normalisation)
        ),
    }
    groups, (processor, gpu) = _groups(paper.at_hand), devices(paper)
    lower = gpu.lower_precision if gpu else ""
    kernel_gaps = [kernels(gpu, precision) for precision in (BASE_PRECISION, lower)]
    of_processor = source_of("machines/*/samples.csv", "inference", "inference roofs")
    on_processor = achieved(processor, BASE_PRECISION, of_processor)
    on_gpu, lowered = (achieved(gpu, precision, of_gpu("samples")) for precision in (BASE_PRECISION, lower))
    larger = (lowered.middle_batch.number or 0) if lowered.first_batch.number == 1 else 0  # than one input
    return Utilisation(
        *groups,
        processor=on_processor,
        gpu=on_gpu,
        gpu_lower=lowered,
        gpu_gain=halved(gpu),
        kernels=kernel_gaps[0],
        kernels_lower=kernel_gaps[1],
        profiled=profiled(paper),
        reference=reference,
        too_low=any(each.beaten.number for each in (on_processor, on_gpu, lowered)),
        is_thinned=any(base_cells(each).model.nunique() > DRAWN for each in (processor, gpu) if each),
        gap_drawn=not groups[1].networks.is_missing or not kernel_gaps[0].networks.is_missing,
        is_checked=not groups[3].excess.is_missing,
        gains_exceed=groups[3].excess.above(1),
        below_datasheet=gpu is not None and _is_below_datasheet(paper, gpu, on_gpu, lowered),
        waits_for_host=lowered.stretch.below(larger / FAR_LESS),
        is_processor=paper.at_hand is not None and paper.at_hand.chip_kind == "cpu",
        few_kernels=0 < (kernel_gaps[0].networks.number or 0) < FEWEST_MODELS,
        processor_is_reference=is_reference(paper, processor),
        claims=claims,
    )


def _is_below_datasheet(paper: Paper, gpu: Machine, *found: Achieved) -> bool:
    """Return whether the chapter on the bound has shares of the same calls, under a roof that no kernel reached."""
    first = of_chapter("bound", paper).own_first
    datasheet = roof_of(paper.chips, chip_named(paper.chips, gpu.environment.name))
    if first.device.text != gpu.name or datasheet is None:
        return False
    batch = of_most(base_cells(gpu).groupby("batch").model.nunique())[-1]
    for share, other in zip(found, (first.base, first.lower), strict=True):
        precision = share.precision.text or BASE_PRECISION
        roof = gpu.roof(precision)
        if (share.networks.number, share.batch.number) != (other.count, batch) or roof is None:
            return False
        is_above = datasheet.byte_per_s > roof.bandwidth_byte_per_s
        if not is_above or reachable_peak(datasheet, precision) <= roof.peak_flop_per_s:
            return False
    return True


@cache  # the machine at hand may be the reference machine
def _groups(machine: Machine | None) -> Groups:
    """Return the facts of a machine, all missing without one."""
    groups: Any = map(missing, SOURCES)
    if machine is not None:
        first, small, large = batch_sizes(machine)
        terms = gap_terms(machine)
        groups = (
            _roofs(machine), _gap(machine, terms, first, large), _batching(machine, small, large),
            _gains(machine, first, large), _example(machine, terms[terms.batch == large]),
        )  # fmt: skip
    sources = (source_of(f"machines/*/{table}.csv", section, section) for table, section in SOURCES.values())
    return tuple(map(sourced, groups, sources))


def _roofs(machine: Machine) -> Roofs:
    row, lowered = (
        next(each(matching(machine.roofs, precision=precision)), None)
        for precision in (BASE_PRECISION, machine.lower_precision)
    )
    peak = estimated(row, "peak_flop_per_s", "FLOP/s")
    bandwidth = estimated(row, "bandwidth_byte_per_s", "B/s")
    ridge = estimated(row, "ridge_flop_per_byte", "FLOP/B")
    return Roofs(
        machine=Name(machine.name),
        peak=peak,
        lower=Name(machine.lower_precision if lowered else None),
        lower_gain=ratio(estimated(lowered, "peak_flop_per_s", "FLOP/s"), peak),
        bandwidth=bandwidth,
        ridge=ridge,
        cache_gain=ratio(exact(machine.levels[0].bandwidth_byte_per_s if machine.levels[1:] else None), bandwidth),
    )


def _gap(machine: Machine, terms: pd.DataFrame, first: int | None, large: int | None) -> Gap:
    at_large, at_first = (matching(terms, batch=batch) if batch else terms[:0] for batch in (large, first))
    if machine.chip_kind != "cpu" or at_large.empty:
        found: Gap = missing(Gap)
        return sourced(found, Source("machines/*/profiles.csv")) if machine.chip_kind != "cpu" else found
    return Gap(
        batch=exact(large),
        networks=count_of(len(at_large), "networks"),
        between=median_of(at_large.operator_bound_s / at_large.whole_s),
        system=median_of(at_large.outside, "%"),
        rest=median_of(rest_shares(at_large), "%"),
        first_batch=exact(first if len(at_first) else None),
        first_system=median_of(at_first.outside, "%"),
        drift=median_of(at_large.plain_s / at_large.latency_s),
    )


def _batching(machine: Machine, small: int | None, large: int | None) -> UtilisationBatching:
    eager = batching_of(machine, EAGER, small, large)
    return UtilisationBatching(
        first=exact(small if len(eager) else None),
        last=exact(large if len(eager) else None),
        eager=median_of(eager),
        kept=median_of(batching_of(machine, KEPT, small, large)),
        losing=count_of((eager < 1).sum() if len(eager) else None, "networks"),
        of=count_of(len(eager) or None, "networks"),
    )


def _gains(machine: Machine, first: int | None, large: int | None) -> Gains:
    at_gap = matching(base_cells(machine, KEPT), batch=large).dropna(subset="speed_up")
    both, lower = kept_terms(machine), machine.lower_precision
    rows = both[both.batch == large]
    is_high = rows.outside >= rows.outside.median()
    lowered = gains_of(machine, KEPT, lower, large)
    return Gains(
        batch=exact(large),
        kept=median_of(at_gap.speed_up),
        kept_high=median_of(rows.speed_up[rows.outside > SYSTEM_SHARE]),
        kept_surely=count_of((at_gap.speed_up_low > 1).sum() if len(at_gap) else None, "networks"),
        kept_of=count_of(len(at_gap) or None, "networks"),
        kept_most=extremes(at_gap.set_index("model").speed_up.rename(model_name))[1],
        excess=median_of(rows.speed_up / rows.expected),
        checked=count_of(len(rows) or None, "networks"),
        met=count_of((rows.speed_up >= rows.expected).sum() if len(rows) else None, "networks"),
        excess_low=median_of((rows.speed_up / rows.expected)[~is_high]),
        excess_high=median_of((rows.speed_up / rows.expected)[is_high]),
        agreement=rank_correlation(both.outside, both.speed_up, both.model),
        first=median_of(gains_of(machine, KEPT, BASE_PRECISION, first)),
        first_expected=median_of(both[both.batch == first].expected),
        lower=median_of(gains_of(machine, EAGER, lower, large)),
        lower_kept=median_of(lowered / gains_of(machine, KEPT, BASE_PRECISION, large)),
        both=median_of(lowered),
    )


def _example(machine: Machine, terms: pd.DataFrame) -> UtilisationExample:
    """Take MobileNet-v2, or else the network with the largest share outside."""
    roof = machine.roof(BASE_PRECISION)
    if terms.empty or roof is None:
        return missing(UtilisationExample)
    examples = matching(terms, model=EXAMPLE)
    row = highest(terms if examples.empty else examples, "outside")
    threads = machine.environment.threads or 1
    faults = row.page_faults if machine.chip_kind == "cpu" and row.page_faults > 0 else None
    others = terms[(terms.model != row.model) & (terms.page_faults > 0)]
    fault = median_of(threads * others.outside_s / others.page_faults, "s") if faults else Value(None, "s")
    return UtilisationExample(
        network=Name(model_name(row.model)),
        batch=exact(int(row.batch)),
        peak=exact(roof.peak_flop_per_s, "FLOP/s"),
        bandwidth=exact(roof.bandwidth_byte_per_s, "B/s"),
        flop=exact(row.forward_flop, "FLOP"),
        arithmetic=exact(row.forward_flop / roof.peak_flop_per_s, "s"),
        byte=exact(row.compulsory_byte, "B"),
        transfer=exact(row.compulsory_byte / roof.bandwidth_byte_per_s, "s"),
        traffic=exact(row.traffic_byte, "B"),
        layers=exact(row.operator_bound_s, "s"),
        latency=estimated(row, "latency_s", "s"),
        system=exact(row.outside_s, "s"),
        faults=exact(faults and int(float(f"{faults:.3g}"))),
        others=count_of(len(others) if faults else None, "networks"),
        fault=fault,
        threads=exact(threads),
        predicted=exact(faults and fault.number and faults * fault.number / threads, "s"),
        rest=exact(row.rest_s, "s"),
    )


def _reference(paper: Paper, machine: Machine | None) -> UtilisationReference:
    large = None if machine is None else batch_sizes(machine)[2]
    if machine is None or large is None or gap_terms(machine).empty or len(machine.levels) < 2:
        return missing(UtilisationReference)
    profiled = matching(gap_terms(machine), batch=large)
    most, over = highest(profiled, "outside"), profiled[profiled.outside > 0.5]
    swept = sustained(machine.roof_measurements, STREAMS)
    largest = [highest(matching(swept, roof_kernel=kernel), "size") for kernel in ("stream_read", "stream_copy")]
    cached = machine.levels[-2].kernels["read"]
    read, copy, read_cache = (estimated(row, "byte_per_s", "B/s") for row in (*largest, cached))
    streams = stream_rates(paper, machine, large)
    depthwise = matching(streams, group=DEPTHWISE).set_index("model").byte_per_s.rename(model_name)
    found = UtilisationReference(
        half=replace(count_of(len(over), "networks"), name=", ".join(sorted(map(model_name, over.model)))),
        faulted=Value(float(most.page_faults) * PAGE_BYTE, "B", name=model_name(most.model)),
        read=read,
        copy=copy,
        read_cache=read_cache,
        batch=exact(large),
        depthwise=extremes(depthwise, "B/s")[1],
        normalisation=median_of(matching(streams, group="batch norm").byte_per_s, "B/s"),
    )
    return sourced(found, source_of(f"machines/{REFERENCE}", "all", "inference operators roofs"))
