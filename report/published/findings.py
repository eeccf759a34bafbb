"""What of published figures holds: how many agree, and the checks that arithmetic alone can do."""

from measure.domain.values import significant
from report.analysis import available
from report.analysis.available import DataMissingError, finding, lacking, missing
from report.load.paper import BASE_PRECISION, Paper
from report.published import chips, counts, models, steps
from report.published.models import SUMMARY
from report.published.steps import MILLISECONDS
from report.published.training import LINEAR_ONLY, ONE_GRADIENT
from report.published.verdict import (
    AGREES,
    DIFFERS,
    NOT_COMPARABLE,
    UNDECIDED,
    Comparison,
    by_cause,
    compared,
    comparisons,
)
from report.text.frame_rows import each
from report.text.prose import capitalised, listing, number, percent, si


def _some(found: list[Comparison], table: str) -> list[Comparison]:
    """Return what is given; at least one."""
    if not found:
        raise lacking(f"published/{table}", "such figure")
    return found


def _figures(paper: Paper, table: str, quantity: str) -> list[Comparison]:
    """Return the printed figures of the quantities of a table whose names begin so; at least one."""
    return _some([row for row in compared(paper, table) if row.quantity.startswith(quantity)], table)


def _named(found: list[Comparison]) -> str:
    return listing(list(dict.fromkeys(comparison.subject for comparison in found)))


@finding
def summary(paper: Paper) -> str:
    """Say how many printed figures agree, differ, for how many causes, are undecided, and are not comparable."""
    found = _some(comparisons(paper), "*")
    outcomes = [comparison.verdict.outcome for comparison in found]
    agreeing, differing, open_, apart = (
        outcomes.count(outcome) or "none" for outcome in (AGREES, DIFFERS, UNDECIDED, NOT_COMPARABLE)
    )
    return (
        f"Of {number(len(found), 'printed figure')}, {agreeing} agree with ours, {differing} differ, "
        f"{open_} are undecided because our interval holds them or too few samples were taken, and {apart} are not "
        f"comparable. {_causes(found)}"
    )


def _causes(found: list[Comparison]) -> str:
    """Say how many causes differences have: one error may stand in many rows."""
    causes = by_cause(found)
    if not causes:
        return "No difference needs a cause."
    unknown = sum(not rows[0].verdict.explained for rows in causes.values())
    most = max(causes.values(), key=len)
    often = f"; one of them stands in {number(len(most), 'row')}" if len(most) > 1 else ""
    return f"The differences have {number(len(causes), 'cause')}, {unknown or 'none'} of them not known{often}."


@finding
def theoretical_times(paper: Paper) -> str:
    """Say whether the printed theoretical times are FLOP over peak."""
    found = _figures(paper, "step_estimates", "theoretical time")
    wrong = sum(comparison.verdict.names(MILLISECONDS) for comparison in found)
    row = next(each(paper.published.step_estimates))
    return (
        f"A step of {si(row.flop, 'FLOP')} at {si(row.peak_flop_per_s, 'FLOP/s')} takes "
        f"{si(row.flop / row.peak_flop_per_s, 's')}, where {significant(found[0].printed, 4)} s is printed: "
        f"{wrong or 'none'} of {number(len(found), 'theoretical time')} are milliseconds printed as seconds."
    )


@finding
def estimated_flop(paper: Paper) -> str:
    """Say what the FLOP behind the theoretical times are."""
    parts: dict[str, str] = {}
    for row in _figures(paper, "step_estimates", "FLOP, estimate"):
        model = row.subject.partition(",")[0]
        against = f" A step takes {si(row.ours, 'FLOP', 4)}." if row.ours else ""
        parts.setdefault(model, f"The {si(row.printed, 'FLOP', 4)} of {model} {row.verdict.what}.{against}")
    return " ".join(parts.values())


@finding
def peaks(paper: Paper) -> str:
    """Say which printed peaks are sparse, counted twice, or of another precision."""
    found = _figures(paper, "chips", "peak")
    wrong = [row for row in found if row.verdict.outcome == DIFFERS]
    if not wrong:
        return "No printed peak differs from the dense one of its datasheet."
    reasons: dict[str, list[str]] = {}
    for row in wrong:
        factor = f" (by {significant(row.ratio)})" if row.ratio else ""
        reasons.setdefault(row.verdict.reason.removeprefix("because it is "), []).append(f"{row.subject}{factor}")
    parts = [f"{reason}: {listing(names)}" for reason, names in reasons.items()]
    return (
        f"Of {number(len(found), 'printed peak')}, {len(wrong)} are not the dense one at the precision that they are "
        f"given for, for {number(len(reasons), 'reason')}. They are {'; '.join(parts)}."
    )


