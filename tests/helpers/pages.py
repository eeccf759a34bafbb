"""A rendered page: its elements, how a browser shows it, and how it comes to be."""

from html.parser import HTMLParser

from helpers.places import ROOT
from report import __main__ as report_command

VOID = {"meta", "link", "img", "br", "hr", "input", "wbr"}


class Node:
    """An element of a page: its name, attributes and, in order, its texts and elements."""

    def __init__(self, name, attributes=()):
        self.name = name
        self.attributes = {key: value or "" for key, value in attributes}
        self.content = []

    def has(self, selector):
        """Whether `name`, `.class`, `name.class` or `#id` selects this element."""
        if selector.startswith("#"):
            return self.attributes.get("id") == selector[1:]
        name, _, style = selector.partition(".")
        return name in ("", self.name) and (not style or style in self.attributes.get("class", "").split())

    def all(self, selector, outside=()):
        """The elements below this one that a selector finds, except below those of `outside`."""
        found = []
        for child in self.content:
            if isinstance(child, Node) and not any(child.has(other) for other in outside):
                found += ([child] if child.has(selector) else []) + child.all(selector, outside)
        return found

    def text(self):
        """The text with white space folded; without scripts and the TeX beside a formula."""
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
"""Finds the names beside a chart's marks that overlap."""

AXIS_OVERLAPS = f"""svg => [...svg.querySelectorAll("g.role-axis-label")].flatMap(axis => ({PAIRS})(
  [...axis.querySelectorAll("text")].filter(text => getComputedStyle(text).opacity !== "0"
    && !/rotate/.test(text.getAttribute("transform"))), -3))"""
"""Finds the labels of an axis that overlap."""


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
        (folder / name).symlink_to(ROOT / name)  # pictures are drawn beside them
    words = ["--strict", "--engine", "embedded", "--data", str(data), "--out", str(folder / "site"), *flags]
    assert report_command.main(words, folder) == 0
    return folder / "site"
