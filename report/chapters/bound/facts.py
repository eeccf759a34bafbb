"""The numbers of the chapter on the bound: its share of the time on every GPU, and its promise of another card."""

from dataclasses import replace
from typing import Any

import pandas as pd

from measure.domain.statistics import FEWEST_MODELS
from measure.domain.words import PRODUCT_KINDS
from report.facts import Facts, missing, sourced
from report.options import gpu_command
from report.paper import BASE_PRECISION, Paper, published
from report.paper.cells import layered_s
from report.paper.chips import datasheet, roof_of, short_name
from report.paper.frames import matching
from report.paper.published import COMPILED, BestTimed, name_in, network_name, share, typical
from report.stats.value import Name, Source, Value, count_of, exact, extremes, median_of

EXAMPLE = "timm:resnet50"  # the network of the calculation


class Timings(Facts):
    timings: Value  #: Published timings.
    networks: Value  #: Networks in the published timings.
    devices: Value  #: Devices in the published timings.


class GpuShares(Facts):
    """Shares of three bounds that networks reach in eager mode, on the GPU with the most networks timed."""

    device: Name  #: The GPU with the most networks timed.
    networks: Value  #: Networks that were timed on it in eager mode.
    peak: Value  #: Achieved rate over the peak.
    whole: Value  #: Least time by the roofline of the whole network over the measured time.
    layers: Value  #: Least time by the roofline drawn layer by layer over the measured time.
    low: Value  #: A tenth of the networks have a smaller share of the roofline drawn layer by layer.
    high: Value  #: A tenth of the networks have a larger share of the roofline drawn layer by layer.
    left: Value  #: How many times as fast the typical network would be at the bound.
    other: Value  #: Networks timed on it that are left out: the source counts other parameters than this program.
    faster: Value  #: Networks that are faster than their bound layer by layer.
    fastest: Value  #: The bound over the time of the network farthest below its bound, with its name.
    compiled: Value  #: Share of the roofline drawn layer by layer with torch.compile.


class Devices(Facts):
    """The same shares on all GPUs with a whole library timed."""

    most_whole: Value  #: The highest typical share of the roofline of the whole network, with its GPU.
    least_layers: Value  #: The lowest typical share of the roofline drawn layer by layer, with its GPU.
    most_layers: Value  #: The highest typical share of the roofline drawn layer by layer, with its GPU.


class OwnGpus(Facts):
    """The typical share of the roofline drawn layer by layer on the GPUs that this program timed, by datasheets.

    In eager mode, at the largest batch that most networks ran, at fp32 and at the lower precision.
    """

    devices: Value  #: GPUs that this program timed.
    networks: Value  #: Networks timed on each, at least.
    batch: Value  #: The largest batch size that half of the networks ran.
    least: Value  #: The lowest typical share of the roofline layer by layer, with its GPU and precision.
    most: Value  #: The highest typical share of the roofline layer by layer, with its GPU and precision.


class GpuPair(Facts):
    """From one GPU to one with a higher peak: networks timed on both, all else alike, in eager mode."""

    older: Name  #: The GPU with the lower peak.
    newer: Name  #: The GPU with the higher peak.
    networks: Value  #: Networks timed on both.
    peak: Value  #: The newer GPU's peak over the older's.
    bandwidth: Value  #: The newer GPU's bandwidth over the older's.
    speed: Value  #: How many times as fast networks are on the newer.
    whole: Value  #: How many times as fast by the roofline of the whole network.
    layers: Value  #: How many times as fast by the roofline drawn layer by layer.


class GpuCalculation(Facts):
    """One network on paper: the time of an input is its FLOP at the peak plus the other layers' bytes."""

    network: Name  #: The network of the calculation.
    flop: Value  #: FLOP of an input.
    byte: Value  #: Bytes of an input that layers without products move.
    peak: Value  #: Peak of the GPU with the most networks timed.
    bandwidth: Value  #: Bandwidth of that GPU.
    arithmetic: Value  #: Time of the FLOP at the peak.
    bytes: Value  #: Time of the bytes at the bandwidth.
    total: Value  #: Sum of both times.
    measured: Value  #: The published time of an input.
    next_peak: Value  #: Peak of the next GPU.
    next_bandwidth: Value  #: Bandwidth of the next GPU.
    next_total: Value  #: The sum on the next GPU.
    promised: Value  #: The sum on this GPU over the sum on the next.
    gained: Value  #: The published time on this GPU over the time on the next.


