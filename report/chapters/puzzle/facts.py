"""The numbers of the chapter on the puzzle: a network with a sixth of the arithmetic that takes longer."""

from dataclasses import replace
from typing import Any

import pandas as pd

from measure.domain.advice import KEPT_MEMORY
from measure.domain.models import STORY
from measure.domain.words import INFERENCE
from report import options
from report.facts import Facts, missing, sourced
from report.paper import BASE_PRECISION, Machine, Paper, published
from report.paper.chips import short_name
from report.paper.frames import each, matching
from report.paper.published import TWINS
from report.stats.value import NOTHING, Name, Source, Value, count_of, estimated, exact, extremes, median_of, ratio

LIGHT, HEAVY = STORY

SIXTEEN_BITS, CONTROL = "fp16", "fp64"
"""The precisions of the puzzle, and of a control where arithmetic is expensive on most GPUs."""


class Needs(Facts):
    light_flop: Value  #: FLOP of MobileNet-v2.
    heavy_flop: Value  #: FLOP of ResNet-18.
    fewer: Value  #: FLOP of ResNet-18 over the FLOP of MobileNet-v2.
    light_byte: Value  #: Bytes that MobileNet-v2 moves layer by layer at 16 bits.


class PuzzleElsewhere(Facts):
    """The time of MobileNet-v2 over ResNet-18's on devices that others timed, in eager mode."""

    devices: Value  #: GPUs with both networks timed at 16 bits.
    slower: Value  #: GPUs where MobileNet-v2 takes longer than ResNet-18 at 16 bits.
    least: Value  #: The lowest ratio of times, MobileNet-v2 over ResNet-18, at 16 bits, with its GPU.
    most: Value  #: The highest ratio of times at 16 bits, with its GPU.
    least_bytes: Value  #: The smallest share of MobileNet-v2's time that its bytes take at the bandwidth.
    most_bytes: Value  #: The largest such share, with its GPU.
    by_bytes: Value  #: GPUs where these bytes take more than half of the time.


class Control(Facts):
    typical: Value  #: The typical ratio of times, MobileNet-v2 over ResNet-18, at fp64.


class Bounds(Facts):
    device: Name  #: The GPU with the most networks timed.
    peak: Value  #: The GPU's peak at 16 bits.
    bandwidth: Value  #: The GPU's bandwidth.
    ridge: Value  #: The GPU's ridge point (FLOP/B).
    light_arithmetic: Value  #: Least time of the FLOP of MobileNet-v2 for one image.
    heavy_arithmetic: Value  #: Least time of the FLOP of ResNet-18 for one image.
    light_bytes: Value  #: Least time of the bytes of MobileNet-v2 for one image, layer by layer.
    heavy_bytes: Value  #: Least time of the bytes of ResNet-18 for one image, layer by layer.
    light_intensity: Value  #: FLOP per byte of MobileNet-v2, layer by layer.
    light: Value  #: Published time of MobileNet-v2 for one image.
    heavy: Value  #: Published time of ResNet-18 for one image.
    light_share: Value  #: Least time of MobileNet-v2, layer by layer, over its published time.
    heavy_share: Value  #: Least time of ResNet-18, layer by layer, over its published time.


class PuzzleHere(Facts):
    machine: Name  #: The measured machine.
    batch: Value  #: The largest common batch size of both networks.
    light: Value  #: Latency of MobileNet-v2.
    heavy: Value  #: Latency of ResNet-18.
    ratio: Value  #: Latency of MobileNet-v2 over ResNet-18's.
    kept: Value  #: Latency of MobileNet-v2 over ResNet-18's with freed memory kept.


class PuzzleProblems(Facts):
    by_bytes: Value  #: Time of MobileNet-v2 over ResNet-18's by the bytes alone.
    measured: Value  #: Published time of MobileNet-v2 over ResNet-18's.
    needed: Value  #: Bandwidth that would move the bytes of MobileNet-v2 as fast as its FLOP are computed.


