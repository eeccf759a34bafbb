"""Pandoc's document tree: content of a format, callouts, pictures, numbers and cross-references, as Quarto has them."""

import re
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pypandoc

from measure.errors import UserError
from report.engine.project import Project
from report.engine.source import Places

#: A block or an inline, as pandoc's JSON has it: `t` is its type, `c` its content.
Element = dict[str, Any]
#: What an element is replaced by; None if it stays.
Change = Callable[[Element], list[Element] | None]

NAMES = {"fig": "Figure", "tbl": "Table", "sec": "Section", "eq": "Equation"}
CALLOUTS = {f"callout-{kind}": kind.title() for kind in ("note", "tip", "important", "warning", "caution")}
CONDITIONS = {"content-visible": True, "content-hidden": False}
# What means something to Quarto and nothing here: classes, and text that pandoc left raw.
UNKNOWN = re.compile(r"(callout|panel|column|content|layout)-.*|aside|columns?|proof|theorem|grid")
LINE_CHARACTERS, CELL_PADDING = 118, 2.5
"""The text width in characters of a table's type (style.typ), and the space on both sides of a cell."""
BREAK = "\u200b"  # within a word: a line may break here
RAW_SYNTAX = re.compile(r"^(:::+|\{[#.=]|\{\{<)")
EQUATION_LABEL = re.compile(r"^\{#(eq-[^ }]+)\}$")


def find_pandoc() -> str:
    """Return the path of pandoc. Raise UserError where there is none."""
    try:
        return str(pypandoc.get_pandoc_path())
    except OSError:
        raise UserError("there is no pandoc; install it with pip install pypandoc_binary") from None


def run_pandoc(arguments: list[str], text: str, project: Project, places: Places) -> str:
    """Return what pandoc, run in the project's root, makes of `text`; `places` are those of its lines.

    Raise UserError where it stops, and for whatever it warns of: an unknown citation, a formula, an open div.
    """
    command = [find_pandoc(), "--fail-if-warnings", *arguments]
    run = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", cwd=project.root)
    if not run.returncode:
        return run.stdout
    problem = run.stderr.partition("\nFailing because")[0]
    place = project.document
    if formula := re.search(r"TeX math\s+(.*?)(, rendering.*)?\n", problem):
        place = places.of(formula[1])
    elif cited := re.search(r"citation (\S+) not found", problem):
        place = places.of(f"@{cited[1]}")
    elif line := re.search(r"\bline (\d+)", problem):
        place = places.lines[min(int(line[1]), len(places.lines)) - 1].place
    raise UserError(f"{place}: {' '.join(problem.removeprefix('[WARNING] ').split())[:300]}")


def transform(nodes: list[Any], changes: dict[str, Change]) -> list[Any]:
    """Return a copy of a list in which the change for its type may replace an element by any number of others.

    Elements come in document order, a parent before its children. Where the change returns None the element
    stays. The children of what it returns are walked in turn, the returned elements themselves are not.
    """
    result: list[Any] = []
    for item in replaced(nodes, changes):
        if isinstance(item, list):
            result.append(transform(item, changes) if item else item)
        elif isinstance(item, dict) and isinstance(item.get("c"), list):
            result.append({**item, "c": transform(item["c"], changes)})
        else:
            result.append(item)
    return result


def replaced(nodes: list[Any], changes: dict[str, Change]) -> Iterator[Any]:
    """Yield what a list's own elements are replaced by, their children as they were."""
    for item in nodes:
        change = changes.get(item.get("t", "")) if isinstance(item, dict) else None
        changed = change(item) if change else None
        yield from [item] if changed is None else changed


def plain_text(node: Any) -> str:
    """Return the words of a tree, without markup."""
    if isinstance(node, list):
        return "".join(map(plain_text, node))
    if not isinstance(node, dict):
        return ""
    kind, content = node.get("t"), node.get("c", [])
    if kind in ("Str", "Code", "Math"):
        return str(content if kind == "Str" else content[1])
    return " " if kind in ("Space", "SoftBreak", "LineBreak") else plain_text(list(node.values()))


def string(text: str) -> Element:
    return {"t": "Str", "c": text}


def plain(*inlines: Element) -> Element:
    return {"t": "Plain", "c": list(inlines)}


def box(kind: str, content: list[Element], identifier: str = "", *classes: str) -> Element:
    """Return a `Div` or `Span`."""
    return {"t": kind, "c": [[identifier, list(classes), []], content]}


def raw(output: str, text: str, kind: str = "RawBlock") -> Element:
    return {"t": kind, "c": [output, text]}


