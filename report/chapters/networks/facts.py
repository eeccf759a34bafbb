"""The numbers of the chapter on networks: FLOP, bytes, intensities, and the side of the ridge point they lie on.

Bytes are counted in two ways. *Whole* counts parameters, inputs and outputs (the compulsory bytes). *Layer by layer*
counts what every operator reads from memory and writes to it (the traffic). Each operator takes the longer of its two
times, and the sum over operators is the *layer-by-layer bound*.
"""

from functools import cache
from math import ceil, nan

import pandas as pd

from measure.domain.model_work import beyond_weights
from measure.domain.models import STORY
from measure.domain.names import model_name
from measure.domain.roofs import Roofline
from measure.domain.words import INFERENCE, PRECISION_BYTE, PRODUCT_KINDS
from report.display import LISTED
from report.facts import Facts, missing, source_of, sourced
from report.paper import BASE_PRECISION, Machine, Paper
from report.paper.chips import fastest
from report.paper.frames import each, matching
from report.stats.value import NOTHING, Name, Value, count_of, estimated, exact, extremes, median_of

GPU = "NVIDIA GeForce RTX 4090"
"""The GPU of the story, with the most networks timed by others; used if no GPU was measured."""
GPU_PRECISION = "fp16"
RESNET = STORY[1]
ROWS = 40  # networks that a figure of the paper has room for, one below the other
BYTES = {"whole": "compulsory_byte", "layers": "traffic_byte"}
COUNTS = source_of("workload/models.csv", "fp32", "workload")
LAYERS = source_of("workload/layers.csv", "fp32, batch size 1", "workload")
OPERATORS = source_of("workload/operators.csv", "mobilenet_v2 and resnet18, fp32, inference", "workload")
ROOFS = source_of("workload/models.csv, roofs.csv, chips.csv", "all", "workload roofs")


class NetworkCounted(Facts):
    networks: Value  #: Number of networks counted.
    flop_span: Value  #: Most FLOP of one forward pass over fewest.
    memory_span: Value  #: Highest peak of memory over the lowest.
    least_per_parameter: Value  #: Fewest FLOP per parameter, with the network.
    most_per_parameter: Value  #: Most FLOP per parameter, with the network.


class NetworkKinds(Facts):
    """Shares of the layers that multiply matrices (convolutions, linear layers, attention) and of all others."""

    products_flop: Value  #: Share of a network's operations in layers that multiply matrices, of all FLOP; median.
    products_byte: Value  #: Share of the bytes between layers that these layers move; median.
    most_rest: Value  #: The highest share of bytes moved by all other layers, with the network.
    least_rest: Value  #: The lowest share of bytes moved by all other layers, with the network.


class NetworkBatching(Facts):
    large: Value  #: The largest batch size counted for at least half of the networks.
    parameters: Value  #: Share of parameters in the bytes of all layers of ResNet-18 at batch size 1.
    parameters_large: Value  #: Share of parameters in these bytes at the largest batch size.
    whole_growth: Value  #: Intensity of ResNet-18 as a whole at the largest batch size over batch size 1.
    layers_growth: Value  #: Intensity of ResNet-18 layer by layer at the largest batch size over batch size 1.


class OnRoof(Facts):
    name: Name  #: The machine, or the chip of a datasheet.
    precision: Name  #: The precision of the roof.
    ridge: Value  #: The ridge point of the machine or chip.
    networks: Value  #: Networks counted at batch size 1.
    whole: Value  #: Networks that are memory-bound as a whole at batch size 1.
    layers: Value  #: Networks that are memory-bound layer by layer at batch size 1.
    networks_large: Value  #: Networks counted at the largest batch size.
    whole_large: Value  #: Networks that are memory-bound as a whole at the largest batch size.
    layers_large: Value  #: Networks that are memory-bound layer by layer at the largest batch size.
    typical: Value  #: Intensity of the whole network at batch size 1; median.


class NetworkWork(Facts):
    """One image of a large batch, layer by layer, under the GPU's roof at its precision."""

    bound: Value  #: Layer-by-layer bound of an image.
    fused: Value  #: The bound without normalisations and activations.
    rest: Value  #: Share of normalisations and activations in the bound.


