"""How near the models come to the roofs of the machine."""

import pandas as pd

from measure.domain.values import significant
from report.analysis import available, datasheet, stand_in
from report.analysis.available import finding, on_each_machine
from report.analysis.long_lists import ALWAYS
from report.analysis.stand_in import StandIn
from report.load.paper import BASE_PRECISION, Machine, Paper
from report.text.frame_rows import each, extremes, highest, matching, of_models
from report.text.prose import by_number, intensity, listing, number, percent, si

WANDERING = 0.03
"""A clock differs by no more than this share between the measurement of itself and that of arithmetic."""

NAMED = 4
"""So many models are named in a sentence; of more, only the number is said."""


def named(models: list[str]) -> str:
    """List the models in brackets, where they are few enough."""
    return f" ({listing(models)})" if 0 < len(models) <= NAMED else ""


@finding
def attained(paper: Paper) -> str:
    """Say how near the models come to each machine's roof; and to the one of the GPU that stands in."""
    text, gpu = available.sentences_of_each(paper, _attained), stand_in.of(paper)
    return f"{text} {_by_others(paper, gpu)}" if gpu else text


def _attained(machine: Machine) -> str:
    available.roof(machine)
    cells = available.cells(machine)
    return (
        f"On the {available.title(machine)}, {bounds(cells)}{_either(machine, cells)} {_shares(cells)} {above(machine)}"
    )


def _by_others(paper: Paper, gpu: StandIn) -> str:
    """Say the shares of the datasheet's roof on the GPU that stands in, beside those of the same models here."""
    shares, (worst, best) = of_models(gpu.cells, "attained"), extremes(gpu.cells, "attained")
    text = (
        f"The {gpu.device}, as others timed it at {gpu.batches}, achieves {percent(shares.median())} of what "
        f"the roof of its datasheet allows in the median of {number(len(shares), 'model')}: {percent(worst.attained)} "
        f"({worst.model}) to {percent(best.attained)} ({best.model})"
    )
    (machine,) = paper.shown
    cells = available.cells(machine)
    same = cells[cells.model.isin(shares.index)]
    if same.empty:
        return f"{text}."
    return (
        f"{text}; of the measured roof of the {available.title(machine)} the same models achieve "
        f"{percent(of_models(same, 'attained').median())} in the median, each in that of its batch sizes."
    )


@on_each_machine
def roofs(paper: Paper, machine: Machine) -> str:
    """Say the measured roof, and the datasheet's beside it."""
    roof = available.roof(machine)
    return (
        f"The measured roof of the {available.title(machine)} at {BASE_PRECISION} is "
        f"{si(roof.peak_flop_per_s, 'FLOP/s')} for arithmetic and {si(roof.bandwidth_byte_per_s, 'B/s')} for memory; "
        f"they meet at the ridge point of {intensity(roof.ridge_flop_per_byte)}. {_expected(paper, machine)}"
    )


def _expected(paper: Paper, machine: Machine) -> str:
    """Say the datasheet roof and what share of it was measured, or why there is none."""
    printed = datasheet.roof(paper, machine, BASE_PRECISION)
    if printed is None:
        return datasheet.gap(paper, machine, BASE_PRECISION)
    measured = available.roof(machine)
    share = percent(measured.peak_flop_per_s / printed.peak_flop_per_s)
    if machine.chip_kind == "cpu":
        return (
            f"Its datasheet roof is derived: {printed.derivation} = {si(printed.peak_flop_per_s, 'FLOP/s')}, of which "
            f"{share} was measured. {_clock(machine)} {_excess_over_derived(paper, machine)}"
        )
    assert printed.bandwidth_byte_per_s is not None  # every row of the chips' table has one
    return (
        f"The datasheet of the {printed.chip} prints {si(printed.peak_flop_per_s, 'FLOP/s')} and "
        f"{si(printed.bandwidth_byte_per_s, 'B/s')}: {share} of that peak and "
        f"{percent(measured.bandwidth_byte_per_s / printed.bandwidth_byte_per_s)} of that bandwidth were measured."
    )


def _clock(machine: Machine) -> str:
    """Say what a derived roof assumes of the clock and the cores, and check the clock."""
    assert machine.clock is not None  # a roof was derived from it
    text = (
        f"This assumes that the processor is what it says ({datasheet.identity(machine.environment)}), that every core "
        "has vector units of its own, and that its clock under their load is the one at which all cores added integers."
    )
    if machine.clock.addition_cycle is None:
        return text
    return (
        f"{text} By that clock a floating-point addition took {significant(machine.clock.addition_cycle)} cycles, "
        "which processors do in a small whole number of them."
    )


def _excess_over_derived(paper: Paper, machine: Machine) -> str:
    """Say at which precisions more was measured than derived, which refutes an assumption."""
    over = [
        f"{percent(measured.peak_flop_per_s / roof.peak_flop_per_s)} at {roof.precision}"
        for roof in datasheet.roofs(paper, machine)
        if (measured := machine.roof(roof.precision))
        and measured.peak_flop_per_s > (1 + WANDERING) * roof.peak_flop_per_s
    ]
    if not over:
        return (
            f"At no precision was more measured than derived, but for the {percent(WANDERING)} by which a clock may "
            "wander from one measurement to the next. A bandwidth cannot be derived."
        )
    return (
        f"Of the derived peak {listing(over)} was measured, so one of these assumptions does not hold here: a virtual "
        "machine, for one, may call its processor by an older family. A bandwidth cannot be derived."
    )


