"""Complaints about a rendered page that hold whatever was measured; none where all is well."""

import re

from helpers.pages import Node, Page

PROSE = ("p", "li", "dd", "dt", "figcaption", "summary", "td", "th", "h1", "h2", "h3", "h4")
BLOCKS = ("p", "li", "ul", "ol", "dl", "table", "div", "figure", "section", "details")
WRONG = {
    "a value that is none": r"\b(?:None(?! of)|nan|NaN|inf)\b|\{\}|\(\)|\[\]",
    "a missing value": r"without data|(?<![\w–])–(?![\w–:])",
    "a reference to nothing": r"\?@|@(?:fig|tbl|sec|eq)-|\?\?",
    "a double blank": r"[  ]{2,}",
    "a blank before a mark": r"[  ][.,;:!?)](?![\w.])",
    "a double mark": r"[,;:][.,;:]|(?<!\.)\.\.(?!\.)",
    "raw syntax": r"\{python\}|:::|\*\*|`|#\| ",
}
"""What no text holds; a dash may stand alone in a table's cell."""


def complaints(html: str) -> list[str]:
    """Return what is wrong with a page."""
    (main,) = Page(html).root.all("main")
    found = [f"{what}: {text}" for text in texts(main) for what, wrong in WRONG.items() if re.search(wrong, text)]
    headings = [node for level in "12345" for node in main.all(f"h{level}")]
    found += [f"an empty heading: {node.attributes}" for node in headings if not node.text()]
    found += [f"nothing below the heading: {node.text()}" for node in main.all("section") if is_bare(node)]
    first = next(node for node in main.content if isinstance(node, Node))
    found += [] if first.all("h1.title") else [f"<{first.name}> stands above the title"]
    targets = {node.attributes["id"] for node in main.all("") if node.attributes.get("id")}
    links = {link.attributes.get("href", "") for link in main.all("a")}
    found += [f"no target: {link}" for link in links if link.startswith("#") and link[1:] not in targets]
    return found


def texts(main: Node) -> list[str]:
    """Return the texts of paragraphs, items, captions, headings and cells, with blanks as they are printed."""
    found = []
    for node in (each for name in PROSE for each in main.all(name)):
        text = re.sub(r"\n\s*", " ", "".join(plain(node))).strip()
        if text != "–" or node.name not in ("td", "th"):
            found.append(text)
    return found


def plain(node: Node) -> list[str]:
    """Return the pieces of a text without those of its blocks, of formulas and code."""
    found: list[str] = []
    for child in node.content:
        if isinstance(child, str):
            found.append(child)
        elif child.name in ("math", "code", "script", "style"):
            found.append("x")
        elif child.name not in BLOCKS:
            found += plain(child)
    return found


def is_bare(section: Node) -> bool:
    """Return whether nothing but headings stands in a section."""
    return not any(section.all(name) for name in ("p", "table", "figure", "li", "div.csl-entry"))