class Puzzle(Facts):
    needs: Needs
    elsewhere: PuzzleElsewhere
    control: Control
    bounds: Bounds
    here: PuzzleHere
    reference: PuzzleHere
    problems: PuzzleProblems
    claims: dict[str, bool]


def of(paper: Paper) -> Puzzle:
    pairs = compared(paper)
    sixteen, double = (matching(pairs, computed=each).set_index("name").ratio for each in (SIXTEEN_BITS, CONTROL))
    least, most = extremes(sixteen, fewest=2)
    share = byte_share(paper)
    elsewhere = PuzzleElsewhere(
        count_of(len(sixteen), "GPUs"), count_of((sixteen > 1).sum(), "GPUs"), least, most,
        *extremes(share, "%", fewest=2), count_of((share > 1 / 2).sum() if len(share) else None, "GPUs"),
    )  # fmt: skip
    pair = _best_pair(paper)
    bounds, reference = _bounds(*pair), here(paper.reference.at_hand)
    return Puzzle(
        needs=_needs(paper, pair[1]),
        elsewhere=sourced(elsewhere, published.SOURCE),
        control=sourced(Control(median_of(double)), published.SOURCE),
        bounds=sourced(bounds, published.SOURCE),
        here=here(paper.at_hand),
        reference=reference,
        problems=sourced(_problems(bounds), published.SOURCE),
        claims={"kept_memory_turns": reference.kept.below(1) and not reference.ratio.below(1)},
    )


def compared(paper: Paper) -> pd.DataFrame:
    """Return one row per device and precision: ``ratio``, the time of an image in MobileNet-v2 over ResNet-18's.

    Both were timed in eager mode under the same conditions, in the newest software.
    """
    rows = matching(paper.published.timings, phase=INFERENCE, compiler="", layout="contiguous")
    found = [
        published.paired(rows[rows.model == heavy].assign(model=""), rows[rows.model == light].assign(model=""))
        for light, heavy in ((LIGHT, HEAVY), (TWINS[LIGHT], TWINS[HEAVY]))
    ]
    pairs = pd.concat(found)
    pairs = pairs.assign(ratio=pairs.latency_s_other / pairs.latency_s, newest=pairs.torch.map(published.version))
    return (
        pairs.sort_values("newest", kind="stable")
        .drop_duplicates(["device", "computed"], keep="last")
        .assign(name=lambda found: found.device.map(short_name))
    )


def byte_share(paper: Paper) -> pd.Series:
    """Return, by device, the share that the layers' bytes of MobileNet-v2 at the bandwidth take of its time at 16 bits.

    Devices without a roof are left out.
    """
    pairs = matching(compared(paper), computed=SIXTEEN_BITS)
    timed = published.timed(paper.published)
    timed = timed[timed.model.isin([LIGHT, TWINS[LIGHT]])]
    same = ["device", "source", "batch", "torch", "computed"]
    rows = pairs[[*same, "name", "latency_s_other"]].merge(timed, on=same)
    rows = rows[rows.latency_s == rows.latency_s_other].drop_duplicates("name").set_index("name")
    return rows.layers_byte / rows.bandwidth_byte_per_s / rows.latency_s


def _best_pair(paper: Paper) -> tuple[str, list[Any]]:
    """Return the GPU with the most networks timed, and its rows of both networks; no rows if it lacks one."""
    best = published.best_timed(paper.published)
    rows = {row.model: row for row in each(best.of_usual_size)} if best else {}
    twins = [TWINS[LIGHT], TWINS[HEAVY]]
    return best.device if best else "", [rows[twin] for twin in twins] if rows.keys() >= set(twins) else []