def visible_in(output: str, blocks: list[Element], places: Places) -> list[Element]:
    """Return the blocks without those meant for other formats than `output`, each callout as a div of title and body.

    Raise UserError for divs and layouts that Quarto knows and the embedded engine does not.
    """

    def raw_text(element: Element) -> list[Element] | None:
        return None if element["c"][0] == output else []

    def container(element: Element) -> list[Element] | None:
        (identifier, classes, pairs), content = element["c"]
        given = dict(pairs)
        for name in CONDITIONS.keys() & classes:
            if set(given) != {"when-format"} or given["when-format"] not in ("html", "typst"):
                raise places.error(name, f'".{name}" needs when-format="html" or "typst", or when-meta and missing.lua')
            shown = CONDITIONS[name] == (given["when-format"] == output)
            return list(replaced(content, changes)) if shown else []
        for name in CALLOUTS.keys() & classes:
            return [_callout(name, identifier, given, content, places)]
        for name in [*classes, *(key for key in given if key.startswith("layout"))]:
            if UNKNOWN.fullmatch(name):
                raise places.error(name, f"the embedded engine does not know '{name}'")
        return None

    changes: dict[str, Change] = {"RawBlock": raw_text, "RawInline": raw_text, "Div": container, "Span": container}
    return transform(blocks, changes)


def _callout(kind: str, identifier: str, given: dict[str, str], content: list[Element], places: Places) -> Element:
    title = [string(given.pop("title", CALLOUTS[kind]))]
    folded = ["folded"] if given.pop("collapse", "false") == "true" else []
    for key in given:
        raise places.error(key, f"the embedded engine does not know '{key}' of a callout")
    if content and content[0]["t"] == "Header":
        title, content = content[0]["c"][2], content[1:]
    parts = [box("Div", [plain(*title)], "", "title"), box("Div", content, "", "body")]
    return box("Div", parts, identifier, "callout", kind, *folded)


def picture(image: Element, project: Project, places: Places) -> tuple[str, str]:
    """Return the path below the root and the alternative text of an image, which has to be an SVG of the project."""
    (_, _, pairs), description, (path, _) = image["c"]
    given = dict(pairs)
    alternative = given.pop("fig-alt", None) or plain_text(description)
    file = (project.root / path).resolve()
    if given or not path.endswith(".svg") or not file.is_file() or project.root not in file.parents:
        raise places.error(path, f"the picture {path} is not an SVG in the project, or has more than a fig-alt")
    return file.relative_to(project.root).as_posix(), alternative


def column_widths(columns: list[list[str]]) -> list[float]:
    """Return the widths in characters of columns, given as the texts of their cells: their longest lines if all fit.

    Else each gets that of its longest word, and of what remains a share by how much longer its longest line is
    (CSS 2.1, 17.5.2.2); together LINE_CHARACTERS, or more where already the words do.
    """
    lines = [max(map(len, column), default=0) + CELL_PADDING for column in columns]
    ends = f"[ \n{BREAK}-]"
    words = [max((len(word) for text in column for word in re.split(ends, text)), default=0) for column in columns]
    least = [word + CELL_PADDING for word in words]
    if sum(lines) <= LINE_CHARACTERS:
        return lines
    stretch = max(0.0, LINE_CHARACTERS - sum(least)) / max(1.0, sum(lines) - sum(least))
    return [word + stretch * (line - word) for word, line in zip(least, lines, strict=True)]


