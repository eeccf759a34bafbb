"""What the cache says of a claim, and how parts of a claim make one ruling."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from report.analysis import available
from report.analysis.available import DataMissingError
from report.load.paper import Machine, Paper
from report.text.quantities import listing

CONFIRMED, REFUTED, UNDECIDED = "confirmed", "refuted", "undecided"

MARKS = {CONFIRMED: "✓", REFUTED: "✗", UNDECIDED: "?"}


@dataclass(frozen=True)
class Ruling:
    """One of ``MARKS``, and the sentences with the numbers that decide, or with what would."""

    mark: str
    text: str


@dataclass(frozen=True)
class Part:
    """Whether a part of a claim holds (None: it cannot be told), and a sentence with its numbers."""

    holds: bool | None
    text: str


Claim = Callable[[Paper], Ruling]


def whole(parts: Iterable[Callable[[], Part]]) -> Ruling:
    """A claim that holds where all of its parts do: one that fails refutes it, one that lacks data leaves it open."""
    found: list[Part] = []
    for part in parts:
        try:
            found.append(part())
        except DataMissingError as gap:
            found.append(Part(None, str(gap)))
    holds = [part.holds for part in found]
    mark = REFUTED if False in holds else UNDECIDED if None in holds else CONFIRMED
    return Ruling(mark, " ".join(part.text for part in found))


def anywhere(paper: Paper, part: Callable[[Machine], Part]) -> Ruling:
    """A claim that names no device, held against each machine that has the data; open where machines contradict."""
    found: list[Part] = []
    gaps: list[str] = []
    for machine in available.machines(paper):
        if machine not in paper.shown:
            continue
        try:
            found.append(part(machine))
        except DataMissingError as gap:
            gaps.append(str(gap))
    if not found:
        raise DataMissingError(" ".join(gaps))
    holds = {part.holds for part in found}
    mark = CONFIRMED if holds == {True} else REFUTED if holds == {False} else UNDECIDED
    return Ruling(mark, " ".join(part.text for part in found))


def at_batches(holds: dict[int, bool], text: str) -> Ruling:
    """A claim that names no batch size: open where it holds at some that were counted and not at others."""
    if all(holds.values()):
        return Ruling(CONFIRMED, text)
    if not any(holds.values()):
        return Ruling(REFUTED, text)
    yes = listing([str(batch) for batch, held in holds.items() if held])
    no = listing([str(batch) for batch, held in holds.items() if not held])
    return Ruling(UNDECIDED, f"{text} It holds at batch size {yes}, not at {no}; the claim names none.")
