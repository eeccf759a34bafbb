"""What a practitioner can act on: a function a conclusion, and a rule that chooses and orders them.

Each conclusion is a factor with its interval. Its advice follows from the side of 1 on which the interval lies, so that
it turns when the data do. An effect may be none, and is told where it is more than chance, of all that were tested; a
margin cannot be below 1, and is told where it is large. A new conclusion is a function in a module of this package,
marked ``of_machine`` or ``of_paper``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from measure.domain.statistics import CONFIDENCE
from measure.domain.values import significant
from report import import_modules
from report.analysis import available
from report.analysis.available import DataMissingError, Missing, finding, or_failed, or_missing
from report.analysis.effect import Effect, adjusted_confidence
from report.findings.conclusions import conclusion
from report.findings.conclusions.conclusion import Conclusion, on
from report.load.paper import Paper
from report.text.prose import Gap, Markup, by_number, escape, listing, number, percent

import_modules(__name__)

OF_PAPER, OF_MACHINES = (
    [function for _, function in sorted(marked, key=itemgetter(0))]
    for marked in (conclusion.OF_PAPER, conclusion.OF_MACHINES)
)

MOST = 8
"""So many subjects are listed as effects, and as many as margins; fewer where fewer are worth telling."""

EFFECTS_FIRST = 3
MARGINS_FIRST = 2
"""So many of both are told on the first page."""

WORTH = 1.1
"""A smaller factor changes nobody's mind."""


@dataclass(frozen=True)
class Considered:
    """Every conclusion that the cache supports, with an effect or without, and what is missing for the others."""

    found: tuple[Conclusion, ...]
    gaps: tuple[str, ...]

    @property
    def tested(self) -> list[Effect]:
        """All effects that may be none."""
        return [effect for found in self.found if not found.is_margin for effect in found.effects.values()]

    @property
    def clear(self) -> list[Conclusion]:
        """The effects that are no chance and no trifle, the largest first."""
        return _ordered(found for found in self.found if not found.is_margin and found.effect.side)

    @property
    def margins(self) -> list[Conclusion]:
        """The margins that are no trifle, the largest first."""
        return _ordered(found for found in self.found if found.is_margin)


def ordered(paper: Paper) -> list[Conclusion]:
    """Return all conclusions: effects before margins, those that are listed first."""
    every = considered(paper)
    listed = [*every.clear, *every.margins]
    rest = [found for found in every.found if found not in listed]
    return sorted([*listed, *rest], key=lambda found: found.is_margin)


def _ordered(found: Iterable[Conclusion]) -> list[Conclusion]:
    return sorted((each for each in found if each.effect.size >= WORTH), key=lambda each: -each.effect.size)


@lru_cache(maxsize=8)
def considered(paper: Paper) -> Considered:
    """Return all that was looked for; at least one conclusion.

    The effects tell their intervals at the confidence that the number of those tested calls for.
    """
    return _considered(paper, confidence(paper))


@lru_cache(maxsize=8)
def confidence(paper: Paper) -> float:
    """Return the confidence at which the intervals of effects are told (``adjusted_confidence``)."""
    return adjusted_confidence(_considered(paper, CONFIDENCE).tested)


def _considered(paper: Paper, confidence: float) -> Considered:
    asked = [or_missing(available.machine)(paper, kind) for kind in ("cpu", "gpu")]
    answers = [
        or_failed(function)(paper, machine, confidence=confidence)
        for machine in paper.shown
        for function in OF_MACHINES
    ]
    answers += [or_failed(function)(paper, confidence=confidence) for function in OF_PAPER]
    gaps = dict.fromkeys(str(answer) for answer in (*asked, *answers) if isinstance(answer, Missing))
    found = [answer for answer in answers if isinstance(answer, Conclusion)]
    if not found:
        raise DataMissingError(" ".join(gaps))
    return Considered(tuple(found), tuple(gaps))


def chosen(conclusions: Iterable[Conclusion]) -> list[list[Conclusion]]:
    """Return the first subjects, in their order: of each what holds on every machine."""
    subjects: dict[str, list[Conclusion]] = {}
    for found in conclusions:
        subjects.setdefault(found.topic, []).append(found)
    return list(subjects.values())[:MOST]


@or_missing
def effects(paper: Paper) -> str:
    """Write the effects as a numbered list in Markdown, with links to what shows them."""
    every = considered(paper)
    return _listed(every.clear, len(every.tested))


