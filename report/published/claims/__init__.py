"""What the cache says of the claims of published studies: a function a claim, found by its mark, a module a study."""

from functools import lru_cache, partial

from report import import_modules
from report.analysis.available import Missing, finding, lacking, or_failed
from report.load.paper import Paper
from report.published.claims.ruling import CLAIMS, ELSEWHERE, MARKS, Ruling, or_elsewhere, or_undecided
from report.text.frame_rows import each
from report.text.prose import by_number, number

import_modules(__name__)


def ruling(paper: Paper, claim: str) -> Ruling:
    """Return the ruling on a claim, by our data or else by what others timed; undecided where both are missing."""
    if claim not in CLAIMS:
        return Ruling(None, "No rule here decides this claim.")
    ours = partial(CLAIMS[claim], paper)
    return or_elsewhere(ours, partial(ELSEWHERE[claim], paper)) if claim in ELSEWHERE else or_undecided(ours)


@lru_cache(maxsize=8)
def rulings(paper: Paper) -> dict[str, Ruling]:
    """Return the rulings on all claims in the order of the table; at least one."""
    if paper.published.claims.empty:
        raise lacking("published/claims", "claim")
    return {row.id: _ruled(paper, row.id) for row in each(paper.published.claims)}


def _ruled(paper: Paper, claim: str) -> Ruling:
    """Return the ruling on a claim; undecided where its rule fails."""
    found = or_failed(ruling)(paper, claim)
    return Ruling(None, found) if isinstance(found, Missing) else found


@finding
def summary(paper: Paper) -> str:
    """Say how many claims are confirmed, refuted, undecided and not comparable."""
    marks = [ruled.mark for ruled in rulings(paper).values()]
    confirmed, refuted, undecided, apart = (marks.count(mark) or "none" for mark in MARKS)
    return (
        f"Of {number(len(marks), 'claim')} the cache confirms {confirmed} and refutes {refuted}; {undecided} it cannot "
        f"decide, and {apart} it has nothing to hold against."
    )


@finding
def timed_elsewhere(paper: Paper) -> str:
    """Say how many claims about GPUs rest on timings that others published, and how many of these they decide."""
    found = [ruled for ruled in rulings(paper).values() if ruled.sources]
    if not found:
        return "No claim rests on timings that others published."
    decided = sum(ruled.holds is not None for ruled in found)
    rest = by_number(len(found), "rests", "rest")
    return (
        f"{number(len(found), 'claim')} about GPUs {rest} on timings that others published, where ours are missing: "
        f"they decide {decided or 'none'} and leave {len(found) - decided or 'none'} open."
    )
