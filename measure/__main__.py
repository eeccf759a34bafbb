"""The command line of measuring: ``python -m measure``."""

import glob
import sys
from collections.abc import Sequence

from measure.domain.models import BUILT_IN
from measure.errors import UserError, as_called, did_you_mean
from measure.verbs.flags import VERBS, parser_of
from roofwright.command_line import answer

TAKE_FILES = ("add-machine", "compare", "import-trace")


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0, a verb's own 1, 2 for bad input, or 130 after Ctrl-C."""
    words = sys.argv[1:] if argv is None else list(argv)
    verb = f" {words[0]}" if words and words[0] in VERBS else ""
    return answer(as_called(f"measure{verb}"), lambda: run(words))


def run(words: Sequence[str]) -> int:
    """Run a verb, or measure. Raises UserError for bad input. A model's name in place of a verb means ``model``.

    Imports the verb's module here, where Ctrl-C is handled already. Globs of files are expanded: not every shell does.
    """
    if words and not words[0].startswith("-"):
        verb, *rest = words
        if verb in TAKE_FILES:
            rest = [found for word in rest for found in (sorted(glob.glob(word)) or [word])]
        elif ":" in verb or any(verb == model.name for model in BUILT_IN):
            verb, rest = "model", list(words)
        if verb not in VERBS:
            hint = did_you_mean(verb, VERBS)
            raise UserError(f"there is no command {verb!r}; use {', '.join(VERBS)}, or flags alone to measure{hint}")
        flags = parser_of(verb).parse_args(rest)
        code: int = flags.run(flags)
        return code
    from measure.verbs import measure

    return measure.main(measure.parser().parse_args(words))


if __name__ == "__main__":
    sys.exit(main())
