"""Numbers of sections, figures, tables and equations, by Quarto's rules, and links that name them."""

import json
import re
from typing import Any

from measure.errors import UserError
from report.engine.pandoc import Element, attributes, plain, span, string, transform
from report.engine.source import Places

NAMES = {"fig": "Figure", "tbl": "Table", "sec": "Section", "eq": "Equation"}
# Prefixes by which Quarto numbers other things.
RESERVED = ("lst", "tip", "nte", "wrn", "imp", "cau", "thm", "lem", "cor", "prp", "cnj", "def", "exm", "exr")
EQUATION_LABEL = re.compile(r"^\{#(eq-[^ }]+)\}$")
# What would be printed raw: a shortcode, a fence or attributes that pandoc could not read.
RAW_SYNTAX = re.compile(r"^(:::+|\{[#.=]|\{\{<)")


class Numbered:
    """A document whose sections and captions carry numbers; its callouts and conditional content are resolved.

    `numbers` maps each label that a cross-reference may name to its number, `anchors` holds every identifier.
    A figure is pandoc's Figure with its label, a table its Table with its label and caption, an equation a
    span of class `equation` with its label, its formula and its number in parentheses.

    Raises UserError, with file and line, for a label that is there twice, a caption that is missing and a
    label that is not where it can be.
    """

    def __init__(self, blocks: list[Element], number_sections: bool, places: Places) -> None:
        self.numbers: dict[str, str] = {}
        self.anchors: set[str] = set()
        self._places, self._number_sections = places, number_sections
        self._section: list[int] = []
        self._counts = dict.fromkeys(NAMES, 0)
        self.blocks: list[Element] = transform(blocks, self._change)

    def _change(self, element: Element) -> list[Element] | None:
        """Number one element; called in document order."""
        kind, content = element["t"], element.get("c", [])
        if kind == "Header":
            return [self._header(*content)]
        if kind in ("Div", "Figure", "Table"):
            return self._float(kind, content)
        if kind in ("Para", "Plain"):
            return [{"t": kind, "c": self._equations(content)}]
        if kind in ("Span", "Code", "Link", "Image", "CodeBlock"):
            self._anchor(content[0][0])
        return None

    def _anchor(self, identifier: str) -> None:
        if not identifier:
            return
        if identifier in self.anchors:
            raise self._places.error(identifier, f"the label '{identifier}' is defined twice", nth=1)
        self.anchors.add(identifier)

    def _next(self, kind: str, label: str) -> str:
        self._counts[kind] += 1
        self.numbers[label] = str(self._counts[kind])
        return self.numbers[label]

    def _header(self, level: int, attribute: list[Any], text: list[Element]) -> Element:
        identifier, classes, _ = attribute
        self._anchor(identifier)
        if self._number_sections and "unnumbered" not in classes:
            counts = (self._section + [0] * level)[:level]
            counts[-1] += 1
            self._section = counts
            self.numbers[identifier] = ".".join(map(str, counts))
            number = span([string(self.numbers[identifier])], classes=["header-section-number"])
            text = [number, {"t": "Space"}, *text]
        return {"t": "Header", "c": [level, attribute, text]}

    def _float(self, kind: str, content: list[Any]) -> list[Element] | None:
        identifier, _, pairs = content[0]
        self._anchor(identifier)
        prefix = identifier.split("-")[0] if "-" in identifier else ""
        if kind == "Table":
            return [self._table(identifier, content[1][1], content, pairs)] if prefix == "tbl" else None
        if prefix in RESERVED:
            raise self._places.error(
                identifier,
                f"'{identifier}' is a kind of cross-reference that the embedded "
                f"engine does not know; it knows {', '.join(f'{name}-' for name in NAMES)}",
            )
        if prefix not in ("fig", "tbl"):
            return None
        if kind == "Figure":
            return [self._figure(prefix, identifier, content[1][1], content[2], pairs)]
        if not content[1] or content[1][-1]["t"] != "Para":
            raise self._places.error(
                identifier, f"the last paragraph of '{identifier}' must be its caption, and is missing"
            )
        *body, last = content[1]
        tables = [block for block in body if block["t"] == "Table"]
        # A sentence in a table's place, where its data are missing, is set like a figure.
        if prefix == "fig" or not tables:
            return [self._figure(prefix, identifier, [plain(last["c"])], body, pairs)]
        if len(tables) > 1:
            raise self._places.error(identifier, f"'{identifier}' holds {len(tables)} tables instead of one")
        if tables[0]["c"][1][1]:
            raise self._places.error(identifier, f"the table '{identifier}' has two captions")
        table = self._table(identifier, [plain(last["c"])], tables[0]["c"], pairs)
        return [table if block is tables[0] else block for block in body]

    def _caption(self, kind: str, label: str, caption: list[Element]) -> list[Element]:
        if not caption:
            raise self._places.error(label, f"'{label}' has no caption")
        number = string(f"{NAMES[kind]}\u00a0{self._next(kind, label)}:")
        inlines = [inline for block in caption for inline in block["c"]]
        return [plain([number, {"t": "Space"}, *inlines])]

    def _figure(
        self, kind: str, label: str, caption: list[Element], body: list[Element], pairs: list[list[str]]
    ) -> Element:
        if all(block["t"] == "RawBlock" for block in body):
            raise self._places.error(label, f"'{label}' holds nothing that every format can show")
        alternative = dict(pairs).get("fig-alt")
        if alternative:
            body = transform(body, lambda element: _with_alternative(element, alternative))
        return {"t": "Figure", "c": [attributes(label), [None, self._caption(kind, label, caption)], body]}

    def _table(self, label: str, caption: list[Element], table: list[Any], pairs: list[list[str]]) -> Element:
        columns = _with_widths(table[2], dict(pairs).get("tbl-colwidths"), self._places.of(label))
        numbered = self._caption("tbl", label, caption)
        return {"t": "Table", "c": [attributes(label), [None, numbered], columns, *table[3:]]}

    def _equations(self, inlines: list[Element]) -> list[Element]:
        result: list[Element] = []
        for inline in inlines:
            label = EQUATION_LABEL.match(inline["c"]) if inline["t"] == "Str" else None
            if not label:
                result.append(inline)
                continue
            while result and result[-1]["t"] in ("Space", "SoftBreak"):
                result.pop()
            if not result or result[-1]["t"] != "Math" or result[-1]["c"][0]["t"] != "DisplayMath":
                raise self._places.error(label[1], f"the label '{label[1]}' does not follow a formula in $$")
            number = span([string(f"({self._next('eq', label[1])})")], classes=["equation-number"])
            result.append(span([result.pop(), number], label[1], ["equation"]))
        return result


