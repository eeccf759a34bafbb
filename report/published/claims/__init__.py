"""What the cache says of the claims of published studies: a function a claim, found by its mark, a module a study."""

from functools import lru_cache, partial

from measure.cache.discovery import import_modules
from report.analysis.available import finding, lacking
from report.load.paper import Paper
from report.published.claims.ruling import CLAIMS, MARKS, Ruling, or_undecided
from report.text.frame_rows import each
from report.text.quantities import number

import_modules(__name__)


def ruling(paper: Paper, claim: str) -> Ruling:
    """Return the ruling on a claim; undecided where there is no rule or data are missing."""
    undecided = Ruling(None, "No rule here decides this claim.")
    return or_undecided(partial(CLAIMS[claim], paper)) if claim in CLAIMS else undecided


@lru_cache(maxsize=8)
def rulings(paper: Paper) -> dict[str, Ruling]:
    """Return the rulings on all claims in the order of the table; at least one."""
    if paper.published.claims.empty:
        raise lacking("published/claims", "claim")
    return {row.id: ruling(paper, row.id) for row in each(paper.published.claims)}


@finding
def summary(paper: Paper) -> str:
    """Say how many claims are confirmed, refuted, undecided and not comparable."""
    marks = [ruled.mark for ruled in rulings(paper).values()]
    confirmed, refuted, undecided, apart = (marks.count(mark) or "none" for mark in MARKS)
    return (
        f"Of {number(len(marks), 'claim')} the cache confirms {confirmed} and refutes {refuted}; {undecided} it cannot "
        f"decide, and {apart} it has nothing to hold against."
    )
