"""The one error that a user's input can cause, and short descriptions of others."""


class UserError(Exception):
    """Bad input. Its text is one sentence that names the file, row, flag or model and says what to do.

    The command lines print it without a traceback and exit with code 2.
    """


def in_short(problem: BaseException) -> str:
    """Return an exception's type and the first sentence of its text, as a table's column holds it."""
    lines = str(problem).strip().splitlines()
    first = lines[0].partition(". ")[0] if lines else "no message"
    return f"{type(problem).__name__}: {first}"
