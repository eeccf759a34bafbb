"""An answer about one model as lines of a terminal or of Markdown."""

from collections.abc import Callable, Iterable, Sequence

from measure.answering.advice import Advice
from measure.answering.answer import Answer
from measure.answering.demands import Demand, LayerDemand, Reached, bound, costliest
from measure.cache.rates import Rates
from measure.cache.words import CAPPED, DRIFTING, LOADED, SKIPPED, THROTTLED, WIDE
from measure.cli.quantities import latency, percent, plain, si
from measure.cli.tables import Line

NUMBERS = frozenset(
    {"batch", "FLOP", "bytes", "FLOP/B", "memory", "latency", "±", "inputs/s", "reached", "attainable", "share"}
    | {"calls", "parameters", "time"}
)
"""The columns that stand on the right."""

CAVEATS = {
    WIDE: "the interval is wider than asked",
    DRIFTING: "later samples were slower or faster than earlier ones",
    LOADED: "other programs used the processor meanwhile",
    THROTTLED: "the device lowered its clock for heat",
    CAPPED: "the device lowered its clock for its power cap",
    SKIPPED: "the optimiser was left out of some steps",
}
"""What a flag says of a cell."""

Table = Callable[[Sequence[Line], frozenset[str]], list[str]]


def heading(found: Answer, table: Table) -> list[str]:
    """Return which model this is on which machine, and what it asks for."""
    return [
        f"{found.model} on {found.environment.label}, inputs of {found.input_shape}",
        "",
        *table([("batch", "precision", "FLOP", "bytes", "FLOP/B", "memory"), *map(_demand, found.demands)], NUMBERS),
    ]


def bound_lines(found: Answer, rates: Rates | None, source: str) -> list[str]:
    """Say how long a call takes at least under a roof that is known before anything is timed.

    ``source`` says where the roof comes from, or why there is none.
    """
    if rates is None:
        return [f"No first look at the roof: {source}."]
    said = []
    for demand in found.demands:
        peak = rates.flop_per_s.get(demand.precision)
        if peak is None or rates.byte_per_s is None:
            continue
        least_s = max(demand.flop / peak, demand.byte / rates.byte_per_s)
        roof = f"{si(peak, 'FLOP/s')} and {si(rates.byte_per_s, 'B/s')} {source}"
        said.append(
            f"Batch {demand.batch} at {demand.precision}: {latency(least_s)} or more, bound by "
            f"{bound(rates, demand.precision, demand.flop, demand.byte)} ({roof})."
        )
    return said


def _demand(demand: Demand) -> Line:
    return (
        str(demand.batch),
        demand.precision,
        si(demand.flop, "FLOP"),
        si(demand.byte, "B"),
        plain(demand.intensity_flop_per_byte),
        si(demand.peak_byte, "B"),
    )


def lines(found: Answer, table: Table, with_layers: bool, data_flag: str) -> list[str]:
    """Return what it reaches, the costliest layers, what to try first, what to mind; ``with_layers`` all of them."""
    batch = found.demands[0].batch
    said = [*_reached_lines(found, table), "", roof_line(found.rates, [each.precision for each in found.demands])]
    if most := costliest(found.layers):
        named = ", ".join(f"{layer.path} ({layer.layer_kind}) {percent(layer.time_share or 0.0)}" for layer in most)
        said.append(f"Costliest layers at batch size {batch}: {named} of the operators' time.")
    if found.advice:
        said += advice_lines(found.advice, batch, data_flag)
    said += caveats(found.cells)
    return [*said, "", *layer_lines(found.layers, table)] if with_layers else said


def _reached_lines(found: Answer, table: Table) -> list[str]:
    """Return what was timed beside the roof, and why what was not."""
    asked = {(each.batch, each.precision): each for each in found.demands}
    timed = [cell for cell in found.cells if cell.timed.latency_s is not None]
    head = ("batch", "precision", "latency", "±", "inputs/s", "reached", "attainable", "share", "bound by")
    rows = [_reached(cell, asked[cell.timed.batch, cell.timed.precision]) for cell in timed]
    said = table([head, *rows], NUMBERS) if rows else []
    return said + [
        f"Batch size {cell.timed.batch} at {cell.timed.precision}: {cell.timed.status}, {cell.timed.reason}"
        for cell in found.cells
        if cell.timed.latency_s is None
    ]


def _reached(cell: Reached, demand: Demand) -> Line:
    timed = cell.timed
    return (
        str(timed.batch),
        timed.precision,
        latency(timed.latency_s or 0.0),
        _half_width(timed.latency_s, timed.latency_low_s, timed.latency_high_s),
        plain(timed.inputs_per_s or 0.0),
        si(cell.flop_per_s or 0.0, "FLOP/s"),
        "" if demand.attainable_flop_per_s is None else si(demand.attainable_flop_per_s, "FLOP/s"),
        "" if cell.roof_share is None else percent(cell.roof_share),
        demand.bound or "",
    )


def _half_width(middle_s: float | None, low_s: float | None, high_s: float | None) -> str:
    """Return half of an interval as a part of its middle; empty where there is none."""
    return "" if not middle_s or low_s is None or high_s is None else percent((high_s - low_s) / 2 / middle_s)


def layer_lines(layers: Iterable[LayerDemand], table: Table) -> list[str]:
    """Return the layers in the order in which they run; a time where the cell was profiled."""
    head = ("layer", "type", "calls", "parameters", "FLOP", "bytes", "bound by", "time", "share")
    rows = [
        (
            layer.path,
            layer.type,
            str(layer.calls),
            si(layer.parameter_count, ""),
            si(layer.flop, "FLOP"),
            si(layer.byte, "B"),
            layer.bound or "",
            "" if layer.time_s is None else latency(layer.time_s),
            "" if layer.time_share is None else percent(layer.time_share),
        )
        for layer in layers
    ]
    return table([head, *rows], NUMBERS)


def roof_line(rates: Rates, precisions: Iterable[str]) -> str:
    """Say which roofs the cells are held against."""
    known = [each for each in dict.fromkeys(precisions) if each in rates.flop_per_s]
    if not known or rates.byte_per_s is None:
        return "The roof was not measured."
    peaks = " and ".join(f"{si(rates.flop_per_s[each], 'FLOP/s')} at {each}" for each in known)
    said = f"The roof: {peaks}, and {si(rates.byte_per_s, 'B/s')} from memory, as measured here."
    if not rates.load:
        return said
    return (
        f"{said} Other programs used {percent(rates.load)} of the cores meanwhile, so the roof is too low and each "
        "share of it too high: measure again when they are done."
    )


def advice_lines(advice: Advice, batch: int, data_flag: str) -> list[str]:
    """Say what to try first, and what that rests on."""
    if advice.gain is not None:
        return [f"Try first: {advice.remedy}, measured to be {advice.gain:.3g} times as fast as batch size {batch}."]
    return [
        f"Try first: {advice.remedy}. That is a hypothesis: {advice.why}. To test it:",
        f"  python -m measure {advice.flags}{data_flag}",
    ]


def caveats(cells: Iterable[Reached]) -> list[str]:
    """Say what is held against the cells: each flag once, with the batch sizes and precisions that it is about."""
    about: dict[str, list[str]] = {}
    for cell in cells:
        for flag in cell.timed.flags:
            about.setdefault(flag, []).append(f"{cell.timed.batch} at {cell.timed.precision}")
    return [f"Mind batch size {', '.join(which)}: {CAVEATS[flag]} ({flag})." for flag, which in about.items()]
