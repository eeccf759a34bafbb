"""The tables of published results: each printed figure beside ours with a verdict, and the claims with a mark."""

from measure.domain.values import significant
from report.analysis.available import at_least_one, lacking, or_missing
from report.load.paper import Paper
from report.published import claims
from report.published.claims import MARKS, Ruling
from report.published.verdict import Comparison, compared
from report.tables.pipe import NONE, cited, known, pipe, quantity, with_interval
from report.text.frame_rows import each
from report.text.prose import escape


def _ours(comparison: Comparison) -> str:
    if comparison.ours is None:
        return NONE
    value, interval = quantity(comparison.ours, comparison.unit, 4), ""
    if not comparison.machine:
        return value
    if comparison.interval is not None:
        value, enclosed = with_interval(comparison.ours, *comparison.interval, comparison.unit)
        interval = f" ({enclosed})"
    return f"{value}{interval}, {escape(comparison.machine)}"


def _compared(paper: Paper, table: str) -> str:
    found = at_least_one(compared(paper, table), lacking(f"published/{table}", "row"))
    rows = [
        [
            escape(f"{row.subject}: {row.quantity}"), quantity(row.printed, row.unit, 4), _ours(row),
            known(row.ratio, significant), escape(str(row.verdict)),
        ]
        for row in found
    ]  # fmt: skip
    return pipe("Of | Printed > | Ours > | Ratio > | Verdict", _by_study([row.study for row in found], rows))


def _by_study(studies: list[str], rows: list[list[str]]) -> list[list[str]]:
    """Return the rows of each study below its name, which has a row of its own where there are several."""
    if len(set(studies)) < 2:
        return rows
    grouped: dict[str, list[list[str]]] = {}
    for study, row in zip(studies, rows, strict=True):
        grouped.setdefault(study, [[cited(study), *[""] * (len(row) - 1)]]).append(row)
    return [row for group in grouped.values() for row in group]


@or_missing
def chips(paper: Paper) -> str:
    """Compare the printed roofs of chips."""
    return _compared(paper, "chips")


@or_missing
def models(paper: Paper) -> str:
    """Compare the printed FLOP, footprints and intensities of models."""
    return _compared(paper, "models")


@or_missing
def training(paper: Paper) -> str:
    """Compare the printed forward and backward passes."""
    return _compared(paper, "training")


@or_missing
def steps(paper: Paper) -> str:
    """Compare the printed steps under hardware counters."""
    return _compared(paper, "training_steps")


@or_missing
def estimates(paper: Paper) -> str:
    """Compare the printed theoretical times of steps."""
    return _compared(paper, "step_estimates")


@or_missing
def claim_rulings(paper: Paper) -> str:
    """List each claim with its mark and what decides."""
    rulings = claims.rulings(paper)
    rows = [
        [escape(row.claim), MARKS[rulings[row.id].mark], _decides(rulings[row.id])]
        for row in each(paper.published.claims)
    ]
    return pipe("Claim | Ruling | What decides", _by_study(list(paper.published.claims.study), rows))


def _decides(ruling: Ruling) -> str:
    """Return what decides, with whose timings where they are not ours."""
    text = escape(ruling.text)
    return f"{text} {cited(';'.join(ruling.sources))}" if ruling.sources else text
