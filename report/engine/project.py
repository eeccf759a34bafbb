"""The paper's settings, from `_quarto.yml` and the front matter of its documents."""

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import SafeConstructor

from measure.cache.project import SETTINGS_FILE
from measure.errors import UserError, did_you_mean

Schema = dict[str, Any]
"""What each key may hold: a type or types, a set of values, a pattern of text, or another schema."""

TEXT, FILES, HEADERS = (str, int, float), (str, list), (str, list, dict)
PICTURES = Path("_figures")  # the folder of the pictures that the page and the PDF hold, below the project's root
LENGTH = re.compile(r"[0-9]+(\.[0-9]+)?(mm|cm|in|pt)")
FILE_NAME = re.compile(r"(?!\.{1,2}$)[^/\\\x00-\x1f]+")

HTML: Schema = {
    "toc": bool, "toc-location": {"left"}, "toc-depth": int, "toc-title": str, "embed-resources": {True}, "grid": dict,
    "html-math-method": {"mathml"}, "css": FILES, "include-in-header": HEADERS, "output-file": FILE_NAME,
    "format-links": list,
}  # fmt: skip
TYPST: Schema = {
    "output-file": FILE_NAME, "papersize": {"a4", "us-letter"}, "fontsize": LENGTH, "font-paths": FILES,
    "pdf-standard": {"ua-1"},
    "margin": dict.fromkeys(("x", "y", "top", "bottom", "left", "right"), LENGTH), "include-in-header": HEADERS,
}  # fmt: skip
OWN = "roofwright"
DOCUMENT: Schema = {
    "project": {"type": {"default"}, "output-dir": str, "execute-dir": {"project"}, "render": list},
    "title": TEXT, "subtitle": TEXT, "author": (str, list), "date": object, "lang": str, "description": TEXT,
    "abstract": TEXT, "keywords": list, "bibliography": FILES, "citeproc": {True}, "link-citations": bool,
    "filters": list, "number-sections": bool, "format": {"html": HTML, "typst": TYPST},
    "execute": {"echo": {False}, "error": {True}},
    OWN: {
        "pdf": {"body", "full"}, "no-guesses": bool, "chips": list, "chapters": list, "machines": list, "models": list,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Project:
    """A folder with a `_quarto.yml`, and one document of those that it renders.

    `settings` are those of `_quarto.yml` with the document's front matter laid over them; paths in it are relative to
    `root`. The document's text begins at line `body_line`. `others` are rendered after it, as HTML. `passed_over` says
    what the embedded engine cannot honour, a sentence each.
    """

    root: Path
    document: str
    settings: dict[str, Any]
    body_line: int
    others: tuple[str, ...] = ()
    passed_over: tuple[str, ...] = ()

    def format(self, name: str) -> dict[str, Any]:
        """Return the options of one output format, `html` or `typst`."""
        return dict((self.settings.get("format") or {}).get(name) or {})

    def output_name(self, name: str) -> str:
        """Return the name of the file in one format, `html` or `pdf`."""
        options = self.format({"html": "html", "pdf": "typst"}[name])
        return str(options.get("output-file", f"{Path(self.document).stem}.{name}"))

    @property
    def output_folder(self) -> Path:
        """The folder that is rendered to: by Quarto below the project, by `python -m report` below the current one."""
        return Path((self.settings.get("project") or {}).get("output-dir", "_site"))

    def chosen(self, key: str) -> list[str]:
        """Return the names that the variable ROOFWRIGHT_KEY or else `roofwright: key:` chooses; none for all."""
        given = os.environ.get(f"ROOFWRIGHT_{key.upper()}", "")
        return [name for name in given.split(",") if name] or list((self.settings.get(OWN) or {}).get(key) or [])

    @property
    def filters(self) -> list[str]:
        """The Lua filters that pandoc runs once it has read the document; others are Quarto's alone."""
        return self.files([item["path"] for item in self.settings.get("filters", []) if _is_early(item)])

    def files(self, setting: Any) -> list[str]:
        """Return the paths below the root that a setting of none, one or several names; each must exist."""
        paths = listed(setting)
        for path in paths:
            if not (self.root / str(path)).exists():
                raise UserError(f"{SETTINGS_FILE} names {path!r}, which is not there; restore it, or name another")
        return paths

    def header_texts(self, name: str) -> list[str]:
        """Return what `include-in-header` adds to one format: each item is a file, or a mapping `text:`/`file:`."""
        texts = []
        for item in listed(self.format(name).get("include-in-header")):
            given = item if isinstance(item, dict) else {"file": item}
            texts.append(given["text"] if "text" in given else read_text(self.root / self.files(given["file"])[0]))
        return texts


def listed(setting: Any) -> list[Any]:
    """Return a setting of none, one or several values as a list."""
    return setting if isinstance(setting, list) else [] if setting is None else [setting]


def read_text(path: Path) -> str:
    """Return a source's text. Raise UserError where it cannot be read."""
    try:
        return path.read_text("utf-8")
    except OSError as problem:
        raise UserError(f"{path}: cannot be read ({problem.strerror}); restore the file") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not UTF-8 text; save it in UTF-8") from None


def write_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all, its folder too. Raise UserError where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.part")
        partial.write_bytes(content)
        os.replace(partial, path)
    except OSError as problem:
        raise UserError(f"cannot write {path}: {problem.strerror}; choose another folder with --out") from problem


def read_project(root: Path, document: str | None = None) -> Project:
    """Read `root/_quarto.yml` and the front matter of a document that it renders, of the first unless one is given."""
    file = root / SETTINGS_FILE
    if not file.is_file():
        raise UserError(f"there is no {SETTINGS_FILE} in {root}; run it in a clone of the project, or install it again")
    passed_over: list[str] = []
    settings = read_settings(read_text(file), SETTINGS_FILE, 1, DOCUMENT, passed_over)
    first, *others = (settings.get("project") or {}).get("render") or ["index.qmd"]
    for name in (first, *others):
        if not (root / str(name)).is_file():
            raise UserError(f"{SETTINGS_FILE}: 'render' names {name!r}, which is not there; restore it")
    document = document or first
    text, body_line = read_text(root / document), 1
    if re.match(r"---\s*\n", text):
        front = re.match(r"---\s*?\n(.*?\n)---\s*?(\n|$)", text, re.DOTALL)
        if not front:
            raise UserError(f"{document}:1: the front matter has no closing '---'; add it")
        settings = _merged(settings, read_settings(front[1], document, 2, DOCUMENT, passed_over))
        body_line += front[0].count("\n")
    for item in settings.get("filters", []):
        if not _is_early(item):
            name = item.get("path") if isinstance(item, dict) else item
            passed_over.append(f"{SETTINGS_FILE}: the embedded engine runs filters at: pre-ast alone, not {name!r}")
    return Project(root, document, settings, body_line, tuple(others), tuple(passed_over))


def _is_early(item: Any) -> bool:
    return isinstance(item, dict) and item.get("at") == "pre-ast" and "path" in item


def _merged(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    both = {key for key in below.keys() & above.keys() if isinstance(below[key], dict) and isinstance(above[key], dict)}
    return {**below, **above, **{key: _merged(below[key], above[key]) for key in both}}


def read_settings(
    text: str, file: str, first_line: int, schema: Schema, passed_over: list[str] | None = None
) -> dict[str, Any]:
    """Return what the mapping that `text`, found in `file` from `first_line` on, holds by the schema.

    Quarto knows more keys and values. A sentence for each is added to `passed_over`; without that list they are
    refused. Raise UserError, with file and line, for YAML that cannot be read, a key that stands twice and a value of
    another type.
    """
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        value = node and SafeConstructor().construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        problem = " ".join(str(getattr(error, "problem", error)).split())
        place = f"{file}:{first_line + (mark.line if mark else 0)}"
        raise UserError(f"{place}: this is not valid YAML: {problem}; correct it") from error

    def mapping(node: Any, value: Any, schema: Schema, passed_over: list[str] | None) -> dict[str, Any]:
        if not isinstance(value, dict):
            place = f"{file}:{first_line + node.start_mark.line}"
            raise UserError(f"{place}: expected a mapping of {', '.join(schema)}, found {value!r}; write one")
        held: dict[str, Any] = {}
        for key_node, below in node.value:
            key, place = str(key_node.value), f"{file}:{first_line + key_node.start_mark.line}"
            given, allowed = value.get(key), schema.get(key)
            if key in held:
                raise UserError(f"{place}: the key '{key}' stands here a second time; delete one of the two")
            if key not in schema:
                near = did_you_mean(key, schema)
                if passed_over is None:
                    raise UserError(f"{place}: unknown key '{key}'; known here are {', '.join(schema)}{near}")
                passed_over.append(f"{place}: the embedded engine cannot honour '{key}'{near}")
            elif isinstance(allowed, dict):
                is_default = given in (None, "default")  # Quarto's words for nothing more
                deeper = None if key == OWN else passed_over
                held[key] = None if is_default else mapping(below, given, allowed, deeper)
            elif (
                (asked := _asked(given, allowed)) and isinstance(allowed, set | re.Pattern) and passed_over is not None
            ):
                passed_over.append(f"{place}: the embedded engine cannot honour '{key}: {given}'; it knows {asked}")
            elif asked:
                raise UserError(f"{place}: '{key}' cannot be {given!r}; give {asked}")
            else:
                held[key] = given
        return held

    return {} if value is None else mapping(node, value, schema, passed_over)


def _asked(value: Any, allowed: Any) -> str | None:
    """Return what to give in the place of a value that a schema does not allow; None for one that it allows."""
    fits: Any
    if isinstance(allowed, re.Pattern):
        fits, asked = isinstance(value, str) and allowed.fullmatch(value), f"a text like {allowed.pattern}"
    elif isinstance(allowed, set):
        fits, asked = isinstance(value, str | int) and value in allowed, " or ".join(sorted(map(str, allowed)))
    else:
        kinds = allowed if isinstance(allowed, tuple) else (allowed,)
        fits, asked = isinstance(value, kinds), f"a {' or '.join(kind.__name__ for kind in kinds)}"
    return None if fits else asked
