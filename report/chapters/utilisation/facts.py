"""The numbers of the chapter on utilisation: a machine's roofs, how close networks come, and the causes of the gap."""

from functools import cache
from math import inf
from typing import Any

import pandas as pd

from measure.domain.names import model_name
from measure.domain.statistics import FEWEST_MODELS
from measure.domain.words import EAGER, INFERENCE
from report.facts import Facts, missing, source_of, sourced
from report.paper import BASE_PRECISION, REFERENCE, Machine, Paper
from report.paper.cells import INFERENCE_CELL
from report.paper.frames import each, highest, matching
from report.paper.operator_groups import profiled as profiled_groups
from report.paper.roofs import STREAMS, sustained
from report.stats.correlations import rank_correlation
from report.stats.value import Name, Source, Value, count_of, estimated, exact, extremes, median_of, ratio, waits_for

KEPT, EXAMPLE = "kept_memory", "mobilenet_v2"
DEPTHWISE = "depthwise convolution"
OBSERVED = ["plain_s", "profiled_s", "busy_s", "system_s", "page_faults"]
PAGE_BYTE = 4096  # a page of memory on x86 under Linux


class Roofs(Facts):
    machine: Name  #: The machine at hand.
    peak: Value  #: The measured peak at fp32.
    lower: Name  #: The lower precision, compared with fp32.
    lower_gain: Value  #: The measured peak at the lower precision over the peak at fp32.
    bandwidth: Value  #: The measured bandwidth of memory.
    ridge: Value  #: The ridge point at fp32.
    cache_gain: Value  #: Bandwidth of the fastest cache over the bandwidth of memory.
    lowest: Value  #: The lowest intensity of a measured cell by compulsory bytes.
    side: Name  #: The bound of the network with the lowest intensity, as a whole.
    networks: Value  #: Networks measured at the batch size of the gap.
    below: Value  #: Networks left of the ridge there when bytes between layers count.
    above: Value  #: Networks faster than the measured peak at fp32, which was measured too low.


class Gap(Facts):
    batch: Value  #: The batch size of the gap: the largest with enough profiled networks.
    networks: Value  #: Networks profiled at the batch size of the gap.
    slowdown: Value  #: Latency over the roof layer by layer.
    between: Value  #: Least time layer by layer over the whole network's: the cost of bytes between layers.
    layers: Value  #: Share of the latency that the roof layer by layer explains.
    system: Value  #: Share of the latency in the operating system (processors alone).
    host: Value  #: Share of the latency without a running kernel (GPUs alone).
    rest: Value  #: Share of the latency that remains: kernels below their roof, and the framework.
    nearest: Value  #: The largest share of its roof that a network reaches, layer by layer.
    farthest: Value  #: The smallest share of its roof that a network reaches.
    first_batch: Value  #: The smallest batch size that was profiled.
    first_system: Value  #: The operating system's share at the smallest profiled batch size.
    drift: Value  #: Time of a plain call in the profiled process over the latency of the cell.


class UtilisationBatching(Facts):
    eager: Value  #: Throughput at the batch size of the gap over the batch size before, as PyTorch comes.
    kept: Value  #: The same ratio of throughputs with freed memory kept.
    losing: Value  #: Networks that lose throughput between these batch sizes, as PyTorch comes.
    of: Value  #: Networks measured at both batch sizes.


class Gains(Facts):
    batch: Value  #: The batch size of the gap.
    kept: Value  #: Speed with freed memory kept over eager mode, at the batch size of the gap.
    kept_surely: Value  #: Networks that gain from keeping memory with their whole interval.
    kept_of: Value  #: Networks measured with memory kept and in eager mode.
    kept_most: Value  #: The largest gain from keeping memory, with its network.
    expected: Value  #: The gain without the operating system's share: 1 / (1 - share).
    excess: Value  #: The measured gain over the expected one.
    agreement: Value  #: Rank correlation of the system's share with the gain, over all profiled cells.
    first: Value  #: The gain from keeping memory at the smallest batch size.
    first_expected: Value  #: The gain expected at the smallest batch size from the operating system's share.
    lower: Value  #: Speed at the lower precision over fp32, at the batch size of the gap.
    lower_kept: Value  #: Speed at the lower precision over fp32 with freed memory kept at both.
    both: Value  #: Speed at the lower precision with memory kept, over eager mode at fp32.


