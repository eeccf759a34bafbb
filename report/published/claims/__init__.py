"""What the cache says of the claims of published studies: a function a claim, a module a study."""

from functools import lru_cache

from report.analysis.available import DataMissingError, finding
from report.load.paper import Paper
from report.published.claims import a1rooflines, daugherty, hw1part2, madani, pham
from report.published.claims.ruling import CONFIRMED, MARKS, REFUTED, UNDECIDED, Claim, Ruling
from report.text.frame_rows import each
from report.text.quantities import number

CLAIMS: dict[str, Claim] = (
    madani.CLAIMS | daugherty.CLAIMS | a1rooflines.CLAIMS | pham.CLAIMS | hw1part2.CLAIMS
)
"""The functions by the ids in ``data/published/claims.csv``."""


def ruling(paper: Paper, claim: str) -> Ruling:
    """The ruling on a claim; undecided, with the command that would decide, where data are missing."""
    if claim not in CLAIMS:
        return Ruling(UNDECIDED, "No rule here decides this claim.")
    try:
        return CLAIMS[claim](paper)
    except DataMissingError as gap:
        return Ruling(UNDECIDED, str(gap))


@lru_cache(maxsize=8)
def rulings(paper: Paper) -> dict[str, Ruling]:
    """All claims in the order of the table; at least one."""
    if paper.published.claims.empty:
        raise DataMissingError("The table data/published/claims.csv holds no claim; restore it.")
    return {row.id: ruling(paper, row.id) for row in each(paper.published.claims)}


@finding
def summary(paper: Paper) -> str:
    """How many claims are confirmed, refuted and undecided."""
    marks = [ruled.mark for ruled in rulings(paper).values()]
    counted = {mark: marks.count(mark) for mark in MARKS}
    return (
        f"Of {number(len(marks), 'claim')} the cache confirms {counted[CONFIRMED] or 'none'} and refutes "
        f"{counted[REFUTED] or 'none'}; {counted[UNDECIDED] or 'none'} it cannot decide."
    )
