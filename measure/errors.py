"""The one error that a user's input can cause, and short descriptions of others.

Suggests the known name that a user may have meant by an unknown one.
"""

import difflib
import fnmatch
import sys
from collections.abc import Iterable
from pathlib import PurePath

LONGEST_LINE = 500  # characters of a short description: a table's cell holds it, and people read it
LIKE, VERY_LIKE = 0.5, 0.7  # ``difflib``'s ratio of two names: one may be meant, and most likely is
QUOTED = 40  # characters of a cell, header or name that an error quotes
LEFT_OUT = ("torchvision:", "torchaudio:", "language:")  # what tables write no model's name with
LISTED = 15  # the most known names that an error lists; of more it lists the nearest


class UserError(Exception):
    """Bad input. Its text is one sentence that names the file, row, flag or model and says what to do.

    The command lines print it without a traceback and exit with ``exit_code``.
    """

    exit_code = 2


def quote(text: str) -> str:
    """Return a text in quotes for an error, cut after ``QUOTED`` characters."""
    return repr(text if len(text) <= QUOTED else text[:QUOTED] + "…")


def as_called(words: str) -> str:
    """Return a command such as ``measure show`` as this user calls the program, installed or in a clone."""
    return f"{'roofwright' if PurePath(sys.argv[0]).stem == 'roofwright' else 'python -m'} {words}"


def text_of(problem: BaseException) -> str:
    """Return an exception's text, also where reading it raises another: a model's exceptions are its own."""
    try:
        return str(problem)
    except Exception:
        return "its text cannot be read"


def in_short(problem: BaseException) -> str:
    """Return an exception's type and the first sentence of its text, as a table's column holds it."""
    lines = text_of(problem).strip().splitlines()
    first = lines[0].partition(". ")[0] if lines else "no message"
    return one_line(f"{type(problem).__name__}: {first}")


def one_line(text: str) -> str:
    """Return a text as one line of printable characters, ``LONGEST_LINE`` at most: any table and terminal takes it."""
    line = " ".join(text.split())
    if len(line) > LONGEST_LINE:
        line = line[: LONGEST_LINE - 1] + "…"
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in line)


def printable(text: str) -> str:
    """Escape the characters that a terminal, or Markdown, would obey: a stranger may have put them into a name."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def nearest(name: str, known: Iterable[str], likeness: float = LIKE) -> list[str]:
    """Return at most three known names, the most alike first, whatever their case."""
    lower = {each.lower(): each for each in known}
    return [lower[each] for each in difflib.get_close_matches(name.lower(), lower, cutoff=likeness)]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name, ``; did you mean compare?``; empty if none is like it."""
    near = nearest(name, known, VERY_LIKE)
    return f"; did you mean {near[0]}?" if near else ""


def by_spaces(name: str) -> str:
    """Return the end of a sentence about an unknown name that is several, with commas between; empty if it is one."""
    names = name.replace(",", " ").split()
    return f"; write several with spaces: {' '.join(names)}" if "," in name and len(names) > 1 else ""


def unknown(what: str, name: str, known: Iterable[str]) -> UserError:
    """Return the error for an unknown name, given for ``what``."""
    known = list(known)
    if several := by_spaces(name):
        return UserError(f"{what}: {quote(name)} is not one of the {len(known)}{several}")
    if len(known) > LISTED:
        near = ", ".join(nearest(name, known, 0))
        return UserError(f"{what}: {quote(name)} is not one of the {len(known)}; the nearest are {near}")
    return UserError(f"{what}: {quote(name)} is not one of {', '.join(known)}{did_you_mean(name, known)}")


def matching(known: Iterable[str], pattern: str) -> list[str]:
    """Return the known names that a name or glob means.

    The library that tables leave out may stand before it; maker and product line may be left out, as in the paper.
    """
    known, name = list(known), pattern.partition(":")[2] if pattern.startswith(LEFT_OUT) else pattern
    return fnmatch.filter(known, name) or fnmatch.filter(known, f"* {name}")


def chosen(what: str, patterns: Iterable[str], known: Iterable[str]) -> set[str]:
    """Return the known names that match names or globs, given for ``what``. Raises UserError if one matches none."""
    known, found = sorted(known), set()
    for pattern in patterns:
        meant = matching(known, pattern)
        if not meant:
            raise unknown(what, pattern, known)
        found.update(meant)
    return found
