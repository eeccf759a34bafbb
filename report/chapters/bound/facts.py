"""The numbers of the chapter on the bound: its share of the time on every GPU, and its promise of another card."""

from dataclasses import replace
from functools import cache
from itertools import permutations
from typing import Any

import pandas as pd

from measure.domain.chips import reachable_peak
from measure.domain.statistics import FEWEST_MODELS
from measure.domain.words import PRODUCT_KINDS
from report.facts import Facts, missing, sourced
from report.options import gpu_command
from report.paper import BASE_PRECISION, Paper, published
from report.paper.cells import layered_s
from report.paper.chips import chip_named, roof_of, short_name
from report.paper.frames import matching
from report.paper.published import COMPILED, BestTimed, name_in, network_name, share, typical
from report.stats.value import NOTHING, Name, Source, Value, count_of, exact, extremes, median_of

EXAMPLE = "timm:resnet50"  # the network of the calculation
LARGE = 64  # inputs in a large batch
OWN = "Roofwright"  # who timed the GPUs and processors of this program


class Timings(Facts):
    timings: Value  #: Published timings.
    networks: Value  #: Networks in the published timings.


class GpuShares(Facts):
    """Shares of three bounds that networks reach in eager mode, on the GPU with the most networks timed."""

    device: Name  #: The GPU with the most networks timed.
    networks: Value  #: Networks that were timed on it in eager mode.
    peak: Value  #: Achieved rate over the peak.
    whole: Value  #: Least time by the roofline of the whole network over the measured time.
    layers: Value  #: Least time by the roofline drawn layer by layer over the measured time.
    low: Value  #: A tenth of the networks have a smaller share of the roofline drawn layer by layer.
    left: Value  #: How many times as fast the typical network would be at the bound.
    other: Value  #: Networks timed on it that are left out: the source counts other parameters than this program.
    faster: Value  #: Networks that are faster than their bound layer by layer.
    fastest: Value  #: The bound over the time of the network farthest below its bound, with its name.
    compiled: Value  #: Share of the roofline drawn layer by layer with torch.compile.


class Everywhere(Facts):
    """The median share of the layer-by-layer bound, under datasheets apart from a processor's.

    The chips are those of others and those of this program, if their share is known to within a factor of three.
    """

    least: Value  #: The lowest median share, with its chip, precision and batch size.
    most: Value  #: The highest median share, with its chip, precision and batch size.
    batch: Value  #: The least batch size that is called large.
    large_least: Value  #: The lowest median share in large batches, with its chip, precision and batch size.
    large_most: Value  #: The highest median share in large batches, with its chip, precision and batch size.
    processor: Value  #: The median share on a processor under its measured roof, with its name.
    channels_last: Value  #: The highest median share of published timings with channels last, named likewise.


class OwnGpu(Facts):
    """A GPU that this program timed: the median share of the layer-by-layer bound in eager mode, by its datasheet."""

    device: Name  #: The GPU.
    precision: Name  #: The lower precision.
    base: Value  #: Least time layer by layer over the measured time, at fp32.
    lower: Value  #: Least time layer by layer over the measured time, at the lower precision.


class OwnStep(Facts):
    """From that GPU to one with the same peak and faster memory, for networks that this program timed on both."""

    newer: Name  #: The GPU with the faster memory.
    networks: Value  #: Networks timed on both at fp32.
    base: Value  #: The share on the newer GPU over the share on the other, at fp32.
    lower: Value  #: The share on the newer GPU over the share on the other, at the lower precision.


class GpuPair(Facts):
    """From one GPU to one with a higher peak: networks timed on both, all else alike, in eager mode."""

    older: Name  #: The GPU with the lower peak.
    newer: Name  #: The GPU with the higher peak.
    networks: Value  #: Networks timed on both.
    peak: Value  #: The newer GPU's peak over the older's.
    bandwidth: Value  #: The newer GPU's bandwidth over the older's.
    older_share: Value  #: Least time layer by layer over the measured time, on the older GPU.
    newer_share: Value  #: Least time layer by layer over the measured time, on the newer GPU.
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
    everywhere: Everywhere
    own_first: OwnGpu
    own_step: OwnStep
    first: GpuPair
    second: GpuPair
    calculation: GpuCalculation
    problems: GpuProblems


