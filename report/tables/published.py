"""The tables of published results: each printed figure beside ours with a verdict, and the claims with a mark."""

from report.analysis.available import DataMissingError, or_missing
from report.load.paper import Paper
from report.published import claims
from report.published.claims import MARKS
from report.published.comparisons import compared
from report.published.verdict import Comparison
from report.tables.pipe import LEFT, NONE, RIGHT, cited, pipe, quantity, with_interval
from report.text.frame_rows import each
from report.text.prose import escape
from report.text.quantities import significant


def _value(value: float, unit: str) -> str:
    return quantity(value, unit, 4)


def _ours(comparison: Comparison) -> str:
    if comparison.ours is None:
        return NONE
    if not comparison.is_measured:
        return _value(comparison.ours, comparison.unit)
    if comparison.interval is None:
        return f"{_value(comparison.ours, comparison.unit)}, {escape(comparison.source)}"
    value, enclosed = with_interval(comparison.ours, *comparison.interval, comparison.unit)
    return f"{value} ({enclosed}), {escape(comparison.source)}"


def _compared(paper: Paper, table: str) -> str:
    rows = compared(paper, table)
    if not rows:
        raise DataMissingError(f"The table data/published/{table}.csv holds no row; restore it.")
    header = [("Of", LEFT), ("Printed", RIGHT), ("Ours", RIGHT), ("Ratio", RIGHT), ("Verdict", LEFT)]
    cells = [
        [
            escape(f"{row.subject}: {row.quantity}"), _value(row.printed, row.unit), _ours(row),
            NONE if row.ratio is None else significant(row.ratio), escape(str(row.verdict)),
        ]
        for row in rows
    ]  # fmt: skip
    return pipe(header, _by_study([row.study for row in rows], cells))


def _by_study(studies: list[str], rows: list[list[str]]) -> list[list[str]]:
    """The rows of each study below its name, which has a row of its own where there are several."""
    if len(set(studies)) < 2:
        return rows
    grouped: dict[str, list[list[str]]] = {}
    for study, row in zip(studies, rows, strict=True):
        grouped.setdefault(study, [[cited(study), *[""] * (len(row) - 1)]]).append(row)
    return [row for group in grouped.values() for row in group]


@or_missing
def chips(paper: Paper) -> str:
    """The printed roofs of chips."""
    return _compared(paper, "chips")


@or_missing
def models(paper: Paper) -> str:
    """The printed FLOP, footprints and intensities of models."""
    return _compared(paper, "models")


@or_missing
def training(paper: Paper) -> str:
    """The printed forward and backward passes."""
    return _compared(paper, "training")


@or_missing
def steps(paper: Paper) -> str:
    """The printed steps under hardware counters."""
    return _compared(paper, "training_steps")


@or_missing
def estimates(paper: Paper) -> str:
    """The printed theoretical times of steps."""
    return _compared(paper, "step_estimates")


@or_missing
def claim_rulings(paper: Paper) -> str:
    """Each claim with its mark and what decides."""
    rulings = claims.rulings(paper)
    cells = [
        [escape(row.claim), MARKS[rulings[row.id].mark], escape(rulings[row.id].text)]
        for row in each(paper.published.claims)
    ]
    header = [("Claim", LEFT), ("", LEFT), ("What decides", LEFT)]
    return pipe(header, _by_study(list(paper.published.claims.study), cells))