class GpuProblems(Facts):
    double_peak_total: Value  #: Time of the network by the sum on a GPU with twice the peak.
    double_peak: Value  #: Gain of the network from twice the peak, by the sum.
    no_bytes: Value  #: Gain of the network if layers without products moved nothing, by the sum.
    compiled: Value  #: Published gain of the network from a compiler.


class Bound(Facts):
    timings: Timings
    shares: GpuShares
    devices: Devices
    own: OwnGpus
    first: GpuPair
    second: GpuPair
    calculation: GpuCalculation
    problems: GpuProblems


def of(paper: Paper) -> Bound:
    best, table = published.best_timed(paper.published), paper.published.timings
    changes = published.steps(paper.published)
    calculation = _calculation(paper, best, published.of_best(changes, best))
    found = Bound(
        timings=Timings(
            count_of(len(table), "timings"), count_of(table.model.nunique(), "networks"),
            count_of(table.device.nunique(), "devices"),
        ),
        shares=_shares(paper, best),
        devices=_devices(paper),
        own=_own(paper),
        first=_step(changes, 0),
        second=_step(changes, 1),
        calculation=calculation,
        problems=_problems(calculation, published.of_best(published.compiled(paper.published), best)),
    )  # fmt: skip
    return sourced(found, published.SOURCE)


def _shares(paper: Paper, best: BestTimed | None) -> GpuShares:
    if best is None:
        return missing(GpuShares)
    rows, compiled = best.rows, published.newest(paper.published, COMPILED)
    compiled = matching(compiled, device=best.device, computed=best.computed)
    shares = published.of_networks(rows.layers_s / rows.latency_s, rows.model)
    _, fastest = extremes(shares.rename(network_name))
    low, high = (Value(float(shares.quantile(end)), "%", count=len(shares), counted="networks") for end in (0.1, 0.9))
    return GpuShares(
        Name(short_name(best.device)), count_of(rows.model.nunique(), "networks"),
        typical(rows.peak_share, rows.model, "%"), share(rows, "whole_s"), share(rows, "layers_s"), low, high,
        typical(rows.latency_s / rows.layers_s, rows.model),
        count_of(published.left_out(paper.published, best).model.nunique(), "networks"),
        count_of((shares > 1).sum(), "networks"), fastest,
        share(compiled, "layers_s"),
    )  # fmt: skip


def _devices(paper: Paper) -> Devices:
    large = [each for each in published.by_device(paper.published) if each.rows.model.nunique() >= published.LIBRARY]
    (_, most_whole), (least, most) = (
        extremes({short_name(each.device): share(each.rows, bound).number or 0 for each in large}, "%", fewest=2)
        for bound in ("whole_s", "layers_s")
    )
    return Devices(most_whole, least, most)


def own_shares(paper: Paper) -> pd.DataFrame:
    """Return one row per network, own GPU and precision: the ``share`` of the datasheet's roof layer by layer.

    GPUs without a row among the chips are left out. The batch is the largest that half of the networks ran.
    """
    found = []
    for machine in paper.undisturbed.machines:
        roof = roof_of(paper.chips, next(iter(datasheet(paper.chips, machine.environment.name).chip), None))
        if machine.chip_kind != "gpu" or roof is None:
            continue
        cells = matching(machine.cells, status="ok")
        cells = cells.assign(least_s=layered_s(cells, paper.operators, roof)).dropna(subset="least_s")
        networks = cells.groupby("batch").model.nunique()
        batch = networks[2 * networks >= networks.max()].index.max()
        rows = cells[(cells.batch == batch) & cells.precision.isin([BASE_PRECISION, machine.lower_precision])]
        found.append(rows.assign(device=machine.name, share=rows.least_s / rows.latency_s))
    return pd.concat(found) if found else pd.DataFrame(columns=["device", "precision", "model", "batch", "share"])


def _own(paper: Paper) -> OwnGpus:
    found = own_shares(paper)
    shares = [
        replace(median_of(rows.share, "%", "networks"), name=f"{device} at {precision}")
        for (device, precision), rows in found.groupby(["device", "precision"])
        if len(rows) >= FEWEST_MODELS
    ]
    if len(shares) < 2:
        return missing(OwnGpus)
    ranked = sorted(shares, key=lambda each: each.number or 0.0)
    facts = OwnGpus(
        count_of(found.device.nunique(), "GPUs"), count_of(min(each.count or 0 for each in shares), "networks"),
        exact(found.batch.max()), ranked[0], ranked[-1],
    )  # fmt: skip
    return sourced(facts, Source("machines/*/samples.csv", "GPUs, inference, eager, the largest batch", gpu_command()))