def of(paper: Paper) -> Bound:
    best, table = published.best_timed(paper.published), paper.published.timings
    changes = published.steps(paper.published)
    calculation = _calculation(paper, best, published.of_best(changes, best))
    own, own_step = _own(paper)
    found = Bound(
        timings=Timings(count_of(len(table), "timings"), count_of(table.model.nunique(), "networks")),
        shares=_shares(paper, best),
        everywhere=_everywhere(paper),
        own_first=own,
        own_step=own_step,
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
    low = Value(float(shares.quantile(0.1)), "%", count=len(shares), counted="networks")
    return GpuShares(
        Name(short_name(best.device)), count_of(rows.model.nunique(), "networks"),
        typical(rows.peak_share, rows.model, "%"), share(rows, "whole_s"), share(rows, "layers_s"), low,
        typical(rows.latency_s / rows.layers_s, rows.model),
        count_of(published.left_out(paper.published, best).model.nunique(), "networks"),
        count_of((shares > 1).sum(), "networks"), fastest,
        share(compiled, "layers_s"),
    )  # fmt: skip


@cache
def own_shares(paper: Paper) -> pd.DataFrame:
    """Return one row per network, own GPU and precision: the ``share`` of the datasheet's roof layer by layer.

    GPUs without a row among the chips are left out. The batch is the largest that half of the networks ran.
    """
    found = []
    for machine in paper.undisturbed.machines:
        roof = roof_of(paper.chips, chip_named(paper.chips, machine.environment.name))
        if machine.chip_kind != "gpu" or roof is None:
            continue
        cells = matching(machine.cells, status="ok")
        cells = cells.assign(least_s=layered_s(cells, paper.operators, roof)).dropna(subset="least_s")
        rows = _largest(cells)
        rows = rows[rows.precision.isin([BASE_PRECISION, machine.lower_precision])]
        share = rows.least_s / rows.latency_s
        found.append(rows.assign(
            device=machine.name, folder=machine.folder, share=share, bandwidth_byte_per_s=roof.byte_per_s,
            peak_flop_per_s=reachable_peak(roof, machine.lower_precision or BASE_PRECISION),
        ))  # fmt: skip
    return (
        pd.concat(found)
        if found
        else pd.DataFrame(columns=["device", "folder", "precision", "model", "batch", "share"])
    )


def _largest(cells: pd.DataFrame) -> pd.DataFrame:
    """Return the cells of the largest batch that half of the networks ran."""
    networks = cells.groupby("batch").model.nunique()
    return cells[cells.batch == networks[2 * networks >= networks.max()].index.max()]


@cache
def everywhere(paper: Paper) -> pd.DataFrame:
    """Return one row per device and precision, the largest share first: the median ``share`` of its networks.

    ``low`` and ``high`` are the ends of its interval, ``tenth`` and ``nine_tenths`` hold eight networks in ten. ``who``
    timed them, on ``batch`` inputs, the median. A processor is under its measured roof, others under datasheets.
    """
    sets: list[tuple[str, str, float, str, str, pd.Series]] = [
        (each.device, each.computed, each.rows.batch.median(), published.timed_by(each.rows), "",
         published.of_networks(each.rows.layers_s / each.rows.latency_s, each.rows.model))
        for each in published.by_device(paper.published)
    ]  # fmt: skip
    for (device, precision), rows in own_shares(paper).groupby(["device", "precision"]):
        sets.append((str(device), str(precision), rows.batch.iloc[0], OWN, rows.folder.iloc[0], rows.share))
    processors = [machine for machine in paper.undisturbed.machines if machine.chip_kind == "cpu"]
    for machine in processors:
        cells = matching(machine.cells, status="ok", precision=BASE_PRECISION).dropna(subset="operator_bound_s")
        rows = _largest(cells)
        share = rows.operator_bound_s / rows.latency_s
        sets.append((machine.name, BASE_PRECISION, rows.batch.max(), OWN, machine.folder, share))
    found = []
    for device, precision, batch, who, folder, shares in sets:
        middle = median_of(shares, "%", "networks")
        if len(shares) >= FEWEST_MODELS and middle.number is not None:
            found.append({
                "device": short_name(device), "precision": precision, "batch": int(batch), "who": who, "folder": folder,
                "networks": len(shares), "share": middle.number, "low": middle.low, "high": middle.high,
                "tenth": shares.quantile(0.1), "nine_tenths": shares.quantile(0.9),
                "is_processor": device in [machine.name for machine in processors],
            })  # fmt: skip
    rows = pd.DataFrame(found)
    if rows.empty:
        return rows
    names = map(_named, rows.device, rows.precision, rows.batch)
    return rows.assign(name=list(names)).sort_values("share", ascending=False, kind="stable", ignore_index=True)


def _everywhere(paper: Paper) -> Everywhere:
    rows = everywhere(paper)
    if rows.empty:
        return missing(Everywhere)
    at_hand = short_name(paper.at_hand.name) if paper.at_hand else ""
    processors = rows[rows.is_processor].assign(name=rows.device)
    processors = processors.sort_values("name", key=lambda names: names != at_hand, kind="stable")
    under_datasheets = rows[~rows.is_processor]
    most, least = _ends(under_datasheets)
    large_most, large_least = _ends(under_datasheets[under_datasheets.batch >= LARGE])
    processor = (_shares_of(processors) or [NOTHING])[0]
    return Everywhere(least, most, exact(LARGE), large_least, large_most, processor, _with_channels_last(paper))


def _with_channels_last(paper: Paper) -> Value:
    """Return the highest median share of a GPU timed with channels last."""
    found = [NOTHING]
    rows = published.newest(paper.published, layout="channels_last")
    for (device, computed), timed in rows.groupby(["device", "computed"]):
        if timed.model.nunique() >= published.FEWEST:
            name = _named(short_name(str(device)), str(computed), int(timed.batch.median()))
            found.append(replace(share(timed, "layers_s"), name=name))
    return max(found, key=lambda value: value.number or 0)


def _named(device: str, precision: str, batch: int) -> str:
    return f"{device} at {precision}, batch {batch:,}"


def _ends(rows: pd.DataFrame) -> tuple[Value, Value]:
    """Return the first share and the last of at least two."""
    values = _shares_of(rows)
    return (values[0], values[-1]) if len(values) > 1 else (NOTHING, NOTHING)


def _shares_of(rows: pd.DataFrame) -> list[Value]:
    """Return the shares with their names, without those of too wide an interval."""
    values = [
        Value(share, "%", low, high, networks, "networks", name, _source(folder) if folder else None)
        for share, low, high, networks, name, folder in zip(
            rows.share, rows.low, rows.high, rows.networks, rows["name"], rows.folder, strict=True
        )
    ]
    return [value for value in values if not value.is_missing]


def _source(folder: str) -> Source:
    """Return the source of shares that this program measured on a machine, or on all GPUs (``*``)."""
    return Source(f"machines/{folder}/samples.csv", "inference, eager, the largest batch", gpu_command())


def _own(paper: Paper) -> tuple[OwnGpu, OwnStep]:
    """Return the shares on a GPU of this program, and their change to one with faster memory and the same peak.

    Without such a pair, the shares on the first GPU.
    """
    gpus = [
        rows for _, rows in own_shares(paper).groupby("device", sort=False) if rows.model.nunique() >= FEWEST_MODELS
    ]
    if not gpus:
        return missing(OwnGpu), missing(OwnStep)
    pair = next((pair for pair in permutations(gpus, 2) if _has_only_faster_memory(*pair)), None)
    source, rows = _source("*"), pair[0] if pair else gpus[0]
    base, lower = rows[rows.precision == BASE_PRECISION], rows[rows.precision != BASE_PRECISION]
    shares = [median_of(part.share, "%", "networks") for part in (base, lower)]
    own = OwnGpu(Name(rows.device.iloc[0]), Name(next(iter(lower.precision), None)), *shares)
    if pair is None:
        return sourced(own, source), missing(OwnStep)
    changes = [part.merge(pair[1], on=["model", "batch", "precision"]) for part in (base, lower)]
    ratios = [median_of(each.share_y / each.share_x, counted="networks") for each in changes]
    step = OwnStep(Name(pair[1].device.iloc[0]), count_of(len(changes[0]), "networks"), *ratios)
    return sourced(own, source), sourced(step, source)


def _has_only_faster_memory(one: pd.DataFrame, other: pd.DataFrame) -> bool:
    """Return whether the other GPU's datasheet has the same peak and more bandwidth."""
    columns = ["peak_flop_per_s", "bandwidth_byte_per_s"]
    (peak, bandwidth), (others_peak, others_bandwidth) = (rows[columns].iloc[0] for rows in (one, other))
    return peak == others_peak and bandwidth < others_bandwidth


def _step(changes: list[pd.DataFrame], at: int) -> GpuPair:
    if at >= len(changes):
        return missing(GpuPair)
    pairs = changes[at]
    row = pairs.iloc[0]
    return GpuPair(
        name_in(pairs), name_in(pairs, "device_other"), count_of(pairs.model.nunique(), "networks"),
        exact(row.peak_flop_per_s_other / row.peak_flop_per_s),
        exact(row.bandwidth_byte_per_s_other / row.bandwidth_byte_per_s),
        *(typical(pairs[f"layers_s{end}"] / pairs[f"latency_s{end}"], pairs.model, "%") for end in ("", "_other")),
        *(published.gain(pairs, column) for column in ("input_s", "whole_s", "layers_s")),
    )  # fmt: skip


def _calculation(paper: Paper, best: BestTimed | None, following: pd.DataFrame | None) -> GpuCalculation:
    if best is None or following is None:
        return missing(GpuCalculation)
    pairs = following[(following.model == EXAMPLE) & (following.input_size == best.of_usual_size.input_size.iloc[0])]
    if pairs.empty:
        return missing(GpuCalculation)
    row: Any = pairs.iloc[0]
    kinds = published.by_operators(pairs.iloc[:1], paper.published.kinds)
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
