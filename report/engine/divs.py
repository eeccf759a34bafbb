"""Quarto's divs: content for one output format, and callouts."""

from __future__ import annotations

from typing import Any

from measure.errors import UserError
from report.engine.pandoc import Element, div, plain, string, transform
from report.engine.places import Places

CALLOUTS = {
    "callout-note": "Note",
    "callout-tip": "Tip",
    "callout-important": "Important",
    "callout-warning": "Warning",
    "callout-caution": "Caution",
}
CONDITIONS = {"content-visible": True, "content-hidden": False}

# Classes that mean something to Quarto and nothing here.
UNKNOWN_PREFIXES = ("callout-", "panel-", "column-", "content-")
UNKNOWN_CLASSES = {"aside", "columns", "column", "proof", "theorem", "grid"}


def visible_in(output: str, blocks: list[Element], places: Places) -> list[Element]:
    """The blocks without those meant for other output formats than `output`, `html` or `typst`."""

    def change(element: Element) -> list[Element] | None:
        if element["t"] in ("RawBlock", "RawInline"):
            return None if element["c"][0] == output else []
        if element["t"] not in ("Div", "Span"):
            return None
        (_, classes, pairs), content = element["c"]
        for name in classes:
            if name in CONDITIONS:
                shown = CONDITIONS[name] == (_format(pairs, name, places) == output)
                return visible_in(output, content, places) if shown else []
        return None

    return list(transform(blocks, change))


def _format(pairs: list[list[str]], name: str, places: Places) -> str:
    given = dict(pairs)
    if set(given) != {"when-format"} or given["when-format"] not in ("html", "typst"):
        raise UserError(f'{places.of(name)}: ".{name}" needs when-format="html" or when-format="typst"')
    return given["when-format"]


def with_callouts(blocks: list[Element], places: Places) -> list[Element]:
    """The blocks with each callout as a div of two, a title and a body.

    Raises UserError for a callout, a div or a layout that Quarto knows and the embedded engine does not.
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
                raise UserError(f"{places.of(name)}: the embedded engine knows no div '.{name}'")
        for key, _ in pairs:
            if key.startswith("layout"):
                raise UserError(f"{places.of(key)}: the embedded engine knows no '{key}'")
        return None

    return list(transform(blocks, change))


def _callout(
    kind: str, identifier: str, pairs: list[list[Any]], content: list[Element], places: Places
) -> Element:
    title = [string(CALLOUTS[kind])]
    for key, value in pairs:
        if key != "title":
            raise UserError(f"{places.of(key)}: the embedded engine knows no '{key}' of a callout")
        title = [string(value)]
    if content and content[0]["t"] == "Header":
        title, content = content[0]["c"][2], content[1:]
    parts = [div([plain(title)], classes=["title"]), div(content, classes=["body"])]
    return div(parts, identifier, ["callout", kind])
