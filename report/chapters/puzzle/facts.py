"""The numbers of the chapter on the puzzle: a network with a sixth of the arithmetic that takes longer."""

from dataclasses import replace
from functools import cache
from typing import Any

import pandas as pd

from measure.domain.advice import KEPT_MEMORY
from measure.domain.models import STORY
from report import options
from report.facts import Facts, missing, of_chapter, sourced
from report.paper import BASE_PRECISION, Machine, Paper, published
from report.paper.chips import short_name
from report.paper.frames import each, matching
from report.paper.published import TWINS
from report.stats.value import NOTHING, Name, Source, Value, count_of, estimated, exact, ratio

LIGHT, HEAVY = STORY

SIXTEEN_BITS = "fp16"  # the precision of the puzzle
BY_BYTES = 1 / 2  # the share of the time from which on the bytes decide


class Needs(Facts):
    light_flop: Value  #: FLOP of MobileNet-v2.
    heavy_flop: Value  #: FLOP of ResNet-18.
    fewer: Value  #: FLOP of ResNet-18 over the FLOP of MobileNet-v2.
    light_byte: Value  #: Bytes that MobileNet-v2 moves layer by layer at 16 bits.


class PuzzleElsewhere(Facts):
    """The time of MobileNet-v2 over ResNet-18's on devices with published timings, in eager mode at 16 bits."""

    devices: Value  #: Devices with both networks timed.
    slower: Value  #: Devices where MobileNet-v2 takes longer than ResNet-18.
    by_bytes: Value  #: Devices where the bytes of MobileNet-v2 at the bandwidth take more than half of its time.
    batch: Value  #: The smallest batch size where bytes take more than half.
    other_batch: Value  #: The largest batch size where the bytes take less.
    most_bytes: Value  #: The largest share of MobileNet-v2's time that its bytes take where they take less than half.


class Bounds(Facts):
    device: Name  #: The GPU with the most networks timed.
    peak: Value  #: The GPU's peak at 16 bits.
    bandwidth: Value  #: The GPU's bandwidth.
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
    ratio: Value  #: Latency of MobileNet-v2 over ResNet-18's.
    kept: Value  #: Latency of MobileNet-v2 over ResNet-18's with freed memory kept.


class OnGpu(Facts):
    """The two networks on a measured GPU at two precisions, in the largest batch with all four times."""

    device: Name  #: The GPU.
    batch: Value  #: The largest batch size with both networks at both precisions.
    precision: Name  #: The lower precision.
    base: Value  #: Latency of MobileNet-v2 over ResNet-18's at fp32.
    lower: Value  #: Latency of MobileNet-v2 over ResNet-18's at the lower precision.


class PuzzleProblems(Facts):
    by_bytes: Value  #: Time of MobileNet-v2 over ResNet-18's by the bytes alone.
    measured: Value  #: Published time of MobileNet-v2 over ResNet-18's.
    needed: Value  #: Bandwidth that would move the bytes of MobileNet-v2 as fast as its FLOP are computed.


class Puzzle(Facts):
    needs: Needs
    elsewhere: PuzzleElsewhere
    bounds: Bounds
    here: PuzzleHere
    reference: PuzzleHere
    gpu: OnGpu
    problems: PuzzleProblems
    always_slower: bool  #: MobileNet-v2 takes longer on every device with published timings
    bits_count: bool  #: At the lower precision, MobileNet-v2 takes more of ResNet-18's time than at fp32
    here_is_apart: bool  #: The ratio of the machine at hand is known and told nowhere else
    times_have_widths: bool  #: The typical interval of a time on the machine at hand is known
    has_measured_ratio: bool  #: One of the last two holds
    claims: dict[str, bool]


