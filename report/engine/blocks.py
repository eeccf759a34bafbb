"""A document's blocks as every output needs them: callouts, pictures, numbers with units, content of its format."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report.engine.pandoc import Element, div, is_leaf, plain, plain_text, string, transform
from report.engine.source import Places

CALLOUTS = {f"callout-{kind}": kind.title() for kind in ("note", "tip", "important", "warning", "caution")}
CONDITIONS = {"content-visible": True, "content-hidden": False}

# Classes that mean something to Quarto and nothing here.
UNKNOWN_PREFIXES = ("callout-", "panel-", "column-", "content-")
UNKNOWN_CLASSES = {"aside", "columns", "column", "proof", "theorem", "grid"}

THIN_SPACE = "\u202f"
NUMBER = r"(?<![\w.,])\d[\d.,]*"
UNIT = (
    r"(?:[%‰]|[pnµmkMGTPE]?(?:FLOP(?:/(?:s|B|cycle))?|OP(?:/(?:s|B))?|MAC|B(?:/s)?|T/s|s|W|Hz)"
    r"|inputs/s|[kMGTPE])(?![\w/])"
)
WITHIN = re.compile(rf"({NUMBER})\u00a0(?={UNIT})")
NUMBER_AT_END = re.compile(rf"{NUMBER}$")
UNIT_AT_START = re.compile(UNIT)


def visible_in(output: str, blocks: list[Element], places: Places) -> list[Element]:
    """Return the blocks without those meant for other output formats than `output`, `html` or `typst`."""

    def change(element: Element) -> list[Element] | None:
        if element["t"] in ("RawBlock", "RawInline"):
            return None if element["c"][0] == output else []
        if element["t"] not in ("Div", "Span"):
            return None
        (_, classes, pairs), content = element["c"]
        for name in CONDITIONS.keys() & classes:
            shown = CONDITIONS[name] == (_format(pairs, name, places) == output)
            return visible_in(output, content, places) if shown else []
        return None

    return list(transform(blocks, change))


def _format(pairs: list[list[str]], name: str, places: Places) -> str:
    given = dict(pairs)
    if set(given) != {"when-format"} or given["when-format"] not in ("html", "typst"):
        raise places.error(name, f'".{name}" needs when-format="html" or when-format="typst"')
    return given["when-format"]


def with_callouts(blocks: list[Element], places: Places) -> list[Element]:
    """Return the blocks with each callout as a div of two, a title and a body.

    Raise UserError for a callout, a div or a layout that Quarto knows and the embedded engine does not.
    """

    def change(block: Element) -> list[Element] | None:
        if block["t"] != "Div":
            return None
        (identifier, classes, pairs), content = block["c"]
        kinds = [name for name in classes if name in CALLOUTS]
        if kinds:
            return [_callout(kinds[0], identifier, pairs, content, places)]
        for name in classes:
            if name.startswith(UNKNOWN_PREFIXES) or name in UNKNOWN_CLASSES:
                raise places.error(name, f"the embedded engine does not know the div '.{name}'")
        for key, _ in pairs:
            if key.startswith("layout"):
                raise places.error(key, f"the embedded engine does not know '{key}'")
        return None

    return list(transform(blocks, change))


def _callout(kind: str, identifier: str, pairs: list[list[Any]], content: list[Element], places: Places) -> Element:
    given = dict(pairs)
    title = [string(given.pop("title", CALLOUTS[kind]))]
    folded = ["folded"] if given.pop("collapse", "false") == "true" else []
    for key in given:
        raise places.error(key, f"the embedded engine does not know '{key}' of a callout")
    if content and content[0]["t"] == "Header":
        title, content = content[0]["c"][2], content[1:]
    parts = [div([plain(title)], classes=["title"]), div(content, classes=["body"])]
    return div(parts, identifier, ["callout", kind, *folded])


@dataclass(frozen=True)
class Picture:
    """A picture: its path below the root, its alternative text, its width as a share of the text (`80%`)."""

    path: str
    alternative: str
    width: str | None


def with_pictures(
    blocks: list[Element], root: Path, places: Places, change: Callable[[Picture], Element]
) -> list[Element]:
    """Return the blocks with each image replaced by what `change` makes of it.

    Raise UserError, with file and line, for a picture from a network, outside the root, not there, or with
    attributes other than an alternative text and a width in per cent.
    """

    def replace(element: Element) -> list[Element] | None:
        if element["t"] != "Image":
            return None
        (_, _, pairs), description, (path, _) = element["c"]
        given = dict(pairs)
        width = given.pop("width", None)
        alternative = given.pop("fig-alt", None) or plain_text(description)
        if given or not re.fullmatch(r"[\d.]+%", width or "100%"):
            raise places.error(path, "of a picture's attributes only fig-alt and width=…% are known")
        file = (root / path).resolve()
        if re.match(r"\w+:", path) or not file.is_file() or root not in file.parents:
            raise places.error(path, f"the picture {path} is not a file in the project")
        return [change(Picture(file.relative_to(root).as_posix(), alternative, width))]

    return list(transform(blocks, replace))


def with_thin_spaces(node: Any) -> Any:
    """Return a copy of a document tree in which each number stands a thin space from its unit.

    No line breaks there; ISO 80000-1, 7.1.4 asks for a space. Quarto leaves the space as the source has it, which only
    eyes tell apart.
    """
    if isinstance(node, dict):
        return node if is_leaf(node) else {key: with_thin_spaces(value) for key, value in node.items()}
    if not isinstance(node, list):
        return node
    result: list[Any] = []
    for item in map(with_thin_spaces, node):
        if isinstance(item, dict) and item.get("t") == "Str":
            item = string(WITHIN.sub(rf"\1{THIN_SPACE}", item["c"]))
            if _follows_number(result) and UNIT_AT_START.match(item["c"]):
                result.pop()
                item = string(result.pop()["c"] + THIN_SPACE + item["c"])
        result.append(item)
    return result


def _follows_number(inlines: list[Any]) -> bool:
    """Return whether the last two are a text that ends in a number, and a space."""
    if len(inlines) < 2 or not all(isinstance(inline, dict) for inline in inlines[-2:]):
        return False
    before, space = inlines[-2:]
    between = space.get("t") in ("Space", "SoftBreak")
    return between and before.get("t") == "Str" and bool(NUMBER_AT_END.search(before["c"]))
