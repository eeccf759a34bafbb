"""The one error that a user's input can cause, short descriptions of others, and suggestions for unknown names."""

import difflib
import fnmatch
import sys
from collections.abc import Iterable
from pathlib import PurePath

LONGEST_LINE = 500  # characters of a short description: a table's cell holds it, and people read it
LIKE, VERY_LIKE = 0.5, 0.7  # ``difflib``'s ratio of two names: one may be meant, and most likely is
QUOTED = 40  # characters of a cell, header or name that an error quotes
LEFT_OUT = ("torchvision:", "torchaudio:", "language:")  # before a name: tables leave them out
LISTED = 15  # the most names that an error lists; of more it lists the nearest


class UserError(Exception):
    """Bad input. Its text is one sentence that names the file, row, flag or model, and the remedy.

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


def nearest(name: str, names: Iterable[str], likeness: float = LIKE) -> list[str]:
    """Return at most three names, the most alike first, whatever their case."""
    lower = {each.lower(): each for each in names}
    return [lower[each] for each in difflib.get_close_matches(name.lower(), lower, cutoff=likeness)]


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the end of a sentence about an unknown name, ``; did you mean compare?``; empty if none is like it."""
    near = nearest(name, names, VERY_LIKE)
    return f"; did you mean {near[0]}?" if near else ""


def by_spaces(name: str) -> str:
    """Return the end of a sentence about an unknown name that is several, with commas between; empty if it is one."""
    names = name.replace(",", " ").split()
    return f"; write several with spaces: {' '.join(names)}" if "," in name and len(names) > 1 else ""


def unknown(flag: str, name: str, names: Iterable[str]) -> UserError:
    """Return the error for a name, given for ``flag``, that is none of ``names``."""
    names = list(names)
    if several := by_spaces(name):
        return UserError(f"{flag}: {quote(name)} is not one of the {len(names)}{several}")
    if len(names) > LISTED:
        near = ", ".join(nearest(name, names, 0))
        return UserError(f"{flag}: {quote(name)} is not one of the {len(names)}; the nearest are {near}")
    return UserError(f"{flag}: {quote(name)} is not one of {', '.join(names)}{did_you_mean(name, names)}")


def matching(names: Iterable[str], pattern: str) -> list[str]:
    """Return the names that a name or glob means, with or without ``LEFT_OUT``, or a chip's maker and product line."""
    names, name = list(names), pattern.partition(":")[2] if pattern.startswith(LEFT_OUT) else pattern
    return fnmatch.filter(names, name) or fnmatch.filter(names, f"* {name}")


def chosen(flag: str, patterns: Iterable[str], names: Iterable[str]) -> set[str]:
    """Return the names that match names or globs, given for ``flag``. Raises UserError if one matches none."""
    names, found = sorted(names), set[str]()
    for pattern in patterns:
        meant = matching(names, pattern)
        if not meant:
            raise unknown(flag, pattern, names)
        found.update(meant)
    return found
