"""What a practitioner can act on: a function a conclusion, and a rule that chooses and orders them.

Each conclusion is a factor with its interval. Its advice follows from the side of 1 on which the interval lies, so that
it turns when the data do. A new one is a function in a module of this package, marked ``of_machine`` or ``of_paper``.
"""

from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from measure.cache.discovery import import_modules
from measure.timing.statistics import CONFIDENCE
from report.analysis import available
from report.analysis.available import DataMissingError, Missing, finding, or_missing
from report.findings.conclusions import conclusion
from report.findings.conclusions.conclusion import Conclusion, on
from report.load.paper import Paper
from report.text.prose import escape
from report.text.quantities import listing, number, percent, significant

import_modules(__name__)

OF_PAPER, OF_MACHINES = (
    [function for _, function in sorted(marked, key=itemgetter(0))]
    for marked in (conclusion.OF_PAPER, conclusion.OF_MACHINES)
)

MOST = 8
"""So many subjects are listed, and fewer where fewer have an effect."""

MOST_IN_ABSTRACT = 6

WORTH = 1.1
"""A smaller factor changes nobody's mind."""


@dataclass(frozen=True)
class Considered:
    """Every conclusion that the cache supports, with an effect or without, and what is missing for the others."""

    found: tuple[Conclusion, ...]
    gaps: tuple[str, ...]

    @property
    def settled(self) -> list[Conclusion]:
        """Those whose effect is no chance and no trifle, the largest first."""
        settled = [found for found in self.found if found.effect.side and found.effect.size >= WORTH]
        return sorted(settled, key=lambda found: -found.effect.size)


@lru_cache(maxsize=8)
def considered(paper: Paper) -> Considered:
    """Return all that was looked for; at least one conclusion."""
    asked = [or_missing(available.machine)(paper, kind) for kind in ("cpu", "gpu")]
    answers = [or_missing(function)(paper, machine) for machine in paper.shown for function in OF_MACHINES]
    answers += [or_missing(function)(paper) for function in OF_PAPER]
    gaps = dict.fromkeys(str(answer) for answer in (*asked, *answers) if isinstance(answer, Missing))
    found = [answer for answer in answers if isinstance(answer, Conclusion)]
    if not found:
        raise DataMissingError(" ".join(gaps))
    return Considered(tuple(found), tuple(gaps))


def chosen(paper: Paper) -> list[list[Conclusion]]:
    """Return the subjects with the largest effects, the largest first: of each what holds on every machine."""
    subjects: dict[str, list[Conclusion]] = {}
    for settled in considered(paper).settled:
        subjects.setdefault(settled.topic, []).append(settled)
    if not subjects:
        raise DataMissingError(
            "Too little has been measured to tell any effect from none; python -m measure measures more."
        )
    return list(subjects.values())[:MOST]


@or_missing
def listed(paper: Paper) -> str:
    """Write the conclusions as a numbered list in Markdown, with links to what shows them."""
    items = []
    for place, subject in enumerate(chosen(paper), 1):
        text = escape(" ".join(found.sentences for found in subject))
        labels = dict.fromkeys(f"@{label}" for found in subject for label in found.figures)
        items.append(f"{place}. **{subject[0].topic}.** {text} See {listing(list(labels))}.\n")
    return "\n".join(items)


@or_missing
def gaps(paper: Paper) -> str:
    """List in Markdown what was not measured that a conclusion needs, with the commands that do."""
    missing = considered(paper).gaps
    return "".join(f"- {escape(gap)}\n" for gap in missing or ["Nothing that a conclusion above needs."])


@finding
def summary(paper: Paper) -> str:
    """Say how many effects were looked for, and how many are worth telling."""
    found, settled = considered(paper).found, considered(paper).settled
    chosen(paper)
    return (
        f"Of {number(len(found), 'effect')} that the cache lets us estimate, {len(settled)} are more than chance and "
        f"at least a factor of {significant(WORTH)}; the largest are listed, on at most {MOST} subjects."
    )


@finding
def others(paper: Paper) -> str:
    """Say the effects that are not listed."""
    shown = [found for subject in chosen(paper) for found in subject]
    rest = [found for found in considered(paper).found if found not in shown]
    if not rest:
        return "Every effect that was looked for is listed above."
    parts = [f"{found.topic}{f' on the {found.where}' if found.where else ''} {found.effect}" for found in rest]
    return f"Looked for but not listed, since they may be none or are smaller than those above: {'; '.join(parts)}."


@finding
def foremost(paper: Paper) -> str:
    """Say the largest effects in a clause each, for the abstract: first those of machines, then those of all."""
    clauses: dict[str, list[str]] = {}
    for subject in chosen(paper)[:MOST_IN_ABSTRACT]:
        clauses.setdefault(subject[0].where, []).append(subject[0].brief)
    anywhere = clauses.pop("", [])
    sentences = [on(where, listing(briefs)) for where, briefs in clauses.items()]
    sentences += [on("", brief) for brief in anywhere]
    lead = f"These are the largest effects, with their {percent(CONFIDENCE)} intervals in parentheses"
    return " ".join(f"{sentence}." for sentence in (lead, *sentences))
