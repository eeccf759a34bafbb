"""The command ``roofwright``: both command lines under one name, as ``python -m roofwright`` in a clone."""

import importlib
import os
import sys
from collections.abc import Sequence

from roofwright.command_line import CommandLine, answer

PARTS = ("measure", "report")


def parser() -> CommandLine:
    """Return the flags before the part; the part parses the rest."""
    flags = CommandLine(
        prog="roofwright",
        description="Measure how deep networks run on this machine, and render the paper about it.",
        epilog="See roofwright measure --help and roofwright report --help. Measurements lie in the folder data below "
        "the current one, the paper in _site.",
    )
    flags.add_argument("--version", action="store_true", help="print the version and exit")
    parts = "measure as python -m measure does, or render as python -m report does; it takes the rest of the line"
    flags.add_argument("part", nargs="?", choices=PARTS, help=parts)
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a part and return its exit code; 2 if none is named."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if not words or words[0] not in PARTS:
        return answer("roofwright", lambda: run(words))
    part, *words = words
    if part == "measure":
        # A user's own models lie in the current folder. ``python -m`` looks there first; here it comes last, so that
        # no file in it replaces a part of the program.
        sys.path.append(os.getcwd())
    code: int = importlib.import_module(f"{part}.__main__").main(words)
    return code


def run(words: Sequence[str]) -> int:
    """Print the version or the help. Raises UserError for bad input."""
    flags = parser()
    if flags.parse_args(words).version:
        from measure.machine.environment import version

        print(f"roofwright {version()}")
        return 0
    flags.print_help(sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