@or_missing
def margins(paper: Paper) -> str:
    """Write the margins as a numbered list in Markdown, likewise."""
    every = considered(paper)
    return _listed(every.margins, sum(found.is_margin for found in every.found))


def _none(every: Considered) -> str:
    tested = number(len(every.tested), "effect")
    return (
        f"Of {tested} that the cache lets us test none is clear of one and as large as a factor of "
        f"{significant(WORTH)}; `python -m measure` measures more."
    )


def _listed(conclusions: list[Conclusion], looked_for: int) -> str:
    if not conclusions:
        return f"- Of {looked_for} looked for none is clear of one and as large as a factor of {significant(WORTH)}.\n"
    items = []
    for place, subject in enumerate(chosen(conclusions), 1):
        text = escape(" ".join(found.sentences for found in subject))
        labels = dict.fromkeys(f"@{label}" for found in subject for label in found.figures)
        items.append(f"{place}. **{subject[0].topic}.** {text} See {listing(list(labels))}.\n")
    return "\n".join(items)


@finding
def advice(paper: Paper, *topics: str) -> str:
    """Say what to do on these topics, of the effects and margins that are listed, machine by machine."""
    every = considered(paper)
    by_machine: dict[str, list[str]] = {}
    for found in (*every.clear, *every.margins):
        if found.topic in topics:
            by_machine.setdefault(found.where, []).append(found.advice)
    if not by_machine:
        factor = significant(WORTH)
        return f"No advice: nothing tested here is both clear of chance and as large as a factor of {factor}."
    return " ".join(f"{on(where, '; '.join(told))}." for where, told in by_machine.items())


@or_missing
def gaps(paper: Paper) -> Markup:
    """Return what was not measured that a conclusion needs: sentences that go into the paper's list of these."""
    return Markup("\n".join(Gap(gap).as_block() for gap in considered(paper).gaps))


@finding
def summary(paper: Paper) -> str:
    """Say how many effects were tested, how many are worth telling, and at which confidence intervals are told."""
    every = considered(paper)
    if not every.clear:
        return _none(every)
    tested, clear = every.tested, every.clear
    count = sum(effect.side != 0 for effect in tested)
    subjects = len({(found.topic, found.where) for found in every.found if not found.is_margin})
    return (
        f"On {number(subjects, 'subject')} the cache lets us test {number(len(tested), 'effect')}, one at each batch "
        f"size and variant that was tried. Of these {count} {by_number(count, 'is', 'are')} more than chance. Of as "
        f"many tests some succeed by chance, so each interval is of {_percent(confidence(paper))}: then no more than "
        f"{percent(1 - CONFIDENCE)} of those told are expected to miss. {number(len(clear), 'subject')} "
        f"{by_number(len(clear), 'has', 'have')} an effect of a factor of {significant(WORTH)} or more."
    )


def _percent(share: float) -> str:
    """Write a confidence near one with the digit that tells it from its neighbours."""
    return percent(share, 3)


@finding
def others(paper: Paper) -> str:
    """Say the effects that are not listed."""
    every = considered(paper)
    shown = [found for listed in (every.clear, every.margins) for subject in chosen(listed) for found in subject]
    rest = [found for found in every.found if found not in shown]
    if not rest:
        return "Everything that was looked for is listed above."
    by_machine: dict[str, list[str]] = {}
    for found in rest:
        by_machine.setdefault(found.where, []).append(found.topic)
    parts = [f"{listing(topics)}{where and f' on the {where}'}" for where, topics in by_machine.items()]
    return f"Looked for but not listed, since they may be none or are smaller than those above: {'; '.join(parts)}."


@or_missing
def foremost(paper: Paper) -> str:
    """Write the largest effects and margins as a numbered list in Markdown, in a sentence each, for the first page."""
    every = considered(paper)
    clear, margins = chosen(every.clear)[:EFFECTS_FIRST], chosen(every.margins)[:MARGINS_FIRST]
    lead = _none(every)
    if clear:
        lead = (
            f"First stand the largest of {number(len(every.tested), 'effect')} tested, with intervals of "
            f"{_percent(confidence(paper))} that allow for their number; then margins, which cannot be below one, with "
            f"intervals of {percent(CONFIDENCE)}."
        )
    items = [
        f"{place}. **{subject[0].topic}.** {escape(' '.join(on(found.where, found.text) for found in subject))} "
        f"See @{subject[0].figures[0]}.\n"
        for place, subject in enumerate((*clear, *margins), 1)
    ]
    return "\n".join([*items, f"{escape(lead)}\n"])