@finding
def tensor_roof(paper: Paper) -> str:
    """Say what a 16-bit tensor peak as the roof of measurements in full precision does."""
    rows = paper.published.chips
    for row in each(rows[rows.precision == ""]):
        roof = steps.chip_roof(paper, row.chip_key)
        if roof:
            printed = row.peak_flop_per_s / row.bandwidth_byte_per_s
            return (
                f"The {row.chip} gets the roof of {si(row.peak_flop_per_s, 'FLOP/s')} for measurements at "
                f"{BASE_PRECISION}, whose peak is {si(roof.peak_flop_per_s, 'FLOP/s')}: its ridge point moves from "
                f"{significant(roof.ridge_flop_per_byte)} to {significant(printed)} FLOP/B, and every utilisation of "
                f"arithmetic falls by {significant(row.peak_flop_per_s / roof.peak_flop_per_s)}."
            )
    raise lacking("published/chips", "roof without a precision")


@finding
def roof_products(paper: Paper) -> str:
    """Say whether printed roofs are the products printed beside them."""
    found = _some(list(chips.roof_products(paper)), "chips")
    wrong = [row for row in found if row.verdict.outcome != AGREES]
    text = f"Studies print the product behind {number(len(found), 'roof')}; {len(found) - len(wrong)} are that product"
    parts = [
        f"the {row.quantity} of the {row.subject} is printed as {si(row.printed, row.unit)}, its product is "
        f"{si(row.ours, row.unit)}"
        for row in wrong
        if row.ours
    ]
    return f"{text}{', but ' if parts else ''}{listing(parts)}."


@finding
def counter_table(paper: Paper) -> str:
    """Say what the printed counters tell of themselves: rate times time, and rate over DRAM rate."""
    found = steps.steps(paper)
    if not found:
        raise lacking("published/training_steps", "step")
    by_model: dict[str, list[steps.Step]] = {}
    for step in found:
        by_model.setdefault(step.row.model, []).append(step)
    products = listing([f"for {model} {_ends(alike)}" for model, alike in by_model.items()])
    parts = [
        f"{row.subject} at {significant(row.ours, 3)} FLOP/B where {significant(row.printed, 4)} is printed"
        for row in compared(paper, "training_steps")
        if row.quantity == "intensity" and row.verdict.outcome != AGREES and row.ours
    ]
    rows = f"but for {listing(parts)}" if parts else "in every row"
    return (
        f"Rate times time is the FLOP of a step, which does not depend on the GPU: {products}. Rate over "
        f"DRAM rate is the printed intensity {rows}."
    )


def _ends(found: list[steps.Step]) -> str:
    """Say the least and the most FLOP of steps, and on which GPUs."""
    least, most = (end(found, key=lambda step: step.flop) for end in (min, max))
    if least is most:
        return si(least.flop, "FLOP")
    return f"{si(least.flop, 'FLOP')} ({least.row.gpu}) to {si(most.flop, 'FLOP')} ({most.row.gpu})"


@finding
def misprint(paper: Paper) -> str:
    """Name the rows whose rate is the DRAM rate times the time."""
    found = [step for step in steps.steps(paper) if step.misprinted]
    if not found:
        return "No printed rate has the digits of its DRAM rate times its time."
    parts = [
        f"{step.name}: {si(step.row.dram_byte_per_s, 'B/s', 4)} × {step.row.time_s} s = "
        f"{si(step.row.dram_byte_per_s * step.row.time_s, 'B', 4)}, and {si(step.row.flop_per_s, 'FLOP/s', 4)} is "
        "printed"
        for step in found
    ]
    return (
        f"The rate of {number(len(found), 'row')} has the digits of its DRAM rate times its time ({'; '.join(parts)}): "
        "a misprint is likely, work of tensor cores that is not counted is possible, and the cache cannot decide which."
    )