class Pair(Facts):
    batch: Value  #: Batch size of both networks.
    mobilenet: NetworkWork
    resnet: NetworkWork
    flop_ratio: Value  #: ResNet-18's FLOP over MobileNet-v2's.
    byte_ratio: Value  #: MobileNet-v2's bytes over ResNet-18's.
    bound_ratio: Value  #: Layer-by-layer bound of MobileNet-v2 over ResNet-18's.
    fused_ratio: Value  #: The same ratio with normalisations and activations fused.


class Crossing(Facts):
    flop: Value  #: FLOP of one image in ResNet-18.
    parameters: Value  #: Bytes of the parameters of ResNet-18, at the GPU's precision.
    input: Value  #: Bytes of an image and its output.
    batch: Value  #: The smallest batch size with the whole network above the ridge point.
    limit: Value  #: FLOP per byte of ResNet-18, layer by layer, in an endless batch.
    limit_over_ridge: Value  #: Intensity of an endless batch, layer by layer, over the GPU's ridge point.


class Networks(Facts):
    counted: NetworkCounted
    kinds: NetworkKinds
    batching: NetworkBatching
    on_cpu: OnRoof
    on_gpu: OnRoof
    pair: Pair
    crossing: Crossing
    reference: OnRoof
    is_sampled: bool  #: More networks were counted than the figure with both ridge points shows
    is_cpu_measured: bool  #: The processor's roof is measured, not a datasheet's
    is_gpu_measured: bool  #: The GPU's roof is measured, not a datasheet's
    is_thinned: bool  #: More networks were counted than a list of all shows
    claims: dict[str, bool]


def of(paper: Paper) -> Networks:
    cpu, gpu, reference = on_roof(paper, "cpu"), on_roof(paper, "gpu"), on_roof(paper.reference, "cpu")
    is_measured = {kind: (roof := roof_of(paper, kind)) is not None and roof[-1] is not None for kind in ("cpu", "gpu")}
    waiting = {byte: set(memory_bound(paper.reference, "cpu", byte).family) for byte in BYTES}
    return Networks(
        counted=sourced(_counted(paper), COUNTS),
        kinds=sourced(_kinds(paper), LAYERS),
        batching=sourced(_batching(paper), COUNTS),
        on_cpu=sourced(cpu, ROOFS),
        on_gpu=sourced(gpu, ROOFS),
        pair=sourced(pair(paper), OPERATORS),
        crossing=sourced(_crossing(paper, gpu), COUNTS),
        reference=sourced(reference, ROOFS),
        is_sampled=len(at_batch(paper)) > ROWS,
        is_cpu_measured=is_measured["cpu"],
        is_gpu_measured=is_measured["gpu"],
        is_thinned=len(at_batch(paper)) > LISTED,
        claims={
            "decode_alone": waiting["whole"] == {"language"},
            "compact_too": waiting["layers"] == {"language", "compact"},
        },
    )


@cache
def at_batch(paper: Paper, batch: int | None = 1, precision: str = BASE_PRECISION) -> pd.DataFrame:
    """Return the networks at a batch size (None: at all sizes), fewest FLOP first, with their usual ``name``."""
    rows = matching(paper.workloads, batch=batch, precision=precision).sort_values(["forward_flop", "batch"])
    return rows.assign(name=[model_name(model) for model in rows.model])


def mostly_beyond_weights(paper: Paper) -> frozenset[str]:
    """Return the networks with most of a token's FLOP outside their weights."""
    tokens = at_batch(paper).query("input_shape == '1'")
    layers = matching(paper.layers, batch=1, precision=BASE_PRECISION).rename(columns={"forward_flop": "flop"})
    return frozenset(
        model
        for model, flop in zip(tokens.model, tokens.forward_flop, strict=True)
        if beyond_weights([*each(matching(layers, model=model))], 1) > flop / 2
    )


def large_batch(paper: Paper, precision: str = BASE_PRECISION) -> int:
    """Return the largest batch size counted for at least half of the networks; 1 without any."""
    models = matching(paper.workloads, precision=precision).groupby("batch").model.nunique()
    return int(max(models[2 * models >= models.max()].index, default=1)) if len(models) else 1


