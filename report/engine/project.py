"""The paper's settings, from `_quarto.yml` and the front matter of its documents."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from measure.cache.project import SETTINGS_FILE
from measure.errors import UserError, did_you_mean, quote
from report.files import read_text

PICTURES = Path("_figures")  # the folder of the pictures that the page and the PDF hold, below the project's root
OWN = "roofwright."
TEXT, FILES, HEADERS = (str, int, float), (str, list), (str, list, dict)
LENGTH, FILE_NAME = r"[0-9]+(\.[0-9]+)?(mm|cm|in|pt)", r"(?!\.{1,2}$)[^/\\\x00-\x1f]+"
KNOWN: dict[str, Any] = {
    "project.type": "default", "project.output-dir": (str,), "project.execute-dir": "project",
    "project.render": (list,), "title": TEXT, "subtitle": TEXT, "author": FILES, "date": (object,), "lang": (str,),
    "description": TEXT, "abstract": TEXT, "keywords": (list,), "bibliography": FILES, "citeproc": "True",
    "link-citations": (bool,), "filters": (list,), "number-sections": (bool,), "execute.echo": "False",
    "execute.error": "True", "format.html.toc": (bool,), "format.html.toc-location": "left",
    "format.html.toc-depth": (int,), "format.html.toc-title": (str,), "format.html.embed-resources": "True",
    "format.html.html-math-method": "mathml", "format.html.minimal": "True", "format.html.section-divs": "True",
    "format.html.css": FILES, "format.html.include-in-header": HEADERS, "format.html.output-file": FILE_NAME,
    "format.html.template": (str,), "format.html.variables.paper": FILE_NAME, "format.typst.output-file": FILE_NAME,
    "format.typst.papersize": "a4|us-letter", "format.typst.fontsize": LENGTH, "format.typst.font-paths": FILES,
    **{f"format.typst.margin.{side}": LENGTH for side in ("x", "y", "top", "bottom", "left", "right")},
    "format.typst.pdf-standard": "ua-1", "format.typst.include-in-header": HEADERS,
    f"{OWN}pdf": "body|full", f"{OWN}no-guesses": (bool,),
    **{f"{OWN}{name}": (list,) for name in ("chapters", "machines", "models", "chips")},
}  # fmt: skip
"""The types of each setting, or a pattern of its text."""
MOST_NODES = 10_000  # of YAML: a few lines of nested aliases can expand to billions


KINDS: dict[type, str] = {
    list: "a list, such as [a, b]", dict: "a mapping", str: "a text", int: "a number", float: "a number",
    bool: "true or false",
}  # fmt: skip


@dataclass(frozen=True)
class Project:
    """A folder with a `_quarto.yml`, and one document to render.

    `settings` come from `_quarto.yml`, such as `format.html.toc`; the document's front matter overrides them. Paths are
    relative to `root`. The document's text begins at line `body_line`. `others` are rendered after it, as HTML.
    `passed_over` has a sentence for each setting that the embedded engine cannot honour.
    """

    root: Path
    document: str
    settings: dict[str, Any]
    body_line: int = 1
    others: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()

    def output_name(self, name: str) -> str:
        """Return the name of the file in a format, `html` or `pdf`."""
        writer = {"html": "html", "pdf": "typst"}[name]
        return str(self.settings.get(f"format.{writer}.output-file", f"{Path(self.document).stem}.{name}"))

    @property
    def output_folder(self) -> Path:
        """The folder of the output. Quarto puts it below the project, `python -m report` below the current folder."""
        return Path(self.settings.get("project.output-dir", "_site"))

    def chosen(self, key: str) -> list[str]:
        """Return the names chosen by the variable ROOFWRIGHT_KEY or else by `roofwright: key:`; none means all."""
        given = os.environ.get(f"ROOFWRIGHT_{key.upper()}", "")
        return [name for name in given.split(",") if name] or list(map(str, self.settings.get(OWN + key) or []))

    def files(self, setting: str) -> list[str]:
        """Return the paths in a setting, relative to the root. Raises UserError for a missing file."""
        return [self._file(path) for path in listed(self.settings.get(setting))]

    def header_texts(self, name: str) -> list[str]:
        """Return the texts of `include-in-header`: each item is a file, or a mapping `text:`/`file:`."""
        items = listed(self.settings.get(f"format.{name}.include-in-header"))
        given = [item if isinstance(item, dict) else {"file": item} for item in items]
        for each in given:
            if not isinstance(each.get("text", each.get("file")), str):
                raise UserError(
                    f"{SETTINGS_FILE}: 'format: {name}: include-in-header' takes a file, 'text: …' or 'file: …', "
                    f"not {quote(str(each))}"
                )
        return [each["text"] if "text" in each else read_text(self.root / self._file(each["file"])) for each in given]

    def _file(self, path: Any) -> str:
        if not os.path.exists(self.root / str(path)):  # False also for a name that no system takes
            raise UserError(
                f"{SETTINGS_FILE} names {quote(str(path))}, which is not there; restore it, or name another"
            )
        return str(path)


def listed(setting: Any) -> list[Any]:
    """Return a setting with no, one or several values as a list."""
    return setting if isinstance(setting, list) else [] if setting is None else [setting]


def read_project(root: Path, document: str | None = None) -> Project:
    """Read `root/_quarto.yml` and the front matter of a document, by default the first that it renders."""
    passed_over: list[str] = []
    settings = read_settings(read_text(root / SETTINGS_FILE), SETTINGS_FILE, 1, KNOWN, passed_over)
    rendered = settings.get("project.render") or ["index.qmd"]
    for file in rendered:
        if not isinstance(file, str):
            raise UserError(f"{SETTINGS_FILE}: 'project: render' lists files such as index.qmd, not {quote(str(file))}")
    first, *others = rendered
    document, body_line = document or first, 1
    if front := re.match(r"---\s*?\n(.*?\n)---\s*?(\n|$)", read_text(root / document), re.DOTALL):
        settings |= read_settings(front[1], document, 2, KNOWN, passed_over)
        body_line += front[0].count("\n")
    items = settings.get("filters", [])
    mappings = [item for item in items if isinstance(item, dict)]
    filters = [item["path"] for item in mappings if item.get("at") == "pre-ast" and isinstance(item.get("path"), str)]
    if len(filters) < len(items):
        passed_over.append(f"{SETTINGS_FILE}: the embedded engine runs filters with at: pre-ast and a path alone")
    return Project(root, document, settings | {"filters": filters}, body_line, tuple(others), tuple(passed_over))


def read_settings(
    text: str, file: str, first_line: int, allowed: dict[str, Any], passed_over: list[str] | None = None
) -> dict[str, Any]:
    """Read the allowed settings in a YAML `text`, found in `file` from `first_line` on.

    Quarto has more keys and values. A sentence for each is added to `passed_over`. Raises UserError, with file and
    line, for them without that list or under `roofwright`, for invalid YAML and for a duplicate key.
    """
    settings: dict[str, Any] = {}
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader) or yaml.MappingNode("", [])
        if _size(node, {}) > MOST_NODES:
            raise ValueError(f"its aliases expand to more than {MOST_NODES} values")
        found = list(_leaves(node, "", allowed))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = " ".join(str(getattr(error, "problem", error)).split())
        place = f"{file}:{first_line + (mark.line if mark else 0)}"
        raise UserError(f"{place}: this is not valid YAML: {problem}; correct it") from error
    for name, line, value in found:
        place, form = f"{file}:{first_line + line}", allowed.get(name, ())
        if name in settings:
            raise UserError(f"{place}: duplicate key '{name}'; delete one of the two")
        if re.fullmatch(form, str(value)) if isinstance(form, str) else isinstance(value, form):
            settings[name] = value
            continue
        right = form if isinstance(form, str) else " or ".join(KINDS.get(kind, "a value") for kind in form)
        above, _, key = name.rpartition(".")
        siblings = [each.rpartition(".")[2] for each in allowed if each.rpartition(".")[0] == above]
        problem = f"'{name}: {str(value)[:80]}'; write {right}" if right else f"'{name}'{did_you_mean(key, siblings)}"
        sentence = f"{place}: the embedded engine cannot honour {problem}"
        if passed_over is None or name.startswith(OWN):
            raise UserError(sentence)
        passed_over.append(sentence)
    return settings


def _size(node: yaml.Node, sizes: dict[int, float]) -> float:
    """Return the number of values in a node with its aliases written out; infinite if it contains itself."""
    if id(node) not in sizes:
        sizes[id(node)] = inf  # for an alias of it inside it
        parts = node.value if isinstance(node.value, list) else []
        sizes[id(node)] = 1 + sum(
            _size(each, sizes) for part in parts for each in (part if isinstance(part, tuple) else (part,))
        )
    return sizes[id(node)]


def _leaves(node: yaml.Node, above: str, allowed: dict[str, Any]) -> Iterator[tuple[str, int, Any]]:
    """Yield the name, line and value of each setting, and of the settings in allowed sections."""
    if not isinstance(node, yaml.MappingNode):
        raise ValueError("expected a mapping")
    for key, below in node.value:
        name = f"{above}{key.value}"
        is_section = any(each.startswith(f"{name}.") for each in allowed)
        try:
            value = SafeConstructor().construct_document(below)
        except (ValueError, LookupError, AttributeError, TypeError):  # from a tag such as !!int ''
            problem = f"{name} cannot be read as {below.tag.rpartition(':')[2]}"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=below.start_mark) from None
        if is_section and isinstance(below, yaml.MappingNode):
            yield from _leaves(below, f"{name}.", allowed)
        elif not is_section or value not in (None, "default"):  # Quarto's words for an empty section
            yield name, key.start_mark.line, value