def of(paper: Paper) -> Puzzle:
    pair = _best_pair(paper)
    bounds, elsewhere, gpu = _bounds(*pair), _elsewhere(paper), _on_gpu(paper)
    own, reference = here(paper.at_hand), here(paper.reference.at_hand)
    bits_count = (gpu.lower.number or 0) > (gpu.base.number or 0)
    kept_memory_turns = reference.kept.below(1) and not reference.ratio.below(1)
    elsewhere_told = {gpu.device.text if bits_count else None, reference.machine.text if kept_memory_turns else None}
    here_is_apart = not own.ratio.is_missing and own.machine.text not in elsewhere_told
    return Puzzle(
        needs=_needs(paper, pair[1]),
        elsewhere=sourced(elsewhere, published.SOURCE),
        bounds=sourced(bounds, published.SOURCE),
        here=own,
        reference=reference,
        gpu=gpu,
        problems=sourced(_problems(bounds), published.SOURCE),
        always_slower=elsewhere.slower.number == elsewhere.devices.number,
        bits_count=bits_count,
        here_is_apart=here_is_apart,
        times_have_widths=not of_chapter("method", paper).cells.half_width.is_missing,
        has_measured_ratio=bits_count or here_is_apart,
        claims={"kept_memory_turns": kept_memory_turns},
    )


def _elsewhere(paper: Paper) -> PuzzleElsewhere:
    rows = compared(paper)
    if rows.empty:
        return missing(PuzzleElsewhere)
    large, small = rows[rows.byte_share > BY_BYTES], rows[rows.byte_share <= BY_BYTES]
    return PuzzleElsewhere(
        count_of(len(rows), "devices"), count_of((rows.ratio > 1).sum(), "devices"), count_of(len(large), "devices"),
        exact(large.batch.min()), exact(small.batch.max()), exact(small.byte_share.max(), "%"),
    )  # fmt: skip


@cache
def compared(paper: Paper) -> pd.DataFrame:
    """Return one row per device: ``ratio``, the time of an image in MobileNet-v2 over ResNet-18's at 16 bits.

    Both were timed in eager mode under the same conditions, in the newest software. ``byte_share`` is the share that
    MobileNet-v2's bytes, layer by layer at the bandwidth, take of its time. Devices without a roof are left out.
    """
    rows = matching(published.timed(paper.published), compiler="", layout="contiguous", computed=SIXTEEN_BITS)
    found = [
        published.paired(rows[rows.model == heavy].assign(model=""), rows[rows.model == light].assign(model=""))
        for light, heavy in ((LIGHT, HEAVY), (TWINS[LIGHT], TWINS[HEAVY]))
    ]
    pairs = pd.concat(found)
    light_s = pairs.latency_s_other
    return (
        pairs.assign(
            name=pairs.device.map(short_name), ratio=light_s / pairs.latency_s,
            byte_share=pairs.layers_byte_other / pairs.bandwidth_byte_per_s / light_s,
            newest=pairs.torch.map(published.version),
        )
        .sort_values("newest", kind="stable")
        .drop_duplicates("device", keep="last")
    )  # fmt: skip


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
    found = PuzzleHere(Name(machine.name), count_of(batch), ratio(light, heavy), turned)
    command = options.measure_command(f"--models {LIGHT} {HEAVY}")
    return sourced(found, Source(f"machines/{machine.folder}/runs.csv", f"{LIGHT}, {HEAVY}", command))


def _on_gpu(paper: Paper) -> OnGpu:
    machine = paper.undisturbed.machine("gpu")
    if machine is None:
        return missing(OnGpu)
    precisions = [BASE_PRECISION, machine.lower_precision]
    cells = matching(machine.cells, status="ok")
    cells = cells[cells.model.isin(STORY) & cells.precision.isin(precisions)]
    times = cells.pivot_table(index="batch", columns=["precision", "model"], values="latency_s").dropna()
    if times.empty or times.shape[1] < len(set(precisions)) * len(STORY):
        return missing(OnGpu)
    at = times.loc[times.index.max()]
    ratios = [exact(at[precision, LIGHT] / at[precision, HEAVY]) for precision in precisions]
    found = OnGpu(Name(machine.name), exact(times.index.max()), Name(machine.lower_precision), *ratios)
    source = Source(f"machines/{machine.folder}/samples.csv", "inference, eager", options.gpu_command())
    return sourced(found, source)


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
