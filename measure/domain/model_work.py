"""The FLOP and bytes of a model and its layers, their bound on a machine, and the share of the roof that they reach."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from measure.domain.latency import TimedCell
from measure.domain.records import OperatorTime
from measure.domain.roofs import Roof, Roofline
from measure.domain.words import EAGER, INFERENCE, stored_as
from measure.domain.workload_records import Layer, Workload

ARITHMETIC, MEMORY = "arithmetic", "memory"  # the bound of a model or layer: the roof's flat part, or its slope


@dataclass(frozen=True)
class CellWork:
    """The work of one forward pass at a batch size, and the roof above it; None if that roof was not measured.

    ``byte`` is the footprint: parameters, inputs and activations, once each. ``peak_byte`` is the most alive at once.
    """

    batch: int
    precision: str
    flop: int
    byte: int
    intensity_flop_per_byte: float
    peak_byte: int
    attainable_flop_per_s: float | None
    bound: str | None
    uncounted: list[str] = field(default_factory=list)  # operators without a formula; ``flop`` leaves them out
    path: str | None = None  # ``one run`` if values decide which operators run


def uncounted_names(workload: Workload) -> list[str]:
    """Return the operators of a workload that compute and have no formula."""
    return [part.split(":")[0] for part in (workload.uncounted or "").split(";") if part]


@dataclass(frozen=True)
class Reached:
    """A cell in eager mode with its rate, and its share of the attainable rate; None if unknown."""

    timed: TimedCell
    flop_per_s: float | None
    roof_share: float | None


@dataclass(frozen=True)
class LayerWork:
    """A layer's own part of a forward pass: its operators' FLOP and bytes, their bound, and their time in a profile."""

    path: str
    type: str
    layer_kind: str
    calls: int
    parameter_count: int
    flop: int
    byte: int
    bound: str | None
    time_s: float | None
    time_share: float | None


def beyond_weights(layers: Sequence[LayerWork], batch: int) -> int:
    """Return the FLOP of a call beyond 2 for each weight, input and call of its layer.

    If an input is one token, these are attention and repeated projections of the cached tokens. A linear layer without
    weights of its own shares them, like a tied head; none of its FLOP count here.
    """
    return sum(
        max(0, each.flop - 2 * batch * each.calls * each.parameter_count)
        for each in layers
        if each.parameter_count or each.layer_kind != "linear"
    )


def bound(roofline: Roofline | None, flop: int, byte: int) -> str | None:
    """Return the bound of this work; None without work or a measured roof."""
    if roofline is None or not (flop or byte):
        return None
    return MEMORY if roofline.is_memory_bound(flop, byte) else ARITHMETIC


def cell_work(workloads: Iterable[Workload], roof: Roof, precisions: Sequence[str]) -> list[CellWork]:
    """Return the work of a model at each precision and counted batch size, from rows of one input shape."""
    found = []
    for precision in precisions:
        roofline = roof.at(precision)
        for row in sorted(workloads, key=lambda row: row.batch):
            if row.status == "ok" and row.autocast is None and row.precision == stored_as(precision):
                flop, byte = row.forward_flop or 0, row.footprint_byte
                attainable = roofline.attainable(flop / byte) if roofline else None
                found.append(CellWork(
                    row.batch, precision, flop, byte, flop / byte, row.inference_peak_byte or 0, attainable,
                    bound(roofline, flop, byte), uncounted_names(row), row.path,
                ))  # fmt: skip
    return found


def reached(cells: Iterable[TimedCell], works: Iterable[CellWork]) -> list[Reached]:
    """Return the eager inference cells at the batch sizes and precisions of ``works``, in their order."""
    timed = {(each.batch, each.precision): each for each in cells if (each.phase, each.variant) == (INFERENCE, EAGER)}
    found = []
    for work in works:
        if cell := timed.get((work.batch, work.precision)):
            rate = work.flop / cell.latency_s if cell.latency_s else None
            attainable = work.attainable_flop_per_s
            found.append(Reached(cell, rate, rate / attainable if rate is not None and attainable else None))
    return found


def layer_work(
    layers: Iterable[Layer], precision: str, roof: Roof, operators: Iterable[OperatorTime]
) -> list[LayerWork]:
    """Return the layers of a workload in running order, with their operators' time in a profile."""
    times_s: dict[str | None, float] = defaultdict(float)
    for each in operators:
        times_s[each.path] += each.time_s
    whole_s = sum(times_s.values())
    found, layers = [], sorted(layers, key=lambda layer: layer.position)
    for layer in layers:
        flop, byte = layer.forward_flop, layer.traffic_byte
        time_s, share = (times_s[layer.path], times_s[layer.path] / whole_s) if whole_s else (None, None)
        found.append(LayerWork(
            layer.path, layer.type, _kind(layer, layers, times_s), layer.calls, layer.parameter_count, flop, byte,
            bound(roof.at(precision), flop, byte), time_s, share,
        ))  # fmt: skip
    return found


def _kind(layer: Layer, layers: Sequence[Layer], times_s: Mapping[str | None, float]) -> str:
    """Return a layer's kind. A layer fused with all layers below it takes the kind with most of their FLOP."""
    below = [each for each in layers if each.path.startswith(f"{layer.path}.")]
    if not times_s.get(layer.path) or any(times_s.get(each.path) for each in below):
        return layer.layer_kind
    flop = {layer.layer_kind: layer.forward_flop}
    for each in below:
        flop[each.layer_kind] = flop.get(each.layer_kind, 0) + each.forward_flop
    return max(flop, key=lambda kind: flop[kind])
