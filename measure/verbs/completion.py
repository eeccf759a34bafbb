"""Completion of the command ``roofwright`` in a shell, by shtab: verbs, flags, and the words that a flag takes."""

import importlib
from argparse import Action
from collections.abc import Sequence
from typing import Any

from measure.domain import variants
from measure.domain.models import BUILT_IN
from measure.domain.words import EAGER, PRECISIONS
from measure.errors import UserError, unknown
from measure.run.sections import SECTIONS
from measure.verbs.flags import VERBS, parser_of
from roofwright.command_line import CommandLine

MODELS = [model.name for model in BUILT_IN]
WORDS: dict[str, Sequence[str]] = {  # by the flag that takes them
    "--models": MODELS,
    "--sections": list(SECTIONS),
    "--precisions": PRECISIONS,
    "--variants": (EAGER, *variants.NAMES),
    "--optimizers": variants.OPTIMIZERS,
    "--device": ("auto", "cpu", "cuda", "mps"),
}
MODEL_VERBS = ("model", "predict", "show", "forget")  # whose first argument is a model


def script(shell: str, measuring: CommandLine) -> str:
    """Return the text that a shell sources. Raises UserError without shtab, and for a shell that it does not know."""
    try:
        import shtab
    except ImportError:
        raise UserError("--print-completion: needs shtab; pip install shtab, or '.[completion]' in a clone") from None
    if shell not in shtab.SUPPORTED_SHELLS:
        raise unknown("--print-completion", shell, shtab.SUPPORTED_SHELLS)
    whole = CommandLine(prog="roofwright")
    parts = whole.add_subparsers(dest="part")
    rendering = importlib.import_module("report.__main__").parser()  # by name: measuring never needs the report
    _add_words(parts.add_parser("report", help="render the paper", parents=[rendering], add_help=False), shtab, False)
    part = parts.add_parser("measure", help="measure this machine", parents=[measuring], add_help=False)
    verbs = part.add_subparsers(dest="verb")
    for name, line in VERBS.items():
        text = line.partition("  ")[2].strip()
        verb = verbs.add_parser(name, help=text, parents=[parser_of(name)], add_help=False)
        _add_words(verb, shtab, name in MODEL_VERBS)
    _add_words(part, shtab, False)
    return str(shtab.complete(whole, shell))


def _add_words(flags: CommandLine, shtab: Any, names_model: bool) -> None:
    """Give each action the words or the files that complete it. The parser is for completion alone."""
    actions: list[Action] = flags._actions
    for action in actions:
        metavar = str(action.metavar or "")
        is_first = not action.option_strings and names_model
        words = next((WORDS[flag] for flag in action.option_strings if flag in WORDS), MODELS if is_first else None)
        if words:
            action.choices = list(words)
        elif action.dest == "data":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif any(word in metavar for word in ("FILE", "FOLDER")):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
