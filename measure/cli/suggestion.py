"""Which known name a user may have meant by one that is not known: what every complaint about a name ends with."""

import difflib
from collections.abc import Iterable

from measure.errors import UserError

LIKE, VERY_LIKE = 0.5, 0.7
"""How much of two names is the same where one may be meant, and where it most likely is (``difflib``'s ratio)."""


def nearest(name: str, known: Iterable[str], likeness: float = LIKE) -> list[str]:
    """At most three of the known names, those spelt most like the name, the likest first, whatever their case."""
    lower = {each.lower(): each for each in known}
    return [lower[each] for each in difflib.get_close_matches(name.lower(), lower, cutoff=likeness)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about an unknown name: ``; did you mean compare?``, or nothing where none is like it."""
    near = nearest(name, known, VERY_LIKE)
    return f"; did you mean {near[0]}?" if near else ""


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """The complaint about a name, given for ``what``, that is none of a few."""
    known = list(known)
    return UserError(f"{what}: {name!r} is not one of {', '.join(known)}{did_you_mean(name, known)}")
