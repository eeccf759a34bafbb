"""What a practitioner can act on: a function a conclusion, and a rule that chooses and orders them.

Each conclusion is a factor with its interval. Its advice follows from the side of 1 on which the interval lies, so that
it turns when the data do.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from measure.timing.statistics import CONFIDENCE
from report.analysis import available
from report.analysis.available import DataMissingError, Missing, finding, or_missing
from report.findings.conclusions import chips, estimates, operators, settings, training
from report.findings.conclusions.conclusion import Conclusion, on
from report.load.paper import Machine, Paper
from report.text.prose import escape
from report.text.quantities import listing, number, percent, significant

OF_PAPER: tuple[Callable[[Paper], Conclusion], ...] = (
    settings.device,
    estimates.printed_figures,
    training.memory,
    chips.tensor_units,
    chips.ridge,
    chips.sparsity,
)

OF_MACHINES: tuple[Callable[[Paper, Machine], Conclusion], ...] = (
    settings.precision,
    settings.batch_size,
    settings.variant,
    estimates.flop,
    estimates.predictor,
    estimates.peak,
    operators.distance,
    operators.fusion,
    operators.depthwise,
    training.step,
)
"""Those that are asked of each machine that figures show."""

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
        told = [found for found in self.found if found.effect.side and found.effect.size >= WORTH]
        return sorted(told, key=lambda found: -found.effect.size)


@lru_cache(maxsize=8)
def considered(paper: Paper) -> Considered:
    """All that was looked for; at least one conclusion."""
    asked = [or_missing(available.machine)(paper, kind) for kind in ("cpu", "gpu")]
    answers = [or_missing(of_machine)(paper, of) for of in paper.shown for of_machine in OF_MACHINES]
    answers += [or_missing(of_paper)(paper) for of_paper in OF_PAPER]
    gaps = dict.fromkeys(str(answer) for answer in (*asked, *answers) if isinstance(answer, Missing))
    found = [answer for answer in answers if isinstance(answer, Conclusion)]
    if not found:
        raise DataMissingError(" ".join(gaps))
    return Considered(tuple(found), tuple(gaps))


def chosen(paper: Paper) -> list[list[Conclusion]]:
    """The subjects with the largest effects, the largest first: of each what holds on every machine."""
    subjects: dict[str, list[Conclusion]] = {}
    for conclusion in considered(paper).settled:
        subjects.setdefault(conclusion.topic, []).append(conclusion)
    if not subjects:
        raise DataMissingError(
            "Too little has been measured to tell any effect from none; python -m measure measures more."
        )
    return list(subjects.values())[:MOST]


@or_missing
def listed(paper: Paper) -> str:
    """The conclusions as a numbered list in Markdown, with links to what shows them."""
    items = []
    for place, subject in enumerate(chosen(paper), 1):
        text = escape(" ".join(conclusion.sentences for conclusion in subject))
        labels = dict.fromkeys(f"@{label}" for conclusion in subject for label in conclusion.figures)
        items.append(f"{place}. **{subject[0].topic}.** {text} See {listing(list(labels))}.\n")
    return "\n".join(items)


@or_missing
def gaps(paper: Paper) -> str:
    """What was not measured that a conclusion needs, with the commands that do, as a list in Markdown."""
    missing = considered(paper).gaps
    return "".join(f"- {escape(gap)}\n" for gap in missing or ["Nothing that a conclusion above needs."])


@finding
def summary(paper: Paper) -> str:
    """How many effects were looked for, and how many are worth telling."""
    found, settled = considered(paper).found, considered(paper).settled
    chosen(paper)
    return (
        f"Of {number(len(found), 'effect')} that the cache lets us estimate, {len(settled)} are more than chance and "
        f"at least a factor of {significant(WORTH)}; the largest are listed, on at most {MOST} subjects."
    )


@finding
def others(paper: Paper) -> str:
    """The effects that are not listed."""
    shown = [conclusion for subject in chosen(paper) for conclusion in subject]
    rest = [conclusion for conclusion in considered(paper).found if conclusion not in shown]
    if not rest:
        return "Every effect that was looked for is listed above."
    told = [
        f"{conclusion.topic}{f' on the {conclusion.where}' if conclusion.where else ''} {conclusion.effect}"
        for conclusion in rest
    ]
    return f"Looked for but not listed, since they may be none or are smaller than those above: {'; '.join(told)}."


@finding
def foremost(paper: Paper) -> str:
    """The largest effects in a clause each, for the abstract: first those of machines, then those of all."""
    clauses: dict[str, list[str]] = {}
    for subject in chosen(paper)[:MOST_IN_ABSTRACT]:
        clauses.setdefault(subject[0].where, []).append(subject[0].brief)
    anywhere = clauses.pop("", [])
    sentences = [on(where, listing(briefs)) for where, briefs in clauses.items()]
    sentences += [on("", brief) for brief in anywhere]
    lead = f"These are the largest effects, with their {percent(CONFIDENCE)} intervals in parentheses"
    return " ".join(f"{sentence}." for sentence in (lead, *sentences))
