"""Suggests the known name that a user may have meant by an unknown one."""

import difflib
import fnmatch
from collections.abc import Iterable

from measure.errors import UserError

LIKE, VERY_LIKE = 0.5, 0.7
"""``difflib``'s ratio of two names from which on one may be meant, and from which on it most likely is."""

LISTED = 15
"""So many known names are listed; of more those are that are nearest to an unknown one."""


def nearest(name: str, known: Iterable[str], likeness: float = LIKE) -> list[str]:
    """Return at most three known names, those spelt most like the name first, whatever their case."""
    lower = {each.lower(): each for each in known}
    return [lower[each] for each in difflib.get_close_matches(name.lower(), lower, cutoff=likeness)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean compare?`` to end a sentence about an unknown name, or nothing where none is like it."""
    near = nearest(name, known, VERY_LIKE)
    return f"; did you mean {near[0]}?" if near else ""


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for a name, given for ``what``, that is not one of those that are known."""
    known = list(known)
    if len(known) > LISTED:
        return UserError(
            f"{what}: {name!r} is not one of the {len(known)}; the nearest are {', '.join(nearest(name, known, 0))}"
        )
    return UserError(f"{what}: {name!r} is not one of {', '.join(known)}{did_you_mean(name, known)}")


def chosen(what: str, patterns: Iterable[str], known: Iterable[str]) -> set[str]:
    """Return the known names that names or globs, given for ``what``, mean. Raises UserError for one without any."""
    known, found = sorted(known), set()
    for pattern in patterns:
        meant = fnmatch.filter(known, pattern)
        if not meant:
            raise unknown(what, pattern, known)
        found.update(meant)
    return found
