"""The command ``roofwright``: both command lines under one name, as ``python -m roofwright`` in a clone."""

import os
import sys
from collections.abc import Callable, Sequence

from measure.verbs.flags import CommandLine
from measure.verbs.terminal import answer


def _measure(words: Sequence[str]) -> int:
    from measure.__main__ import main

    # Models of one's own lie in the current folder, which ``python -m`` looks into first. Here it comes last, so that
    # no file in it stands in for a part of the program.
    sys.path.append(os.getcwd())
    return main(words)


def _report(words: Sequence[str]) -> int:
    from report.__main__ import main

    return main(words)


PARTS: dict[str, Callable[[Sequence[str]], int]] = {"measure": _measure, "report": _report}


def parser() -> CommandLine:
    """Return the flags, up to the part that the rest of the words belongs to."""
    flags = CommandLine(
        prog="roofwright",
        description="Measure how deep networks run on this machine, and render the paper about it.",
        epilog="See roofwright measure --help and roofwright report --help. What is measured lies in the folder data "
        "below the current one, the paper in _site.",
    )
    flags.add_argument("--version", action="store_true", help="print the version and exit")
    parts = "measure as python -m measure does, or render as python -m report does; what follows is for that part"
    flags.add_argument("part", nargs="?", choices=list(PARTS), help=parts)
    return flags


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; its exit codes are those of its parts, and 2 where none is named."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words and words[0] in PARTS:
        return PARTS[words[0]](words[1:])
    return answer("roofwright", lambda: run(words))


def run(words: Sequence[str]) -> int:
    """Do what words say that name no part. Raise UserError for bad input."""
    flags = parser()
    if flags.parse_args(words).version:
        from measure.machine.environment import version

        print(f"roofwright {version()}")
        return 0
    flags.print_help(sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