class UtilisationExample(Facts):
    network: Name  #: The network of the worked example.
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
    fault: Value  #: The system's time for a page fault.
    threads: Value  #: The threads that share the faults.
    rest: Value  #: The time that neither roof nor system explains.


class UtilisationReference(Facts):
    most: Value  #: The largest share of the operating system, with its network.
    faulted: Value  #: The memory that a call of that network faults in.
    read: Value  #: Bandwidth of reading memory.
    copy: Value  #: Bandwidth of copying in memory, both directions counted.
    read_cache: Value  #: Bandwidth of the same read loop in the slowest cache.
    depthwise: Value  #: The highest bandwidth of depthwise convolutions in a network, at the batch size of the gap.
    normalisation: Value  #: The bandwidth that batch normalisation reaches in the typical network.


class Utilisation(Facts):
    roofs: Roofs
    gap: Gap
    batching: UtilisationBatching
    gains: Gains
    example: UtilisationExample
    reference: UtilisationReference
    too_low: bool  #: A network computes faster than the measured peak
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
        "clearing_is_not_all": gains.excess.above(1),
        "share_tells": gains.agreement.above(0.7),
        "reading_slower": reference.read.below(reference.copy.number or 0),
        "loop_is_fast": reference.read_cache.above(2 * (reference.copy.number or 0)),
        "depthwise_slow": (reference.depthwise.number or 1e99) < (roofs.bandwidth.number or 0) / 5,
    }
    groups = _groups(paper.at_hand)
    return Utilisation(*groups, reference=reference, too_low=bool(groups[0].above.number), claims=claims)


@cache  # the machine at hand may be the reference machine
def _groups(machine: Machine | None) -> Groups:
    """Return the facts of a machine, all missing without one."""
    groups: Any = map(missing, SOURCES)
    if machine is not None:
        first, small, large = batch_sizes(machine)
        terms = gap_terms(machine)
        groups = (
            _roofs(machine, large), _gap(machine, terms, first, large), _batching(machine, small, large),
            _gains(machine, terms, first, large), _example(machine, terms[terms.batch == large]),
        )  # fmt: skip
    sources = (source_of(f"machines/*/{table}.csv", section, section) for table, section in SOURCES.values())
    return tuple(map(sourced, groups, sources))


@cache
def base_cells(machine: Machine, variant: str = EAGER, precision: str = BASE_PRECISION) -> pd.DataFrame:
    cells = matching(machine.cells if variant == EAGER else machine.variants, variant=variant, precision=precision)
    return cells[cells.latency_s.notna()]


@cache
def gap_terms(machine: Machine) -> pd.DataFrame:
    """Return one row per profiled cell: its latency, and the terms ``whole_s`` to ``rest_s`` that sum to it.

    ``outside`` is the share of a call that its threads spend in the operating system, or on a GPU the share without a
    running kernel. That share of the latency is the third term.
    """
    profiles = matching(machine.profiles, status="ok", phase=INFERENCE, variant=EAGER)
    rows = base_cells(machine).merge(profiles[[*INFERENCE_CELL, *OBSERVED]], on=INFERENCE_CELL)
    rows = rows.astype(dict.fromkeys(OBSERVED, float))
    if machine.chip_kind == "cpu":
        outside = rows.system_s / ((machine.environment.threads or 1) * rows.plain_s)
    else:
        outside = (1 - rows.busy_s / rows.plain_s).clip(lower=0)
    whole, layers, taken = rows.model_bound_s, rows.operator_bound_s, outside * rows.latency_s
    rows = rows.assign(outside=outside, whole_s=whole, between_s=layers - whole, outside_s=taken)
    return rows.assign(rest_s=rows.latency_s - layers - taken).dropna(subset="rest_s")