def kind_sums(paper: Paper) -> pd.DataFrame:
    """Return all FLOP and the bytes by ``model`` and ``layer_kind`` at batch size 1 and fp32."""
    layers = matching(paper.layers, batch=1, precision=BASE_PRECISION)
    flop = layers.forward_flop.astype(float) + layers.forward_other_flop.astype(float)
    layers = layers.assign(flop=flop, byte=layers.traffic_byte.astype(float))
    return layers.groupby(["model", "layer_kind"])[["flop", "byte"]].sum().reset_index()


def roof_of(paper: Paper, kind: str) -> tuple[str, str, Roofline, Machine | None] | None:
    """Return name, precision and roof of the measured machine of a kind, else of a chip; None without either.

    Processors are at fp32, GPUs at 16 bits if measured there. The chip is the GPU of the story, else the one with the
    highest peak.
    """
    if machine := paper.machine(kind):
        for precision in (BASE_PRECISION,) if kind == "cpu" else (machine.lower_precision, BASE_PRECISION):
            if roof := machine.roof(precision):
                return machine.name, precision, roof, machine
    precision = BASE_PRECISION if kind == "cpu" else GPU_PRECISION
    chips = fastest(matching(paper.chips, chip_kind=kind, precision=precision))
    if chips.empty:
        return None
    row = chips.sort_values("chip", key=lambda names: names != GPU, kind="stable").iloc[0]
    return row.chip, precision, Roofline(row.peak_flop_per_s, row.bandwidth_byte_per_s), None


def counted_at(paper: Paper, precision: str) -> str:
    """Return this precision if it was counted, else a counted one of as many bytes."""
    alike = (other for other in PRECISION_BYTE if PRECISION_BYTE[other] == PRECISION_BYTE[precision])
    counted = set(paper.workloads.precision)
    return next((each for each in (precision, *alike) if each in counted), precision)


def on_roof(paper: Paper, kind: str) -> OnRoof:
    found = roof_of(paper, kind)
    if found is None:
        return missing(OnRoof)
    name, precision, roof, machine = found
    ridge = exact(roof.ridge_flop_per_byte, "FLOP/B")
    if machine:
        ridge = estimated(matching(machine.roofs, precision=precision).iloc[0], "ridge_flop_per_byte", "FLOP/B")
    counted, numbers = counted_at(paper, precision), []
    for batch in (1, large_batch(paper, counted)):
        groups = [at_batch(paper, batch, counted), *(memory_bound(paper, kind, byte, batch) for byte in BYTES)]
        numbers += [count_of(len(rows), "networks") if len(groups[0]) else NOTHING for rows in groups]
    numbers.append(median_of(at_batch(paper, 1, counted).compulsory_intensity, "FLOP/B"))
    return OnRoof(Name(name), Name(precision), ridge, *numbers)


def memory_bound(paper: Paper, kind: str, byte: str, batch: int = 1) -> pd.DataFrame:
    """Return the networks below the ridge point of the processor or GPU; no rows without a roof."""
    found = roof_of(paper, kind)
    rows = at_batch(paper, batch, counted_at(paper, found[1]) if found else BASE_PRECISION)
    return rows[rows[BYTES[byte]] * (found[2].ridge_flop_per_byte if found else 0) > rows.forward_flop]


def _counted(paper: Paper) -> NetworkCounted:
    rows = at_batch(paper).set_index("name")
    if rows.empty:
        return missing(NetworkCounted)
    flop, memory = (each.where(each > 0) for each in (rows.forward_flop, rows.inference_peak_byte))
    ends = extremes(flop / rows.parameter_count, "FLOP", fewest=2)
    spans = exact(flop.max() / flop.min()), exact(memory.max() / memory.min())
    return NetworkCounted(count_of(len(rows), "models"), *spans, *ends)


def _kinds(paper: Paper) -> NetworkKinds:
    sums = kind_sums(paper)
    whole = sums.groupby("model")[["flop", "byte"]].sum()
    products = sums[sums.layer_kind.isin(PRODUCT_KINDS)].groupby("model")[["flop", "byte"]].sum()
    shares = products.reindex(whole.index, fill_value=0.0) / whole
    least, most = extremes((1 - shares.byte).rename(index=model_name), "%", fewest=2)
    return NetworkKinds(median_of(shares.flop, "%"), median_of(shares.byte, "%"), most, least)


