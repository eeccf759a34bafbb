"""The tables of published results: each printed figure beside ours with a verdict, and the claims with a mark."""

from types import ModuleType

from report import revisited
from report.available import DataMissingError, or_missing
from report.findings import claims
from report.findings.claims import MARKS
from report.paper import Paper
from report.prose import escape
from report.quantities import intensity, si, significant
from report.revisited.verdict import Comparison
from report.rows import each
from report.tables import LEFT, NONE, RIGHT, between, cited, pipe


def _value(value: float, unit: str) -> str:
    if unit in ("", "FLOP/B"):
        return intensity(value, unit, 4).rstrip("\u00a0")
    return si(value, unit, 4)


def _ours(comparison: Comparison) -> str:
    if comparison.ours is None:
        return NONE
    text = _value(comparison.ours, comparison.unit)
    if comparison.interval is None:
        return text
    if comparison.unit in ("", "FLOP/B"):
        low, high = (significant(value) for value in comparison.interval)
        return f"{text} ({low} to {high}), {escape(comparison.source)}"
    return f"{text} ({between(*comparison.interval, comparison.unit)}), {escape(comparison.source)}"


def _compared(paper: Paper, table: ModuleType) -> str:
    rows = revisited.compared(paper, table)
    if not rows:
        name = {revisited.steps: "training_steps", revisited.estimates: "step_estimates"}.get(
            table, table.__name__.split(".")[-1]
        )
        raise DataMissingError(f"The table data/published/{name}.csv holds no row; restore it.")
    several = len({row.study for row in rows}) > 1
    header = [("Study", LEFT)] if several else []
    header += [("Of", LEFT), ("Printed", RIGHT), ("Ours", RIGHT), ("Ratio", RIGHT), ("Verdict", LEFT)]
    cells = [
        [
            *([cited(row.study)] if several else []), escape(f"{row.subject}: {row.quantity}"),
            _value(row.printed, row.unit), _ours(row), NONE if row.ratio is None else significant(row.ratio),
            escape(str(row.verdict)),
        ]
        for row in rows
    ]  # fmt: skip
    return pipe(header, cells)


@or_missing
def chips(paper: Paper) -> str:
    """The printed roofs of chips."""
    return _compared(paper, revisited.chips)


@or_missing
def models(paper: Paper) -> str:
    """The printed FLOP, footprints and intensities of models."""
    return _compared(paper, revisited.models)


@or_missing
def training(paper: Paper) -> str:
    """The printed forward and backward passes."""
    return _compared(paper, revisited.training)


@or_missing
def steps(paper: Paper) -> str:
    """The printed steps under hardware counters."""
    return _compared(paper, revisited.steps)


@or_missing
def estimates(paper: Paper) -> str:
    """The printed theoretical times of steps."""
    return _compared(paper, revisited.estimates)


@or_missing
def claim_rulings(paper: Paper) -> str:
    """Each claim with its mark and what decides."""
    rulings = claims.rulings(paper)
    cells = [
        [cited(row.study), escape(row.claim), MARKS[rulings[row.id].mark], escape(rulings[row.id].text)]
        for row in each(paper.published.claims)
    ]
    return pipe([("Study", LEFT), ("Claim", LEFT), ("", LEFT), ("What decides", LEFT)], cells)
