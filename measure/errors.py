"""The one error that a user's input can cause, and short descriptions of others."""

LONGEST_LINE = 500
"""The most characters of a short description: a table's cell holds it, and people read it."""


class UserError(Exception):
    """Bad input. Its text is one sentence that names the file, row, flag or model and says what to do.

    The command lines print it without a traceback and exit with code 2.
    """


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