def _needs(paper: Paper, pair: list[Any]) -> Needs:
    """Take the counts behind the published timings if both networks were not counted here at two bytes per element."""
    rows = matching(paper.workloads, precision="bf16", batch=paper.workloads.batch.max()).set_index("model")
    if {LIGHT, HEAVY} <= set(rows.index):
        counted = each(rows.loc[[LIGHT, HEAVY]])
        needs = [(row.forward_flop / row.batch, row.traffic_byte / row.batch) for row in counted]
        source = Source("workload/models.csv", "mobilenet_v2, resnet18", options.measure_command())
    elif pair:
        needs = [(row.flop / row.batch, row.layers_byte / row.batch) for row in pair]
        source = published.SOURCE
    else:
        return missing(Needs)
    (flop, byte), (heavy_flop, _) = needs
    return sourced(
        Needs(exact(flop, "FLOP"), exact(heavy_flop, "FLOP"), exact(heavy_flop / flop), exact(byte, "B")), source
    )


def _bounds(device: str, pair: list[Any]) -> Bounds:
    if not pair:
        return missing(Bounds)
    light, heavy = pair

    def times(row: Any) -> tuple[float, float]:
        return row.flop / row.peak_flop_per_s / row.batch, row.layers_byte / row.bandwidth_byte_per_s / row.batch

    return Bounds(
        device=Name(short_name(device)),
        peak=exact(light.peak_flop_per_s, "FLOP/s"), bandwidth=exact(light.bandwidth_byte_per_s, "B/s"),
        ridge=exact(light.peak_flop_per_s / light.bandwidth_byte_per_s, "FLOP/B"),
        light_arithmetic=exact(times(light)[0], "s"), heavy_arithmetic=exact(times(heavy)[0], "s"),
        light_bytes=exact(times(light)[1], "s"), heavy_bytes=exact(times(heavy)[1], "s"),
        light_intensity=exact(light.flop / light.layers_byte, "FLOP/B"),
        light=exact(light.input_s, "s"), heavy=exact(heavy.input_s, "s"),
        light_share=exact(light.layers_s / light.latency_s, "%"),
        heavy_share=exact(heavy.layers_s / heavy.latency_s, "%"),
    )  # fmt: skip


def here(machine: Machine | None) -> PuzzleHere:
    both = largest(machine)
    if machine is None or both is None:
        return replace(missing(PuzzleHere), machine=Name(machine.name if machine else None))
    light, heavy = (estimated(row, "latency_s", "s") for row in both)
    batch = int(both[0].batch)
    variants = matching(machine.variants, variant=KEPT_MEMORY, status="ok", precision=BASE_PRECISION, batch=batch)
    quick = {row.model: estimated(row, "latency_s", "s") for row in each(variants)}
    turned = ratio(quick.get(LIGHT, NOTHING), quick.get(HEAVY, NOTHING))
    found = PuzzleHere(Name(machine.name), count_of(batch), light, heavy, ratio(light, heavy), turned)
    command = options.measure_command(f"--models {LIGHT} {HEAVY}")
    return sourced(found, Source(f"machines/{machine.folder}/runs.csv", f"{LIGHT}, {HEAVY}", command))


def largest(machine: Machine | None) -> tuple[Any, Any] | None:
    """Return the cells of both networks at their largest common batch size, timed with memory kept if possible."""
    if machine is None:
        return None
    cells = matching(machine.cells, status="ok", precision=BASE_PRECISION)
    variants = matching(machine.variants, status="ok", precision=BASE_PRECISION, variant=KEPT_MEMORY)
    common = set(matching(cells, model=LIGHT).batch) & set(matching(cells, model=HEAVY).batch)
    if not common:
        return None
    batch = max(common & set(variants.batch) or common)
    light, heavy = (next(each(matching(cells, model=model, batch=batch))) for model in (LIGHT, HEAVY))
    return light, heavy


def _problems(bounds: Bounds) -> PuzzleProblems:
    light, peak = bounds.light_intensity.number, bounds.peak.number
    return PuzzleProblems(
        ratio(bounds.light_bytes, bounds.heavy_bytes), ratio(bounds.light, bounds.heavy),
        exact(peak / light if peak and light else None, "B/s"),
    )  # fmt: skip
