"""What the cache says of a claim, the marks of the functions that say it, and how parts make one ruling."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from report.analysis import available
from report.analysis.available import DataMissingError
from report.load.paper import Machine, Paper
from report.text.quantities import listing

CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "undecided"

MARKS = {CONFIRMED: "✓", REFUTED: "✗", UNDECIDED: "?"}


@dataclass(frozen=True)
class Ruling:
    """Whether a claim or a part of one holds (None: undecided), and what decides, with its numbers, or would."""

    holds: bool | None
    text: str

    @property
    def mark(self) -> str:
        """One of ``MARKS``."""
        return UNDECIDED if self.holds is None else CONFIRMED if self.holds else REFUTED


CLAIMS: dict[str, Callable[[Paper], Ruling]] = {}
"""The rules by the ids in ``data/published/claims.csv``."""

Rule = Callable[..., Ruling]


def claim(key: str, *arguments: Any) -> Callable[[Rule], Rule]:
    """Mark the function that rules on a claim, given the paper and these arguments."""

    def register(rule: Rule) -> Rule:
        CLAIMS[key] = lambda paper: rule(paper, *arguments)
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


def whole(parts: Iterable[Callable[[], Ruling]]) -> Ruling:
    """Rule on a claim that holds where all parts do: one that fails refutes it, one that lacks data leaves it open."""
    found = [or_undecided(part) for part in parts]
    holds = [part.holds for part in found]
    outcome = False if False in holds else None if None in holds else True
    return Ruling(outcome, " ".join(part.text for part in found))


def anywhere(paper: Paper, rule: Callable[[Machine], Ruling]) -> Ruling:
    """Rule on a claim on each machine shown that has the data; undecided where machines contradict."""
    found = [part for _, part in available.results_of_each(paper, rule) if isinstance(part, Ruling)]
    holds = {part.holds for part in found}
    return Ruling(holds.pop() if len(holds) == 1 else None, " ".join(part.text for part in found))


def at_batches(holds: dict[int, bool], text: str) -> Ruling:
    """Rule on a claim that names no batch size: undecided where it holds at some that were counted, not at others."""
    if len(set(holds.values())) == 1:
        return Ruling(all(holds.values()), text)
    yes, no = (listing([str(batch) for batch, held in holds.items() if held == side]) for side in (True, False))
    return Ruling(None, f"{text} It holds at batch size {yes}, not at {no}; the claim names none.")
