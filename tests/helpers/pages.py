"""A rendered page: its elements, and how a browser shows it."""

from html.parser import HTMLParser

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

OVERLAPS = """svg => {
  const texts = [...svg.querySelectorAll("g.mark-text.role-mark text")].filter(text => text.textContent);
  const boxes = texts.map(text => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], at) => boxes.slice(at + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2.5)  // a line's box is higher than its letters
    .map(([other]) => `${one} / ${other}`));
}"""
"""Finds the names beside a chart's marks that overlap."""

AXIS_OVERLAPS = """svg => [...svg.querySelectorAll("g.role-axis-label")].flatMap(axis => {
  const boxes = [...axis.querySelectorAll("text")]
    .filter(text => text.textContent && getComputedStyle(text).opacity !== "0")
    .filter(text => !/rotate/.test(text.getAttribute("transform")))
    .map(text => [text.textContent, text.getBoundingClientRect()]);
  return boxes.flatMap(([one, a], at) => boxes.slice(at + 1)
    .filter(([, b]) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > -3
      && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2.5)
    .map(([other]) => `${one} / ${other}`));
})"""
"""Finds the labels of an axis that overlap."""

LUMINANCE = """async bytes => {
  const picture = await createImageBitmap(new Blob([Uint8Array.from(atob(bytes), letter => letter.charCodeAt(0))]));
  const canvas = new OffscreenCanvas(picture.width, picture.height);
  const context = canvas.getContext("2d");
  context.drawImage(picture, 0, 0);
  const pixels = context.getImageData(0, 0, picture.width, picture.height).data;
  let sum = 0, least = 255, most = 0;
  for (let at = 0; at < pixels.length; at += 4) {
    const light = 0.2126 * pixels[at] + 0.7152 * pixels[at + 1] + 0.0722 * pixels[at + 2];
    sum += light; least = Math.min(least, light); most = Math.max(most, light);
  }
  return { mean: sum / (pixels.length / 4), least, most };
}"""
"""Finds the mean, least and greatest luminance of a picture."""


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
        declared = self.page.locator("script.chart").count()
        self.page.wait_for_function("n => document.querySelectorAll('.vega-embed svg.marks').length >= n", arg=declared)
        return declared
