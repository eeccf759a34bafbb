"""What the cache says of a claim, the marks of the functions that say it, and what makes one ruling of several."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from report.analysis import available
from report.analysis.available import DataMissingError, DeviceMissingError
from report.load.paper import Machine, Paper
from report.published.verdict import NOT_COMPARABLE, UNDECIDED
from report.text.prose import listing

CONFIRMED, REFUTED = "confirmed", "refuted"

MARKS = {CONFIRMED: "✓", REFUTED: "✗", UNDECIDED: "?", NOT_COMPARABLE: "–"}


@dataclass(frozen=True)
class Ruling:
    """Whether a claim or a part of one holds (None: undecided), and what decides, with its numbers, or would.

    Not ``comparable`` is a claim about something that no data of ours mean. ``sources`` are keys of the bibliography:
    whose timings it rests on where ours are missing.
    """

    holds: bool | None
    text: str
    comparable: bool = True
    sources: tuple[str, ...] = ()

    @property
    def mark(self) -> str:
        """One of ``MARKS``."""
        if self.holds is None:
            return UNDECIDED if self.comparable else NOT_COMPARABLE
        return CONFIRMED if self.holds else REFUTED


Rule = Callable[..., Ruling]
Rules = dict[str, Callable[[Paper], Ruling]]

CLAIMS: Rules = {}
"""The rules by the ids in ``data/published/claims.csv``."""

ELSEWHERE: Rules = {}
"""Of claims about GPUs the rules by what others timed, which count where the rule in ``CLAIMS`` lacks data."""


def claim(key: str, *arguments: Any, rules: Rules = CLAIMS) -> Callable[[Rule], Rule]:
    """Mark the function that rules on a claim, given the paper and these arguments."""

    def register(rule: Rule) -> Rule:
        rules[key] = lambda paper: rule(paper, *arguments)
        return rule

    return register


def claim_anywhere(key: str, *arguments: Any) -> Callable[[Rule], Rule]:
    """Mark the function that rules on a claim that names no device (``anywhere``): it is also given a machine."""

    def register(rule: Rule) -> Rule:
        CLAIMS[key] = lambda paper: anywhere(paper, lambda machine: rule(paper, machine, *arguments))
        return rule

    return register


def or_undecided(rule: Callable[[], Ruling]) -> Ruling:
    """Return a ruling; undecided, with the command that would decide, where data are missing."""
    try:
        return rule()
    except DataMissingError as gap:
        return Ruling(None, str(gap))


def or_elsewhere(ours: Callable[[], Ruling], theirs: Callable[[], Ruling]) -> Ruling:
    """Return our ruling, or the one by what others timed where our data are missing.

    If that is open, too, what would decide comes first, unless it is a device that the reader may not have.
    """
    try:
        return ours()
    except DeviceMissingError:
        return or_undecided(theirs)
    except DataMissingError as gap:
        found = or_undecided(theirs)
        return found if found.holds is not None else replace(found, text=f"{gap} {found.text}")


def anywhere(paper: Paper, rule: Callable[[Machine], Ruling]) -> Ruling:
    """Rule on a claim on each machine shown that has the data; undecided where machines contradict."""
    found = [part for _, part in available.results_of_each(paper, rule) if isinstance(part, Ruling)]
    holds = {part.holds for part in found}
    return Ruling(holds.pop() if len(holds) == 1 else None, " ".join(part.text for part in found))


OUTCOMES = {True: "holds", False: "does not hold", None: "is open"}


def at_batches(holds: Mapping[int, bool | None], text: str) -> Ruling:
    """Rule on a claim that names no batch size: undecided where the outcome is not the same at all."""
    found = set(holds.values())
    if len(found) == 1:
        return Ruling(found.pop(), text)
    parts = [
        f"{words} at batch size {listing([str(batch) for batch, held in holds.items() if held is outcome])}"
        for outcome, words in OUTCOMES.items()
        if outcome in found
    ]
    return Ruling(None, f"{text} It {listing(parts)}; the claim names none.")
