"""Cross-references: from a label in the text to a link that names a number."""

from __future__ import annotations

import re

from measure.errors import UserError
from report.engine.numbering import NAMES, Numbered
from report.engine.pandoc import Element, attributes, string, transform
from report.engine.places import Places

# What would be printed raw: a shortcode, a fence or attributes that pandoc could not read.
RAW_SYNTAX = re.compile(r"^(:::+|\{[#.=]|\{\{<)")


def with_references(document: Numbered, places: Places) -> list[Element]:
    """The document's blocks with each `@fig-x` and its like as a link.

    Raises UserError, with file and line, for a label that is not there and for syntax that pandoc left as it
    stands.
    """

    def change(element: Element) -> list[Element] | None:
        if element["t"] == "Cite":
            return _links(element["c"][0], document, places)
        if element["t"] == "Link":
            target = element["c"][2][0]
            # Notes and references get their anchors from pandoc later.
            if target.startswith("#") and target[1:] not in document.anchors:
                raise UserError(f"{places.of(target)}: the link to '{target}' leads nowhere")
        if element["t"] == "Str" and RAW_SYNTAX.match(element["c"]):
            raise UserError(f"{places.of(element['c'])}: '{element['c']}' is no syntax that is known here")
        return None

    return list(transform(document.blocks, change))


def _links(citations: list[Element], document: Numbered, places: Places) -> list[Element] | None:
    labels = [_label(citation["citationId"]) for citation in citations]
    crossing = [label.split("-")[0] in NAMES and "-" in label for label in labels]
    if not any(crossing):
        return None
    result: list[Element] = []
    for citation, label in zip(citations, labels, strict=True):
        place = places.of(f"@{citation['citationId']}")
        if not all(crossing):
            raise UserError(f"{place}: one bracket holds a citation and a cross-reference; write two")
        if label not in document.numbers:
            why = "has no number" if label in document.anchors else "is not there"
            raise UserError(f"{place}: the cross-reference @{label} leads nowhere, '{label}' {why}")
        if citation["citationSuffix"]:
            raise UserError(f"{place}: Quarto drops what follows @{label} in its bracket; put it outside")
        if result:
            result += [string(","), {"t": "Space"}]
        result.append(_link(citation, label, document.numbers[label]))
    return result


def _label(key: str) -> str:
    """A capital letter at the start of a reference is the writer's, not the label's."""
    return key[:1].lower() + key[1:]


def _link(citation: Element, label: str, number: str) -> Element:
    text: list[Element] = [string(number)]
    if citation["citationPrefix"]:
        text = [*citation["citationPrefix"], string(f"\u00a0{number}")]
    elif citation["citationMode"]["t"] != "SuppressAuthor":
        text = [string(f"{NAMES[label.split('-')[0]]}\u00a0{number}")]
    return {"t": "Link", "c": [attributes(classes=["cross-reference"]), text, [f"#{label}", ""]]}