@finding
def meant_models(paper: Paper) -> str:
    """Say which model the counters' FLOP fit, where a study does not say."""
    if paper.training_steps.empty:
        raise lacking("published/training_steps", "step")
    parts = []
    for model, others in steps.CANDIDATES.items():
        rows = [step for step in steps.steps(paper) if step.row.model_key == model]
        parts += _meant(paper, rows, (model, *others)) if rows else []
    if not parts:
        names = " ".join(name for model, others in steps.CANDIDATES.items() for name in (model, *others))
        raise missing(
            "The models that the study may have meant were not counted at its batch size", sections=["workload"],
            flags=f"--models {names} --batch-sizes {paper.training_steps.batch.iloc[0]:.0f}", does="counts them",
        )  # fmt: skip
    return " ".join(parts)


def _meant(paper: Paper, rows: list[steps.Step], candidates: tuple[str, ...]) -> list[str]:
    """Say which of the candidates is nearest to how many steps; nothing where fewer than two were counted."""
    batch = int(rows[0].row.batch)
    flops = {name: counts.whole_step_flop(counts.workload(paper, name, batch)) for name in candidates}
    costs = {name: flop for name, flop in flops.items() if flop}
    if len(costs) < 2:
        available.workloads(paper, batch=batch)
        return []
    nearest = [min(costs, key=lambda name: abs(costs[name] / step.flop - 1)) for step in rows]
    counted = listing([f"{name} {si(flop, 'FLOP', 4)}" for name, flop in costs.items()])
    votes = listing([f"{nearest.count(name) or 'none'} times {name}" for name in costs])
    return [f"For {rows[0].row.model} a step asks for {counted}; of {number(len(rows), 'row')} the nearest is {votes}."]


@finding
def counters_betrayed(paper: Paper) -> str:
    """Say by which way of counting a study's FLOP come out."""
    parts = []
    for study in dict.fromkeys(paper.published.models.study):
        ways = models.betrayed(paper, study)
        if not ways.empty:
            best = ways.iloc[0]
            which = f"{'all' if best.equal == best.models else best.equal} of {number(best.models, 'model')}"
            whole = "" if best.equal == best.models else "; no one way of counting gives them all"
            parts.append(
                f"Of the ways of counting, that of {best.way} gives most FLOP that {study} prints, within their "
                f"rounding: those of {which}{whole}."
            )
    if not parts:
        available.workloads(paper, batch=1)
        raise lacking("published/models", "model that was counted")
    return " ".join(parts)


@finding
def footprints(paper: Paper) -> str:
    """Say what the printed footprints are."""
    found = [row for row in _figures(paper, "models", "footprint") if row.verdict.outcome != NOT_COMPARABLE]
    alike = sum(row.verdict.names(SUMMARY) for row in found)
    return (
        f"Of {number(len(found), 'footprint')} that can be compared, {alike or 'none'} are parameters, inputs and "
        "twice all outputs, in MiB and printed as MB."
    )


@finding
def backward_flop(paper: Paper) -> str:
    """Say which printed backward passes lack their convolutions, and which ratios stand for several models."""
    rows = _figures(paper, "training", "FLOP")
    linear, single, repeated = (
        [row for row in rows if row.verdict.names(reason)] for reason in (LINEAR_ONLY, ONE_GRADIENT, "same number")
    )
    parts = []
    if linear:
        exact = [row for row in linear if row.unit == "FLOP"]
        parts.append(f"the backward pass of {_named(exact or linear)} is that of the linear layers alone")
    if single:
        parts.append(f"that of {_named(single)} is one gradient of two")
    if repeated:
        ratio = significant(repeated[0].printed, 5)
        parts.append(f"the ratio {ratio} is printed for {number(len(repeated), 'model')}")
    if not parts:
        return "Every printed backward pass that can be compared is whole."
    return f"{capitalised(listing(parts))}."


@finding
def roofs_kept(paper: Paper) -> str:
    """Say how near the printed steps come to the datasheet's roofs."""
    shares = [
        (step.row.flop_per_s / roof.attainable(step.intensity), step.name)
        for step in steps.steps(paper)
        if (roof := steps.chip_roof(paper, step.row.chip_key))
    ]
    if not shares:
        raise DataMissingError(
            "No chip of data/published/training_steps.csv has a roof in data/chips.csv; restore both."
        )
    (least, worst), (most, best), above = min(shares), max(shares), sum(share > 1 for share, _ in shares)
    return (
        f"Of what the {BASE_PRECISION} roofs allow at the counted intensity, the steps attain {percent(least)} "
        f"({worst}) to {percent(most)} ({best}); {above or 'none'} lie above."
    )
