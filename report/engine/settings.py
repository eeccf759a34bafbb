"""YAML with line numbers: reading a mapping, and telling the keys that nobody would honour."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import yaml

from measure.errors import UserError, did_you_mean

Schema = dict[str, Any]
"""What each key may hold: a type, the set of its values, those that are `Honoured`, their range, their `TextPattern`,
`[str]` for a list of names, or the schema of the mapping below it."""


class Honoured(frozenset[str]):
    """The values that the embedded engine honours; Quarto knows more."""


class TextPattern(NamedTuple):
    """The pattern of a text, and what a text of that pattern is."""

    pattern: re.Pattern[str]
    description: str


TEXT = (str, int, float)
FILES = (str, list)
HEADERS = (str, list, dict)
NAMES = [str]
LENGTH = TextPattern(re.compile(r"[0-9]+(\.[0-9]+)?(mm|cm|in|pt)"), "a length such as 27mm")
FILE_NAME = TextPattern(re.compile(r"(?!\.{1,2}$)[^/\\\x00-\x1f]+"), "the name of a file, without a folder")

NUMBER = "a number"
KINDS = {str: "a text", int: NUMBER, float: NUMBER, bool: "true or false", list: "a list", dict: "a mapping"}

# The keys that both engines understand in `_quarto.yml` and in the front matter.
HTML: Schema = {
    "toc": bool, "toc-location": Honoured({"left"}), "toc-depth": int, "toc-title": str, "embed-resources": {True},
    "html-math-method": {"mathml"}, "css": FILES, "include-in-header": HEADERS, "output-file": FILE_NAME,
    "theme": Honoured({"default", "none"}), "format-links": list,
}  # fmt: skip
TYPST: Schema = {
    "output-file": FILE_NAME, "papersize": Honoured({"a4", "us-letter"}), "fontsize": LENGTH,
    "margin": dict.fromkeys(("x", "y", "top", "bottom", "left", "right"), LENGTH),
    "font-paths": FILES, "include-in-header": HEADERS,
}  # fmt: skip
OWN = "roofwright"
"""The key below which a key that is unknown here is nobody's."""
DOCUMENT_SCHEMA: Schema = {
    "project": {"type": {"default"}, "output-dir": str, "execute-dir": {"project"}, "render": list},
    "title": TEXT, "subtitle": TEXT, "author": (str, list), "date": object, "lang": str, "description": TEXT,
    "keywords": list, "bibliography": FILES, "csl": str, "citeproc": {True}, "link-citations": bool,
    "number-sections": bool,
    "format": {"html": HTML, "typst": TYPST},
    "execute": {"echo": bool, "warning": bool},
    "filters": list,
    OWN: {
        "pdf": {"full"}, "chips": NAMES, "chapters": NAMES, "machines": NAMES, "models": NAMES, "figure-width": range(400, 1201),
    },
}  # fmt: skip


def read_settings(
    text: str, file: str, first_line: int, schema: Schema, passed_over: list[str] | None = None
) -> dict[str, Any]:
    """Return what the mapping that `text`, found in `file` from `first_line` on, holds by the schema.

    Quarto knows more keys than the schema, and more values of some. A sentence for each that stands there is added to
    `passed_over`; without that list they are refused.

    Raise UserError, with file and line, for YAML that cannot be read, a key that stands twice, an unknown key and a
    value outside the schema.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = first_line + (error.problem_mark.line if error.problem_mark else 0)
        raise UserError(f"{file}:{line}: this is not valid YAML: {error.problem}; correct it") from error
    except (yaml.YAMLError, ValueError) as error:  # a character that no YAML has, a 13th month
        raise UserError(f"{file}: this is not valid YAML: {' '.join(str(error).split())}; correct it") from error
    except RecursionError:
        raise UserError(f"{file}: this YAML is nested too deeply to be read; make it flatter") from None
    if root is None or values is None:
        return {}
    for key in _repeated(root):
        line = first_line + key.start_mark.line
        raise UserError(f"{file}:{line}: the key '{key.value}' stands here a second time; delete one of the two")
    return _Reader(file, first_line, passed_over).mapping(root, values, schema)


def _repeated(root: yaml.Node) -> Iterator[yaml.Node]:
    """Yield keys, anywhere below a node, that their mapping has already; YAML would take the last."""
    nodes, seen = [root], {id(root)}
    while nodes:
        node = nodes.pop()
        below = node.value if isinstance(node, yaml.SequenceNode) else []
        if isinstance(node, yaml.MappingNode):
            below = [value for _, value in node.value]
            keys = [key for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
            known: set[str] = set()
            for key in keys:
                if key.value in known:
                    yield key
                known.add(key.value)
        # an alias stands for a node that was seen, and may stand within it
        nodes += [each for each in below if id(each) not in seen]
        seen |= set(map(id, below))


class _Reader:
    """Reads mappings of one file by their schemas."""

    def __init__(self, file: str, first_line: int, passed_over: list[str] | None) -> None:
        self._file, self._first_line, self._passed_over = file, first_line, passed_over

    def mapping(self, node: yaml.Node, value: Any, schema: Schema) -> dict[str, Any]:
        """Return what a mapping holds by its schema."""
        if not isinstance(node, yaml.MappingNode):
            known = ", ".join(schema)
            raise UserError(f"{self._place(node)}: expected a mapping of {known}, found {value!r}; write one")
        held = {}
        for key_node, value_node in node.value:
            key = str(key_node.value)
            place, given, allowed = self._place(key_node), value.get(key), schema.get(key)
            if key not in schema:
                near = did_you_mean(key, schema)
                if self._passed_over is None:
                    raise UserError(f"{place}: unknown key '{key}'; known here are {', '.join(schema)}{near}")
                self._passed_over.append(f"{place}: the embedded engine cannot honour '{key}'{near}")
            elif isinstance(allowed, dict):
                reader = _Reader(self._file, self._first_line, None) if key == OWN else self
                # "default" is Quarto's word for nothing more
                held[key] = None if given in (None, "default") else reader.mapping(value_node, given, allowed)
            elif not (problem := _problem(given, allowed)):
                held[key] = given
            elif isinstance(allowed, Honoured) and self._passed_over is not None:
                self._passed_over.append(f"{place}: the embedded engine cannot honour '{key}', which {problem}")
            else:
                raise UserError(f"{place}: '{key}' {problem}")
        return held

    def _place(self, node: yaml.Node) -> str:
        return f"{self._file}:{self._first_line + node.start_mark.line}"


def _problem(value: Any, allowed: Any) -> str | None:
    """Say why a value is none of those allowed; return None where it is one."""
    match allowed:
        case set() | frozenset():
            names = " or ".join(yaml.safe_dump(v).split("\n")[0] for v in sorted(allowed, key=str))
            return None if value in list(allowed) else f"must be {names}, not {value!r}"
        case range():
            numbers = f"a whole number from {allowed[0]} to {allowed[-1]}"
            return None if value in allowed else f"must be {numbers}, not {value!r}"
        case TextPattern():
            fits = isinstance(value, str) and allowed.pattern.fullmatch(value)
            return None if fits else f"must be {allowed.description}, not {value!r}"
        case list():
            if isinstance(value, list) and value and all(isinstance(name, str) for name in value):
                return None
            return f"must be a list of names, such as [a, b], not {value!r}"
    if isinstance(value, allowed):
        return None
    kinds = allowed if isinstance(allowed, tuple) else (allowed,)
    return f"cannot be {value!r}; give {' or '.join(dict.fromkeys(KINDS[kind] for kind in kinds))}"
