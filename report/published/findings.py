"""What of published figures holds: how many agree, and the checks that arithmetic alone can do."""

from report.analysis import available
from report.analysis.available import DataMissingError, finding
from report.load.paper import BASE_PRECISION, Paper
from report.published import chips, counts, estimates, models, steps, training
from report.published.comparisons import compared, comparisons
from report.published.estimates import MILLISECONDS
from report.published.models import SUMMARY
from report.published.training import LINEAR_ONLY
from report.published.verdict import AGREES, DIFFERS, OPEN, Comparison
from report.text.frame_rows import each
from report.text.quantities import listing, number, percent, si, significant


def _some(found: list[Comparison], table: str) -> list[Comparison]:
    """What is given; at least one."""
    if not found:
        raise DataMissingError(f"The table data/published/{table}.csv holds no such figure; restore it.")
    return found


def _named(found: list[Comparison]) -> str:
    return listing(list(dict.fromkeys(comparison.subject for comparison in found)))


@finding
def summary(paper: Paper) -> str:
    """How many printed figures agree, differ, and cannot be compared."""
    found = _some(comparisons(paper), "*")
    outcomes = [comparison.verdict.outcome for comparison in found]
    unexplained = sum(not comparison.verdict.explained for comparison in found)
    return (
        f"Of {number(len(found), 'printed figure')}, {outcomes.count(AGREES) or 'none'} agree with ours, "
        f"{outcomes.count(DIFFERS) or 'none'} differ, {unexplained or 'none'} of these for no reason known, and "
        f"{outcomes.count(OPEN) or 'none'} cannot be compared."
    )


@finding
def theoretical_times(paper: Paper) -> str:
    """Whether the printed theoretical times are FLOP over peak."""
    rows = list(each(paper.published.step_estimates))
    found = [row for row in compared(paper, estimates) if row.quantity == "theoretical time"]
    _some(found, "step_estimates")
    wrong = [row for row in found if MILLISECONDS in row.verdict.reason]
    first, row = found[0], rows[0]
    return (
        f"A step of {si(row.flop, 'FLOP')} at {si(row.peak_flop_per_s, 'FLOP/s')} takes "
        f"{si(row.flop / row.peak_flop_per_s, 's')}, where {significant(first.printed, 4)} s is printed: "
        f"{len(wrong) or 'none'} of {number(len(found), 'theoretical time')} are milliseconds printed as seconds."
    )


@finding
def estimated_flop(paper: Paper) -> str:
    """What the FLOP behind the theoretical times are."""
    found = [row for row in compared(paper, estimates) if row.quantity == "FLOP, estimate"]
    parts: dict[str, str] = {}
    for row in _some(found, "step_estimates"):
        model = row.subject.partition(",")[0]
        against = f"; a step takes {si(row.ours, 'FLOP', 4)}" if row.ours else ""
        parts.setdefault(model, f"the {si(row.printed, 'FLOP', 4)} of {model} {row.verdict.what}{against}")
    text = "; ".join(parts.values())
    return f"{text[:1].upper()}{text[1:]}."


@finding
def peaks(paper: Paper) -> str:
    """Which printed peaks are sparse, counted twice, or of another precision."""
    found = [row for row in compared(paper, chips) if row.quantity == "peak"]
    wrong = [row for row in _some(found, "chips") if row.verdict.outcome == DIFFERS]
    if not wrong:
        return "No printed peak differs from the dense one of its datasheet."
    reasons: dict[str, list[str]] = {}
    for row in wrong:
        factor = f" (by {significant(row.ratio)})" if row.ratio else ""
        reasons.setdefault(row.verdict.reason, []).append(f"{row.subject}{factor}")
    parts = [
        f"{reason.removeprefix('because it is ')}: {listing(names)}" for reason, names in reasons.items()
    ]
    return (
        f"Of {number(len(found), 'printed peak')}, {len(wrong)} are not the dense one at the precision that they are "
        f"given for. They are {'; '.join(parts)}."
    )


@finding
def tensor_roof(paper: Paper) -> str:
    """What a 16-bit tensor peak as the roof of measurements in full precision does."""
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
    raise DataMissingError(
        "The table data/published/chips.csv holds no roof without a precision; restore it."
    )


@finding
def own_arithmetic(paper: Paper) -> str:
    """Whether printed roofs are the products printed beside them."""
    found = _some(list(chips.own_arithmetic(paper)), "chips")
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
    """What the printed counters say of themselves: rate times time, and rate over DRAM rate."""
    found = steps.steps(paper)
    if not found:
        raise DataMissingError("The table data/published/training_steps.csv holds no step; restore it.")
    of_models: dict[str, list[str]] = {}
    for step in found:
        of_models.setdefault(step.row.model, []).append(f"{si(step.flop, 'FLOP')} ({step.row.gpu})")
    products = "; ".join(f"{model} {listing(parts)}" for model, parts in of_models.items())
    off = [
        row for row in compared(paper, steps) if row.quantity == "intensity" and row.verdict.outcome != AGREES
    ]
    parts = [
        f"{row.subject} at {significant(row.ours, 3)} FLOP/B where {significant(row.printed, 4)} is printed"
        for row in off
        if row.ours
    ]
    but = f" Rate over DRAM rate is the printed intensity but for {listing(parts)}." if parts else (
        " Rate over DRAM rate is the printed intensity in every row."
    )  # fmt: skip
    return f"Rate times time is {products}.{but}"