def _with_alternative(element: Element, alternative: str) -> list[Element] | None:
    if element["t"] != "Image":
        return None
    (identifier, classes, pairs), description, target = element["c"]
    if description or "fig-alt" in dict(pairs):
        return None
    return [{"t": "Image", "c": [[identifier, classes, [*pairs, ["fig-alt", alternative]]], [], target]}]


def _with_widths(columns: list[Any], widths: str | None, place: str) -> list[Any]:
    """Return column specifications with relative widths, given as a JSON list of a number for each column."""
    if widths is None:
        return columns
    try:
        shares = [float(share) for share in json.loads(widths)]
    except (ValueError, TypeError):
        shares = []
    if len(shares) != len(columns) or min(shares) <= 0:
        raise UserError(f"{place}: tbl-colwidths must hold {len(columns)} positive numbers, not {widths}")
    return [
        [alignment, {"t": "ColWidth", "c": share / sum(shares)}]
        for (alignment, _), share in zip(columns, shares, strict=True)
    ]


def with_references(document: Numbered, places: Places) -> list[Element]:
    """Return the document's blocks with each `@fig-x` and its like as a link.

    Raise UserError, with file and line, for a label that is not there and for syntax that pandoc left as it
    stands.
    """

    def change(element: Element) -> list[Element] | None:
        if element["t"] == "Cite":
            return _links(element["c"][0], document, places)
        if element["t"] == "Link":
            target = element["c"][2][0]
            # Notes and references get their anchors from pandoc later.
            if target.startswith("#") and target[1:] not in document.anchors:
                raise places.error(target, f"the link to '{target}' leads nowhere")
        if element["t"] == "Str" and RAW_SYNTAX.match(element["c"]):
            raise places.error(element["c"], f"'{element['c']}' is not syntax that either engine knows")
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
    # a capital letter at the start of a reference is the writer's, not the label's
    return key[:1].lower() + key[1:]


def _link(citation: Element, label: str, number: str) -> Element:
    text: list[Element] = [string(number)]
    if citation["citationPrefix"]:
        text = [*citation["citationPrefix"], string(f"\u00a0{number}")]
    elif citation["citationMode"]["t"] != "SuppressAuthor":
        text = [string(f"{NAMES[label.split('-')[0]]}\u00a0{number}")]
    return {"t": "Link", "c": [attributes(classes=["cross-reference"]), text, [f"#{label}", ""]]}