def _batching(paper: Paper) -> NetworkBatching:
    batch = large_batch(paper)
    first, last = (at_batch(paper, size).set_index("model") for size in (1, batch))
    growth = last.traffic_intensity / first.traffic_intensity
    if batch == 1 or RESNET not in growth.dropna():
        return missing(NetworkBatching)
    whole = last.compulsory_intensity[RESNET] / first.compulsory_intensity[RESNET]
    return NetworkBatching(
        large=exact(batch),
        parameters=exact(first.parameter_byte[RESNET] / first.traffic_byte[RESNET], "%"),
        parameters_large=exact(last.parameter_byte[RESNET] / last.traffic_byte[RESNET], "%"),
        whole_growth=exact(whole),
        layers_growth=exact(growth[RESNET]),
    )


def pair_kinds(paper: Paper) -> pd.DataFrame:
    """Return the kinds of layer of both networks of the story: FLOP, bytes and ``bound_s`` of an image on the GPU.

    Each operator takes the longer of its two times, and a kind has their sum. Bytes are counted at fp32 and scaled to
    the GPU's precision. Without a GPU's roof ``bound_s`` is NaN, and a number has two bytes.
    """
    rows = matching(paper.operators, stage=INFERENCE, precision=BASE_PRECISION, batch=large_batch(paper))
    rows = rows[rows.model.isin(STORY)]
    _, precision, roof, _ = roof_of(paper, "gpu") or ("", GPU_PRECISION, Roofline(nan, nan), None)
    size = PRECISION_BYTE[precision] / PRECISION_BYTE[BASE_PRECISION]
    calls, byte = rows.calls / rows.batch, size * rows.byte.astype(float)
    rows = rows.assign(flop=calls * rows.flop, byte=calls * byte, bound_s=calls * roof.least_s(rows.flop, byte))
    sums = rows.groupby(["model", "batch", "layer_kind"])[["flop", "byte", "bound_s"]].sum(min_count=1).reset_index()
    return sums.assign(name=sums.model.map(model_name))


def pair(paper: Paper) -> Pair:
    kinds = pair_kinds(paper)
    if set(kinds.model) != set(STORY):
        return missing(Pair)
    rows = kinds.assign(fused_s=kinds.bound_s.mask(kinds.layer_kind.isin(["normalisation", "activation"])))
    columns = ["flop", "byte", "bound_s", "fused_s"]
    light, heavy = (matching(rows, model=model)[columns].sum(min_count=1) for model in STORY)
    mobilenet, resnet = (
        NetworkWork(
            bound=exact(work.bound_s, "s"),
            fused=exact(work.fused_s, "s"),
            rest=exact(1 - work.fused_s / work.bound_s, "%"),
        )
        for work in (light, heavy)
    )
    over = light / heavy
    ratios = heavy.flop / light.flop, over.byte, over.bound_s, over.fused_s
    return Pair(exact(kinds.batch.iloc[0]), mobilenet, resnet, *map(_certain, ratios))


def _certain(number: float) -> Value:
    """Return a ratio of exact numbers. Its interval has no width, so that its side of 1 is certain."""
    return NOTHING if pd.isna(number) else Value(float(number), "", float(number), float(number))


def _crossing(paper: Paper, gpu: OnRoof) -> Crossing:
    """Solve ``b W = r (P + b A)`` for the batch size b; A are the bytes of an image and its output.

    Layer by layer A are the bytes that one more image adds, so an endless batch has ``W / A``.
    """
    ridge = gpu.ridge
    if ridge.number is None:
        return missing(Crossing)
    rows = matching(at_batch(paper, None, counted_at(paper, str(gpu.precision))), model=RESNET)
    if 1 not in set(rows.batch):
        return missing(Crossing)
    row, last = rows.iloc[0], rows.iloc[-1]  # fewest FLOP first
    moved = row.input_byte + row.output_byte
    gain = row.forward_flop - ridge.number * moved
    batch = exact(max(1, ceil(ridge.number * row.parameter_byte / gain))) if gain > 0 else NOTHING
    added = (last.traffic_byte - row.traffic_byte) / (last.batch - row.batch) if last.batch > row.batch else nan
    limit = row.forward_flop / added
    counts = exact(row.forward_flop, "FLOP"), exact(row.parameter_byte, "B"), exact(moved, "B")
    return Crossing(*counts, batch, exact(limit, "FLOP/B"), _certain(limit / ridge.number))