@finding
def misprint(paper: Paper) -> str:
    """Rows whose rate is the DRAM rate times the time."""
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
    """Which model the counters' FLOP fit, where a study does not say."""
    if paper.training_steps.empty:
        raise DataMissingError("The table data/published/training_steps.csv holds no step; restore it.")
    parts = []
    for model in steps.CANDIDATES:
        rows = [step for step in steps.steps(paper) if step.row.model_key == model]
        if not rows:
            continue
        batch = int(rows[0].row.batch)
        costs = {}
        for name in (model, *steps.CANDIDATES[model]):
            asked = counts.workload(paper, name, batch)
            flop = None if asked is None else counts.whole_step_flop(asked)
            if flop:
                costs[name] = flop
        if len(costs) < 2:
            available.workloads(paper, batch=batch)
            continue
        near = {step.row.gpu: min(costs, key=lambda name: abs(costs[name] / step.flop - 1)) for step in rows}
        counted = listing([f"{name} {si(flop, 'FLOP', 4)}" for name, flop in costs.items()])
        votes = listing([f"{list(near.values()).count(name) or 'none'} times {name}" for name in costs])
        parts.append(
            f"For {rows[0].row.model} a step asks for {counted}; of {number(len(rows), 'row')} the nearest is {votes}."
        )
    if not parts:
        names = " ".join(name for model, others in steps.CANDIDATES.items() for name in (model, *others))
        raise DataMissingError(
            "The models that the study may have meant were not counted at its batch size; python -m measure --sections "
            f"workload --models {names} --batch-sizes {paper.training_steps.batch.iloc[0]:.0f} counts them."
        )
    return " ".join(parts)


@finding
def counters_betrayed(paper: Paper) -> str:
    """By which way of counting a study's FLOP come out."""
    parts = []
    for study in dict.fromkeys(paper.published.models.study):
        ways = models.betrayed(paper, study)
        if not ways.empty:
            told = [f"{row.equal} of {row.models} ({row.way})" for row in each(ways)]
            whole = (
                "" if ways.iloc[0].equal == ways.iloc[0].models else " No one way of counting gives them all."
            )
            parts.append(
                f"The FLOP that {study} prints come out, within their rounding, for {listing(told)} models.{whole}"
            )
    if not parts:
        available.workloads(paper, batch=1)
        raise DataMissingError(
            "The table data/published/models.csv holds no model that was counted; restore it."
        )
    return " ".join(parts)


@finding
def footprints(paper: Paper) -> str:
    """What the printed footprints are."""
    rows = [row for row in compared(paper, models) if row.quantity == "footprint"]
    found = [row for row in _some(rows, "models") if row.verdict.outcome != OPEN]
    alike = [row for row in found if SUMMARY in row.verdict.reason]
    return (
        f"Of {number(len(found), 'footprint')} that can be compared, {len(alike) or 'none'} are parameters, inputs and "
        "twice all outputs, in MiB and printed as MB."
    )


@finding
def backward_flop(paper: Paper) -> str:
    """Which printed backward passes lack their convolutions, and which ratios stand for several models."""
    rows = [row for row in compared(paper, training) if row.quantity.startswith("FLOP")]
    lacking = [row for row in _some(rows, "training") if LINEAR_ONLY in row.verdict.reason]
    repeated = [row for row in rows if "same number" in row.verdict.reason]
    single = [row for row in rows if training.ONE_GRADIENT in row.verdict.reason]
    parts = []
    if lacking:
        exact = [row for row in lacking if row.unit == "FLOP"]
        parts.append(f"the backward pass of {_named(exact or lacking)} is that of the linear layers alone")
    if single:
        parts.append(f"that of {_named(single)} is one gradient of two")
    if repeated:
        parts.append(
            f"the ratio {significant(repeated[0].printed, 5)} is printed for {number(len(repeated), 'model')}"
        )
    if not parts:
        return "Every printed backward pass that can be compared is whole."
    text = listing(parts)
    return f"{text[:1].upper()}{text[1:]}."


@finding
def roofs_kept(paper: Paper) -> str:
    """How near the printed steps come to the datasheet's roofs."""
    shares = []
    for step in steps.steps(paper):
        roof = steps.chip_roof(paper, step.row.chip_key)
        if roof:
            shares.append((step.row.flop_per_s / roof.attainable(step.intensity), step))
    if not shares:
        raise DataMissingError(
            "No chip of data/published/training_steps.csv has a roof in data/chips.csv; restore both."
        )
    (least, worst), (most, best) = (
        min(shares, key=lambda pair: pair[0]),
        max(shares, key=lambda pair: pair[0]),
    )
    above = sum(share > 1 for share, _ in shares)
    return (
        f"Of what the {BASE_PRECISION} roofs allow at the counted intensity, the steps attain {percent(least)} "
        f"({worst.name}) to {percent(most)} ({best.name}); {above or 'none'} lie above."
    )