class Numbers:
    """The numbers of a document's sections, figures, tables and equations, and the links that name them.

    A figure becomes pandoc's Figure with its label, a table its Table with its label and caption, an equation a span of
    class `equation` with its label, its formula and its number in parentheses. Raises UserError, with file and line,
    for a label that is there twice or not where it can be, a caption that is missing, and references to nothing.
    """

    def __init__(self, number_sections: bool, places: Places) -> None:
        self._numbers: dict[str, str] = {}
        self._anchors: set[str] = set()
        self._places, self._number_sections = places, number_sections
        self._section: list[int] = []
        self._counts = dict.fromkeys(NAMES, 0)
        #: Changes that turn references into links, once all is numbered.
        self.references: dict[str, Change] = {"Cite": self._reference, "Link": self._link, "Str": self._text}
        #: Citations of sources, met among the references; what they are in the document is to be filled in.
        self.citations: list[tuple[Element, Element]] = []

    def given(self, blocks: list[Element]) -> list[Element]:
        """Return the blocks with their numbers."""
        anchors = dict.fromkeys(("Figure", "Span", "Code", "Link", "Image", "CodeBlock"), self._anchor)
        paragraphs = dict.fromkeys(("Para", "Plain"), self._equations)
        own = {"Header": self._header, "Div": self._float, "Table": self._table}
        return transform(blocks, {**anchors, **paragraphs, **own})

    def _anchor(self, element: Element) -> None:
        self._define(element["c"][0][0])

    def _define(self, identifier: str) -> None:
        if identifier and identifier in self._anchors:
            raise self._places.error(identifier, f"the label '{identifier}' is defined twice")
        self._anchors.add(identifier)

    def _next(self, label: str) -> str:
        kind = label.split("-")[0]
        self._counts[kind] += 1
        self._numbers[label] = str(self._counts[kind])
        return self._numbers[label]

    def _header(self, element: Element) -> list[Element] | None:
        level, (identifier, classes, pairs), text = element["c"]
        self._define(identifier)
        if not self._number_sections or "unnumbered" in classes:
            return None
        self._section = (self._section + [0] * level)[:level]
        self._section[-1] += 1
        self._numbers[identifier] = ".".join(map(str, self._section))
        number = box("Span", [string(self._numbers[identifier])], "", "header-section-number")
        return [{"t": "Header", "c": [level, [identifier, classes, pairs], [number, {"t": "Space"}, *text]]}]

    def _float(self, div: Element) -> list[Element] | None:
        label, content = div["c"][0][0], div["c"][1]
        self._define(label)
        if not label.startswith(("fig-", "tbl-")):
            return None
        if len(content) < 2 or content[-1]["t"] != "Para":
            raise self._places.error(label, f"'{label}' needs content, and its caption as the last paragraph")
        *body, last = content
        caption = [None, self._caption(label, last["c"])]
        tables = [block for block in body if block["t"] == "Table"]
        if label.startswith("fig-") or not tables:
            return [{"t": "Figure", "c": [[label, [], []], caption, body]}]
        if len(tables) > 1 or tables[0]["c"][1][1]:
            raise self._places.error(label, f"'{label}' holds two tables or captions instead of one")
        table = {"t": "Table", "c": [[label, [], []], caption, *tables[0]["c"][2:]]}
        return [table if block is tables[0] else block for block in body]

    def _table(self, table: Element) -> list[Element] | None:
        (label, _, _), (_, blocks), *content = table["c"]
        self._define(label)
        if not label.startswith("tbl-"):
            return None
        caption = [None, self._caption(label, [inline for block in blocks for inline in block["c"]])]
        return [{"t": "Table", "c": [[label, [], []], caption, *content]}]

    def _caption(self, label: str, inlines: list[Element]) -> list[Element]:
        number = string(f"{NAMES[label.split('-')[0]]}\u00a0{self._next(label)}:")
        return [plain(number, {"t": "Space"}, *inlines)]

    def _equations(self, paragraph: Element) -> list[Element] | None:
        result: list[Element] = []
        for inline in paragraph["c"]:
            label = EQUATION_LABEL.match(inline["c"]) if inline["t"] == "Str" else None
            if not label:
                result.append(inline)
                continue
            while result and result[-1]["t"] in ("Space", "SoftBreak"):
                result.pop()
            if not result or result[-1]["t"] != "Math":
                raise self._places.error(label[1], f"the label '{label[1]}' does not follow a formula in $$")
            number = box("Span", [string(f"({self._next(label[1])})")], "", "equation-number")
            result.append(box("Span", [result.pop(), number], label[1], "equation"))
        return [{"t": paragraph["t"], "c": result}]

    def _link(self, link: Element) -> None:
        # Notes and references get their anchors from pandoc later.
        target = link["c"][2][0]
        if target.startswith("#") and target[1:] not in self._anchors:
            raise self._places.error(target, f"the link to '{target}' leads nowhere")

    def _text(self, text: Element) -> None:
        if RAW_SYNTAX.match(text["c"]):
            raise self._places.error(text["c"], f"'{text['c']}' is not syntax that either engine knows")

    def _reference(self, cite: Element) -> list[Element] | None:
        """Return the link that a cross-reference is, and an element yet to be filled in for citations of sources."""
        citations = cite["c"][0]
        for citation in citations:
            key, is_bare = citation["citationId"], citation["citationMode"]["t"] == "SuppressAuthor"
            label = key[:1].lower() + key[1:]  # a capital letter at the start is the writer's, not the label's
            kind, dash, _ = label.partition("-")
            if kind in NAMES and dash:
                if len(citations) > 1 or is_bare or citation["citationPrefix"] or citation["citationSuffix"]:
                    problem = f"a bracket holds @{key} and more; write cross-references alone"
                    raise self._places.error(f"-@{key}" if is_bare else f"@{key}", problem)
                if label not in self._numbers:
                    problem = f"the cross-reference @{label} leads nowhere, or to what has no number"
                    raise self._places.error(f"@{key}", problem)
                text = [string(f"{NAMES[kind]}\u00a0{self._numbers[label]}")]
                return [{"t": "Link", "c": [["", ["cross-reference"], []], text, [f"#{label}", ""]]}]
        open_element: Element = {"t": "Cite"}
        self.citations.append((cite, open_element))
        return [open_element]
