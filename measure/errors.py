"""The one error that a user's input can cause."""


class UserError(Exception):
    """Bad input. Its text is one sentence that names the file, row, flag or model and says what to do.

    The command lines print it without a traceback and exit with code 2.
    """