def batch_sizes(machine: Machine) -> tuple[int | None, int | None, int | None]:
    """Return the smallest profiled batch size, the one to compare with, and the one of the gap.

    The batch size of the gap is the largest with enough profiled networks, else the largest that most networks have.
    The one to compare with is the smaller size that shares most networks with it, the largest of equals.
    """
    measured, profiled = (rows.groupby("batch").model.nunique() for rows in (base_cells(machine), gap_terms(machine)))
    enough = list(profiled.index[profiled >= FEWEST_MODELS]) or list(measured.index[2 * measured >= measured.max()])
    if not enough:
        return None, None, None
    large, cells = max(enough), base_cells(machine)
    models = set(cells[cells.batch == large].model)
    shared = {batch: len(models & set(rows.model)) for batch, rows in cells.groupby("batch") if batch < large}
    small: Any = max(shared, key=lambda batch: (shared[batch], batch), default=None)
    return int(enough[0]), None if small is None else int(small), int(large)


def _roofs(machine: Machine, batch: int | None) -> Roofs:
    row, lowered = (
        next(each(matching(machine.roofs, precision=precision)), None)
        for precision in (BASE_PRECISION, machine.lower_precision)
    )
    peak = estimated(row, "peak_flop_per_s", "FLOP/s")
    bandwidth = estimated(row, "bandwidth_byte_per_s", "B/s")
    ridge = estimated(row, "ridge_flop_per_byte", "FLOP/B")
    cells = base_cells(machine)
    lowest = extremes(cells.groupby(cells.model.map(model_name)).compulsory_intensity.min(), "FLOP/B")[0]
    is_known = not (lowest.is_missing or ridge.is_missing)
    at_batch = cells[cells.batch == batch]
    below = (at_batch.traffic_intensity < ridge.number).sum() if ridge.number and len(at_batch) else None
    return Roofs(
        machine=Name(machine.name),
        peak=peak,
        lower=Name(machine.lower_precision if lowered else None),
        lower_gain=ratio(estimated(lowered, "peak_flop_per_s", "FLOP/s"), peak),
        bandwidth=bandwidth,
        ridge=ridge,
        cache_gain=ratio(exact(machine.levels[0].bandwidth_byte_per_s if machine.levels else None), bandwidth),
        lowest=lowest,
        side=Name(str(waits_for(lowest, ridge)) if is_known else None),
        networks=count_of(len(at_batch) or None, "models"),
        below=exact(below),
        above=count_of(cells[cells.flop_per_s > (peak.high or peak.number or inf)].model.nunique(), "models"),
    )


def _gap(machine: Machine, terms: pd.DataFrame, first: int | None, large: int | None) -> Gap:
    at_large, at_first = (matching(terms, batch=batch) if batch else terms[:0] for batch in (large, first))
    latency, layers = at_large.latency_s, at_large.operator_bound_s / at_large.latency_s
    farthest, nearest = extremes(layers.set_axis(at_large.model.map(model_name)), "%")
    is_processor = machine.chip_kind == "cpu"
    none = Value(None, "%", source=Source("machines/*/profiles.csv"))  # no command: the other kind of chip has it
    outside, first_outside = median_of(at_large.outside, "%"), median_of(at_first.outside, "%")
    return Gap(
        batch=exact(large if len(at_large) else None),
        networks=count_of(len(at_large) or None, "networks"),
        slowdown=median_of(latency / at_large.operator_bound_s),
        between=median_of(at_large.operator_bound_s / at_large.whole_s),
        layers=median_of(layers, "%"),
        system=outside if is_processor else none,
        host=none if is_processor else outside,
        rest=median_of(at_large.rest_s / latency, "%"),
        nearest=nearest,
        farthest=farthest,
        first_batch=exact(first if len(at_first) else None),
        first_system=first_outside if is_processor else none,
        drift=median_of(at_large.plain_s / latency),
    )


def gains_of(machine: Machine, variant: str, precision: str, batch: int | None) -> pd.Series:
    """Return each network's speed-up over eager mode at the base precision.

    Variants at the base precision ran in one session with eager mode, so that their ratio is taken round by round.
    """
    cells = matching(base_cells(machine, variant, precision), batch=batch).set_index("model")
    if precision == BASE_PRECISION:
        return cells.speed_up.dropna()
    eager = matching(base_cells(machine), batch=batch).set_index("model").latency_s
    return (eager / cells.latency_s).dropna()


