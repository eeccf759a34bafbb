"""A rendered page: its elements, its rendering, its display in a browser, and its faults."""

import re
import subprocess
from fnmatch import fnmatch
from html.parser import HTMLParser

from helpers.places import ROOT
from report import __main__ as report_command
from report.engine.embedded import find_pandoc

VOID = {"meta", "link", "img", "br", "hr", "input", "wbr"}


class Node:
    """An element of a page: its name, attributes and, in order, its texts and elements."""

    def __init__(self, name, attributes=()):
        self.name = name
        self.attributes = {key: value or "" for key, value in attributes}
        self.content = []

    def has(self, selector):
        """Whether `name`, `.class`, `name.class`, `#id` or `#beginning*` selects this element."""
        if selector.startswith("#"):
            return fnmatch(self.attributes.get("id") or "", selector[1:])
        name, _, style = selector.partition(".")
        return name in ("", self.name) and (not style or style in self.attributes.get("class", "").split())

    def all(self, selector, outside=()):
        """The elements below this one that a selector finds, but not below elements of `outside`."""
        found = []
        for child in self.content:
            if isinstance(child, Node) and not any(child.has(other) for other in outside):
                found += ([child] if child.has(selector) else []) + child.all(selector, outside)
        return found

    def text(self):
        """The text with white space folded; without scripts and the TeX of formulas."""
        return " ".join("".join(self._texts()).split())

    def _texts(self):
        for child in self.content:
            if isinstance(child, str):
                yield child
            elif child.name not in ("annotation", "script", "style"):
                yield from child._texts()


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.root = Node("page")
        self._open = [self.root]
        self.feed(text)
        assert len(self._open) == 1, f"<{self._open[-1].name}> is left open"

    def handle_starttag(self, name, attributes):
        node = Node(name, attributes)
        self._open[-1].content.append(node)
        if name not in VOID:
            self._open.append(node)

    def handle_endtag(self, name):
        if name not in VOID:
            assert self._open.pop().name == name

    def handle_data(self, text):
        self._open[-1].content.append(text)


PHONE = {"width": 390, "height": 844}
DESKTOP = {"width": 1400, "height": 900}

PAIRS = """(texts, gap) => {
  const boxes = texts.filter(text => text.textContent).map(text => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], at) => boxes.slice(at + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > gap
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2.5)  // a line's box is higher than its letters
    .map(([other]) => `${one} / ${other}`));
}"""
OVERLAPS = f"""svg => ({PAIRS})([...svg.querySelectorAll("g.mark-text.role-mark text")], 1)"""
"""Finds overlapping names of a chart's marks."""

AXIS_OVERLAPS = f"""svg => [...svg.querySelectorAll("g.role-axis-label")].flatMap(axis => ({PAIRS})(
  [...axis.querySelectorAll("text")].filter(text => getComputedStyle(text).opacity !== "0"
    && !/rotate/.test(text.getAttribute("transform"))), -3))"""
"""Finds overlapping labels of an axis."""


class Visit:
    """A page opened with the network off, and everything that it asked for or complained of."""

    def __init__(self, browser, path, viewport, **settings):
        self.context = browser.new_context(viewport=viewport, offline=True, **settings)
        self.page = self.context.new_page()
        self.requests = []
        self.complaints = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console", lambda message: message.type in ("error", "warning") and self.complaints.append(message.text)
        )
        self.page.goto(path.as_uri())

    def wait_for_charts(self):
        """Unfold all that holds charts, which are drawn no sooner, and wait until each is."""
        self.page.evaluate("""() => {
          for (const fold of document.querySelectorAll(".fold[aria-expanded=false]")) fold.click();
          for (const details of document.querySelectorAll("main details")) details.open = true;
        }""")
        declared = self.page.locator("script.chart").count()
        self.page.wait_for_function(
            "n => document.querySelectorAll('.vega-embed svg.marks').length >= n", arg=declared, timeout=120_000
        )
        return declared


def render(data, folder, *flags):
    """Render the paper of a cache in a folder of its own, strictly; return the folder of its files."""
    folder.mkdir(parents=True)
    for name in ("_quarto.yml", "index.qmd", "published.qmd", "bib", "data", "measure", "report"):
        (folder / name).symlink_to(ROOT / name)  # pictures are drawn next to them
    (folder / "_cache").mkdir()
    for bundle in (ROOT / "_cache").glob("vega-*.js"):  # making it anew takes two seconds
        (folder / "_cache" / bundle.name).symlink_to(bundle)
    words = ["--strict", "--engine", "embedded", "--data", str(data), "--out", str(folder / "site"), *flags]
    assert report_command.main(words, folder) == 0
    return folder / "site"


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
"""Faults of a text. A dash may be alone in a table's cell."""


def complaints(html: str) -> list[str]:
    """Return the faults of a page."""
    (main,) = Page(html).root.all("main")
    found = [f"{fault}: {text}" for text in texts(main) for fault, sign in WRONG.items() if re.search(sign, text)]
    headings = [node for level in "12345" for node in main.all(f"h{level}")]
    found += [f"an empty heading: {node.attributes}" for node in headings if not node.text()]
    found += [f"nothing below the heading: {node.text()}" for node in main.all("section") if is_bare(node)]
    first = next(node for node in main.content if isinstance(node, Node))
    found += [] if first.all("h1.title") else [f"<{first.name}> is above the title"]
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
    """Return the pieces of a text without its blocks, formulas and code."""
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
    """Return whether a section has nothing but headings."""
    return not any(section.all(name) for name in ("p", "table", "figure", "li", "div.csl-entry"))


def filtered(path, text, to="markdown", env=None):
    """The document, as pandoc writes it in a format, after the filter at a path below the project."""
    command = [find_pandoc(), "--from=markdown", f"--to={to}", "--wrap=none", f"--lua-filter={ROOT / path}"]
    run = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", env=env)
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()
