"""Pandoc: running it, and the elements and walks of the document tree that it reads and writes."""

import json
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pypandoc

from measure.errors import UserError

#: A block or an inline, as pandoc's JSON has it: `t` is its type, `c` its content.
Element = dict[str, Any]

LONGEST = 300
"""So many characters are shown of what pandoc says: of a style that it cannot read it says all of it."""


class PandocError(Exception):
    """A complaint of pandoc, with the input's line, from 1, or with the piece of it that is wrong, if known."""

    def __init__(self, text: str, line: int | None = None, piece: str | None = None) -> None:
        super().__init__(text)
        self.line = line
        self.piece = piece


def find_pandoc() -> str:
    """Return the path of pandoc. Raise UserError where there is none."""
    try:
        return str(pypandoc.get_pandoc_path())
    except OSError:
        raise UserError(
            "there is no pandoc beside this Python or on the PATH; install it with pip install pypandoc_binary"
        ) from None


def run_pandoc(arguments: list[str], text: str, directory: Path) -> str:
    """Return what pandoc, run in `directory`, makes of `text`.

    Raise PandocError for whatever it warns of (an unknown citation, a formula that it cannot convert, a
    div left open), and UserError where it stops.
    """
    with tempfile.TemporaryDirectory() as temporary:
        log = Path(temporary) / "log.json"
        run = subprocess.run(
            [find_pandoc(), "--quiet", f"--log={log}", *arguments],
            input=text,
            capture_output=True,
            encoding="utf-8",
            cwd=directory,
        )
        if run.returncode:
            said = " ".join(run.stderr.split())
            raise UserError(f"pandoc stops: {said if len(said) <= LONGEST else said[:LONGEST] + '…'}")
        messages = json.loads(log.read_text("utf-8")) if log.exists() else []
    for message in messages:
        if message["verbosity"] == "WARNING":
            raise _error(message)
    return run.stdout


def _error(message: dict[str, Any]) -> PandocError:
    unknown = re.fullmatch(r"citation (\S+) not found", message.get("message", ""))
    if unknown:
        key = f"@{unknown[1]}"
        return PandocError(f"the citation {key} is in none of the bibliographies", piece=key)
    if message["type"] == "UnclosedDiv":
        return PandocError("this ::: div is never closed", message["openpos"]["line"])
    piece = message.get("contents", "").strip().split("\n")[0]
    return PandocError(" ".join(message["pretty"].split()), message.get("line"), piece or None)


def transform(node: Any, change: Callable[[Element], list[Element] | None]) -> Any:
    """Return a copy of a tree in which `change` may replace each element by any number of others.

    Elements come in document order, a parent before its children. Where `change` returns None the element
    stays. The children of what it returns are walked in turn, the returned elements themselves are not.
    """
    if isinstance(node, dict):
        if is_leaf(node):
            return node
        if "c" in node:
            return {**node, "c": transform(node["c"], change)}
        return {key: transform(value, change) for key, value in node.items()}  # a part of an element
    if not isinstance(node, list):
        return node
    result = []
    for item in node:
        changed = change(item) if isinstance(item, dict) and "t" in item else None
        if changed is not None:
            result += [transform(new, change) for new in changed]
        elif isinstance(item, list) or (isinstance(item, dict) and not is_leaf(item)):
            result.append(transform(item, change))
        else:  # most of a tree
            result.append(item)
    return result


def is_leaf(node: dict[str, Any]) -> bool:
    """Return whether a node is an element that holds no others, such as a word or a space."""
    return "t" in node and not isinstance(node.get("c"), (dict, list))


def plain_text(node: Any) -> str:
    """Return the words of a tree, without markup."""
    parts: list[str] = []

    def collect(element: Element) -> None:
        if element["t"] == "Str":
            parts.append(element["c"])
        elif element["t"] in ("Space", "SoftBreak", "LineBreak"):
            parts.append(" ")
        elif element["t"] in ("Code", "Math"):
            parts.append(element["c"][1])

    transform(node, collect)
    return "".join(parts)


def attributes(identifier: str = "", classes: list[str] | None = None) -> list[Any]:
    return [identifier, classes or [], []]


def string(text: str) -> Element:
    return {"t": "Str", "c": text}


def plain(inlines: list[Element]) -> Element:
    return {"t": "Plain", "c": inlines}


def div(content: list[Element], identifier: str = "", classes: list[str] | None = None) -> Element:
    return {"t": "Div", "c": [attributes(identifier, classes), content]}


def span(content: list[Element], identifier: str = "", classes: list[str] | None = None) -> Element:
    return {"t": "Span", "c": [attributes(identifier, classes), content]}


def raw_block(output: str, text: str) -> Element:
    return {"t": "RawBlock", "c": [output, text]}


def raw_inline(output: str, text: str) -> Element:
    return {"t": "RawInline", "c": [output, text]}