def _step(changes: list[pd.DataFrame], at: int) -> GpuPair:
    if at >= len(changes):
        return missing(GpuPair)
    pairs = changes[at]
    row = pairs.iloc[0]
    return GpuPair(
        name_in(pairs), name_in(pairs, "device_other"), count_of(pairs.model.nunique(), "networks"),
        exact(row.peak_flop_per_s_other / row.peak_flop_per_s),
        exact(row.bandwidth_byte_per_s_other / row.bandwidth_byte_per_s),
        *(published.gain(pairs, column) for column in ("latency_s", "whole_s", "layers_s")),
    )  # fmt: skip


def _calculation(paper: Paper, best: BestTimed | None, following: pd.DataFrame | None) -> GpuCalculation:
    if best is None or following is None:
        return missing(GpuCalculation)
    pairs = following[(following.model == EXAMPLE) & (following.input_size == best.of_usual_size.input_size.iloc[0])]
    if pairs.empty:
        return missing(GpuCalculation)
    row: Any = pairs.iloc[0]
    kinds = published.by_kind(pairs.iloc[:1], paper.published.kinds)
    flop = kinds.work_flop.sum() / row.batch
    byte = kinds.moved_byte[~kinds.layer_kind.isin(PRODUCT_KINDS)].sum() / row.batch
    sums = [flop / row[f"peak_flop_per_s{end}"] + byte / row[f"bandwidth_byte_per_s{end}"] for end in ("", "_other")]
    return GpuCalculation(
        network=Name(network_name(EXAMPLE)), flop=exact(flop, "FLOP"), byte=exact(byte, "B"),
        peak=exact(row.peak_flop_per_s, "FLOP/s"), bandwidth=exact(row.bandwidth_byte_per_s, "B/s"),
        arithmetic=exact(flop / row.peak_flop_per_s, "s"), bytes=exact(byte / row.bandwidth_byte_per_s, "s"),
        total=exact(sums[0], "s"), measured=exact(row.input_s, "s"),
        next_peak=exact(row.peak_flop_per_s_other, "FLOP/s"),
        next_bandwidth=exact(row.bandwidth_byte_per_s_other, "B/s"), next_total=exact(sums[1], "s"),
        promised=exact(sums[0] / sums[1]), gained=exact(row.latency_s / row.latency_s_other),
    )  # fmt: skip


def _problems(calculation: GpuCalculation, pairs: pd.DataFrame | None) -> GpuProblems:
    arithmetic, byte = calculation.arithmetic.number, calculation.bytes.number
    if arithmetic is None or byte is None or pairs is None:
        return missing(GpuProblems)
    total, halved = arithmetic + byte, arithmetic / 2 + byte
    return GpuProblems(
        exact(halved, "s"), exact(total / halved), exact(total / arithmetic),
        exact(published.gains(pairs).get(EXAMPLE)),
    )  # fmt: skip


def changes(paper: Paper) -> pd.DataFrame:
    """Return one row per change: quantiles of the networks' speed-ups, and the speed-ups that both bounds promise."""
    others = paper.published
    best = published.best_timed(others)
    following = published.of_best(published.steps(others), best)
    rows = [_spread(f"channels last on {name_in(pairs)}", pairs) for pairs in published.channels_last(others)[:1]]
    rows += [_spread(f"compiled on {name_in(pairs)}", pairs) for pairs in published.compiled(others)[:2]]
    rows += [
        _spread(f"{name_in(pairs)} to {name_in(pairs, 'device_other')}", pairs) for pairs in published.steps(others)
    ]
    if best and following is not None:
        name = f"{short_name(best.device)} to {name_in(following, 'device_other')} compiled"
        rows.append(_spread(name, published.on_the_next(others, best, following)))
    return pd.DataFrame(rows)


def _spread(name: str, pairs: pd.DataFrame) -> dict[str, Any]:
    gained = published.gains(pairs)
    places = dict(zip(("low", "quarter", "speed", "three_quarters", "high"), (0.1, 0.25, 0.5, 0.75, 0.9), strict=True))
    has_promise = not {"compiler_other", "layout_other"} & set(pairs.columns)  # else both bounds stay as they are
    return {
        "name": name, "networks": len(gained),
        **{column: gained.quantile(place) for column, place in places.items()},
        **{bound: published.gains(pairs, f"{bound}_s").median() if has_promise else None
           for bound in ("whole", "layers")},
    }  # fmt: skip