def bounds(cells: pd.DataFrame) -> str:
    """Say how many models are memory-bound at each batch size, by footprint; sizes that say the same together."""
    if not cells.memory_bound.any():
        return "by footprint, against the measured ridge point, every model is compute-bound at every batch size."
    alike: dict[tuple[int, tuple[str, ...]], list[str]] = {}
    for batch, rows in cells.groupby("batch"):
        bound = tuple(sorted(rows[rows.memory_bound].model))
        alike.setdefault((len(rows), bound), []).append(str(batch))
    parts: list[str] = []
    for (count, bound), batches in alike.items():
        verb = "at" if parts else f"{'are' if len(bound) > 1 else 'is'} memory-bound at batch size"
        models = f"{len(bound) or 'none'} of {number(count, 'model')}"
        parts.append(f"{models} {verb} {listing(batches)}{named(list(bound))}")
    return f"by footprint, against the measured ridge point, {listing(parts)}; the others are compute-bound."


def _either(machine: Machine, cells: pd.DataFrame) -> str:
    """Name the cells so near the ridge point that its interval leaves open on which side they are."""
    ridge = matching(machine.roofs, precision=BASE_PRECISION).iloc[0]
    within = cells[cells.footprint_intensity.between(ridge.ridge_low_flop_per_byte, ridge.ridge_high_flop_per_byte)]
    if within.empty:
        return ""
    models = [
        f"{model} at {listing([str(batch) for batch in sorted(rows.batch)])}" for model, rows in within.groupby("model")
    ]
    return (
        f" The interval of the ridge point, {significant(ridge.ridge_low_flop_per_byte)} to "
        f"{intensity(ridge.ridge_high_flop_per_byte)}, leaves open on which side of it "
        f"{number(len(within), 'cell')} {by_number(len(within), 'lies', 'lie')}"
        f"{f' ({listing(models)})' if len(models) <= NAMED else ''}."
    )


def _shares(cells: pd.DataFrame) -> str:
    """Say the best, middle and worst share of the attainable rate."""
    (worst, best), peak = extremes(cells, "attained"), highest(cells, "peak_share")
    if len(cells) == 1:
        return f"The one cell measured ({best.model}) achieves {percent(best.attained)} of the attainable rate."
    return (
        f"The share of the attainable rate that is achieved is {percent(cells.attained.median())} in the median of "
        f"{number(len(cells), 'cell')}; highest in {best.model} at batch size {best.batch} ({percent(best.attained)}, "
        f"{si(best.flop_per_s, 'FLOP/s')}), lowest in {worst.model} at batch size {worst.batch} "
        f"({percent(worst.attained)}). Of the peak it is {percent(cells.peak_share.median())} in the median and at "
        f"most {percent(peak.peak_share)} ({peak.model} at batch size {peak.batch})."
    )


def above(machine: Machine) -> str:
    """Say which cells at all precisions are above the roof, by more than both error bars, with the likely cause."""
    cells = available.cells(machine, None)
    over = cells[cells.attained > 1]
    if over.empty:
        return "No point is above the measured roof."
    beyond = over[over.forward_flop / over.latency_high_s.fillna(over.latency_s) > _highest(machine, over)]
    parts = []
    for count, how in ((len(over) - len(beyond), "no more than"), (len(beyond), "more than")):
        if count:
            lie = f"{number(count, 'cell').capitalize()} {by_number(count, 'lies', 'lie')}"
            parts.append(f"{lie} above the measured roof by {how} both error bars")
    if not beyond.empty:
        models = [_excess(str(model), rows) for model, rows in beyond.groupby("model")]
        parts[-1] += f": {listing(models, ALWAYS)}; {_causes(beyond)}"
    return f"{'. '.join(parts)}."


def _highest(machine: Machine, cells: pd.DataFrame) -> pd.Series:
    """Return the rate (FLOP/s) that the upper ends of the roofs' intervals allow each cell."""
    ends = ["peak_high_flop_per_s", "bandwidth_high_byte_per_s"]
    highs = cells[["precision", "footprint_intensity"]].join(machine.roofs.set_index("precision")[ends], on="precision")
    return (highs[ends[1]] * highs.footprint_intensity).clip(upper=highs[ends[0]])


def _excess(model: str, cells: pd.DataFrame) -> str:
    """Say at which batch sizes and precisions a model is above the roof, and by how much at most."""
    where = [f"{row.batch}" + (f" ({row.precision})" if row.precision != BASE_PRECISION else "") for row in each(cells)]
    sizes = by_number(len(where), "size", "sizes")
    return f"{model} at batch {sizes} {listing(where)} by up to {percent(cells.attained.max() - 1)}"


def _causes(cells: pd.DataFrame) -> str:
    """Name what lets cells be above a roof."""
    causes = []
    if cells.memory_bound.any():
        causes.append("caches that serve activations which the footprint counts as memory traffic")
    if not cells.memory_bound.all():
        causes.append(
            "convolution algorithms that do less arithmetic than is counted, or a kernel faster than the one that "
            "the roof was measured with"
        )
    return f"likely causes are {listing(causes)}"