def batching_of(machine: Machine, variant: str, small: int | None, large: int | None) -> pd.Series:
    cells = base_cells(machine, variant)
    before, after = (cells[cells.batch == batch].set_index("model").throughput_per_s for batch in (small, large))
    return (after / before).dropna()


def _batching(machine: Machine, small: int | None, large: int | None) -> UtilisationBatching:
    eager = batching_of(machine, EAGER, small, large)
    return UtilisationBatching(
        eager=median_of(eager),
        kept=median_of(batching_of(machine, KEPT, small, large)),
        losing=count_of((eager < 1).sum() if len(eager) else None, "networks"),
        of=count_of(len(eager) or None, "networks"),
    )


def _gains(machine: Machine, terms: pd.DataFrame, first: int | None, large: int | None) -> Gains:
    cells = base_cells(machine, KEPT)
    at_gap = matching(cells, batch=large).dropna(subset="speed_up")
    both = terms.drop(columns="speed_up").merge(cells[[*INFERENCE_CELL, "speed_up"]], on=INFERENCE_CELL)
    expected = 1 / (1 - both.outside)
    at_large, lower = both.batch == large, machine.lower_precision
    lowered = gains_of(machine, KEPT, lower, large)
    return Gains(
        batch=exact(large),
        kept=median_of(at_gap.speed_up),
        kept_surely=count_of((at_gap.speed_up_low > 1).sum() if len(at_gap) else None, "networks"),
        kept_of=count_of(len(at_gap) or None, "networks"),
        kept_most=extremes(at_gap.set_index("model").speed_up.rename(model_name))[1],
        expected=median_of(expected[at_large]),
        excess=median_of((both.speed_up / expected)[at_large]),
        agreement=rank_correlation(both.outside, both.speed_up, both.model),
        first=median_of(gains_of(machine, KEPT, BASE_PRECISION, first)),
        first_expected=median_of(expected[both.batch == first]),
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
    return UtilisationExample(
        network=Name(model_name(row.model)),
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
        fault=exact(faults and row.outside_s * threads / faults, "s"),
        threads=exact(threads),
        rest=exact(row.rest_s, "s"),
    )


@cache
def stream_rates(paper: Paper, machine: Machine, batch: int | None) -> pd.DataFrame:
    """Return one row per group of operators in profiled inference, with the ``byte_per_s`` that it reads and writes.

    On a processor the profiler lengthens operators, so their times are scaled to a plain call.
    """
    rows = matching(profiled_groups(paper, machine), phase=INFERENCE, batch=batch)
    scale = rows.plain_s / rows.profiled_s if machine.chip_kind == "cpu" else 1.0
    rows = rows.assign(byte_per_s=rows.byte / (rows.time_s * scale))
    return rows[rows.byte > 0]


def _reference(paper: Paper, machine: Machine | None) -> UtilisationReference:
    large = None if machine is None else batch_sizes(machine)[2]
    if machine is None or large is None or gap_terms(machine).empty or len(machine.levels) < 2:
        return missing(UtilisationReference)
    most = highest(matching(gap_terms(machine), batch=large), "outside")
    swept = sustained(machine.roof_measurements, STREAMS)
    largest = [highest(matching(swept, roof_kernel=kernel), "size") for kernel in ("stream_read", "stream_copy")]
    cached = machine.levels[-2].kernels["read"]
    read, copy, read_cache = (estimated(row, "byte_per_s", "B/s") for row in (*largest, cached))
    streams = stream_rates(paper, machine, large)
    depthwise = matching(streams, group=DEPTHWISE).set_index("model").byte_per_s.rename(model_name)
    found = UtilisationReference(
        most=Value(float(most.outside), "%", name=model_name(most.model)),
        faulted=exact(float(most.page_faults) * PAGE_BYTE, "B"),
        read=read,
        copy=copy,
        read_cache=read_cache,
        depthwise=extremes(depthwise, "B/s")[1],
        normalisation=median_of(matching(streams, group="batch norm").byte_per_s, "B/s"),
    )
    return sourced(found, source_of(f"machines/{REFERENCE}", "all", "inference operators roofs"))
